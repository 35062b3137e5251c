import pytest

from agent_fabric.domain.named_files import files_to_change, not_as_asked


@pytest.mark.parametrize(
    ("prompt", "files"),
    [
        ("How many users are in users.csv? Write just the number to count.txt.", ["count.txt"]),
        ("Copy base.ini to new.ini. Then add the line end to new.ini.", ["new.ini"]),
        ("Rename todo.md to done.md.", ["todo.md", "done.md"]),
        ("Make a folder texts and move a.txt and b.txt into it.", ["a.txt", "b.txt"]),
        ("Put this line at the top of main.py and util.py: # Acme", ["main.py", "util.py"]),
        ("The tests in test_cart.py fail. Please fix cart.py.", ["cart.py"]),
        ("Write `src/gen.py`, which writes 1 to 5 into out.txt, and run it.", ["src/gen.py", "out.txt"]),
        ("Make run.sh executable.", []),
        ("If you find errors, write them to errors.txt.", []),
        ("Do not write to log.txt.", []),
        ("Explain how to convert a.csv to b.json.", []),
        ("What does calc.py do?", []),
        ("Set the port in config.yaml to 80.", []),
        ("Rename get_usr to get_user in all files.", []),
    ],
)
def test_only_what_is_surely_meant_is_named(prompt: str, files: list[str]) -> None:
    assert list(files_to_change(prompt)) == files


def test_the_form_that_is_asked_for() -> None:
    count, path = "Write just the number to count.txt.", "Write only its path into found.txt."
    assert not_as_asked(count, "count.txt", "18 users.csv") == "number"
    assert not_as_asked(path, "found.txt", "def f():\n    pass\n") == "path"
    for prompt, file, content in (
        (count, "count.txt", " 18\n"),
        (count, "count.txt", "1,024.5 %"),
        (count, "other.txt", "18 users"),
        (path, "./found.txt", "./src/a-b.py\n"),
        ("Write the number to count.txt.", "count.txt", "18 users"),
    ):
        assert not not_as_asked(prompt, file, content)
