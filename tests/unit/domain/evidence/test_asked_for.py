"""What a task asks for, told by its words."""

import pytest

from agent_fabric.domain.evidence.asked_for import AskedFor, asked_for

CHANGES = (
    "Fix the failing test.",
    "Create a file hello.py that prints the first ten primes, run it, and tell me the output.",
    "Please rename config.ini to settings.ini",
    "Can you add a docstring to every function in calc.py?",
    "In app.py, replace print by logging.",
    "Run the tests and fix the bug in parse()",
    "Delete old.log",
    "write a script that counts words",
    "I want you to refactor utils.py",
    "Look at data.csv. Then write the sum to total.txt",
    "- Move photo.txt into archive/",
    "Set the timeout in config.ini to 30",
    "Make a folder named reports.",
    "Update the version in pyproject.toml",
    "Your task is to implement fizzbuzz",
    "Adjust add in calc.py so that it returns the sum",
    "Support negative numbers in calc.py",
    "Improve the function add",
    "Clean up calc.py",
)
ANSWERS = (
    "How many lines does notes.txt have?",
    "What does main.py do?",
    "Summarise README.md in three sentences",
    "Explain the difference between add and update",
    "Count the words in a.txt and tell me",
    "List all files that mention TODO.",
    "Which of the two files is newer?",
    "Run the tests",
    "Find the bug in calc.py and explain it",
    "Tell me how to rename a branch",
    "Is there a file that was deleted?",
    "Why does the test fail?",
    "Do the tests pass?",
    "Was the test that fails changed?",
    "Explain why add should return 3",
    "Show the first five lines",
    "Check whether the tests pass",
    "Add up the numbers in a.txt? How much is it?",
)
UNCLEAR = (
    "",
    "hello",
    "do it",
    "have a look",
    "write a haiku about make",
    "Führe die Tests aus",
    "make sure that the tests pass",
    "fix whatever is broken",
    "Add 3 and 4",
    "update me on the state of the project",
    "Solve 3x + 2 = 5",
    "If so, write them to errors.txt.",
    "If necessary, fix calc.py",
    "Translate good morning",
    "Resolve localhost to an address",
)


@pytest.mark.parametrize("prompt", CHANGES)
def test_a_task_that_wants_a_change(prompt: str) -> None:
    assert asked_for(prompt) is AskedFor.CHANGE


@pytest.mark.parametrize("prompt", ANSWERS)
def test_a_task_that_wants_an_answer(prompt: str) -> None:
    assert asked_for(prompt) is AskedFor.ANSWER


@pytest.mark.parametrize("prompt", UNCLEAR)
def test_a_task_from_which_nothing_is_concluded(prompt: str) -> None:
    assert asked_for(prompt) is AskedFor.UNCLEAR


def test_a_huge_task_is_read_quickly() -> None:
    assert asked_for("please " * 200_000) is AskedFor.UNCLEAR
    assert asked_for("in a, " * 200_000 + "x") in set(AskedFor)
