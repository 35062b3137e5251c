"""What a result says, held against what the run has done."""

from collections.abc import Sequence
from typing import Any

import pytest

from agent_fabric.domain.claims import NOTHING_CHANGED, Deeds, false_claims, untested
from agent_fabric.domain.proofs import NO_PROOF, CommandRun, Proof, ProofKind
from agent_fabric.domain.test_counts import TestCount
from agent_fabric.domain.workspace_events import WorkspaceCompared

TESTED = Proof(kind=ProofKind.TESTS, command="pytest", seq=9, tests=TestCount(ran=1, passed=1, failed=0))
RAN = Proof(kind=ProofKind.PROGRAM, command="python3 calc.py", seq=9)
UNTOUCHED = WorkspaceCompared()
EDITED = WorkspaceCompared(modified=("src/calc.py",), created=("notes.md", "out/"), deleted=("old.log",))


def deeds(
    compared: WorkspaceCompared = EDITED,
    *,
    prompt: str = "Fix calc.py",
    commands: Sequence[CommandRun] = (),
    last_change: int = 5,
    elsewhere: bool = False,
    proof: Proof = NO_PROOF,
) -> Deeds:
    return Deeds(
        prompt=prompt,
        compared=compared,
        commands=commands,
        last_change=last_change,
        elsewhere=elsewhere,
        proof=proof,
    )


def said(found: Deeds, **payload: Any) -> list[str]:
    return [str(claim) for claim in false_claims({"summary": "Done.", **payload}, found)]


# ── nothing was changed ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("proof", [NO_PROOF, RAN, TESTED])
def test_a_task_that_asks_for_a_change_and_ends_with_none_is_a_boast_whatever_ran(proof: Proof) -> None:
    found = deeds(UNTOUCHED, proof=proof)
    assert said(found, summary="I fixed calc.py; the test passed.") == [NOTHING_CHANGED]


def test_a_question_needs_no_change() -> None:
    assert said(deeds(UNTOUCHED, prompt="How many lines does calc.py have?"), summary="It has 3 lines.") == []


def test_nothing_is_concluded_when_nobody_knows_how_it_was_before() -> None:
    assert said(deeds(WorkspaceCompared(known=False)), changed=["calc.py"]) == []


@pytest.mark.parametrize(
    "command",
    ["git commit -am x", "git tag v1", "pip install requests", "npm install", "bash -c 'git push origin main'"],
)
def test_what_changes_a_repository_or_packages_is_a_change_that_no_file_shows(command: str) -> None:
    prompt = "Commit the change"
    assert said(deeds(UNTOUCHED, prompt=prompt, commands=[CommandRun(command, True, 3)])) == []
    assert said(deeds(UNTOUCHED, prompt=prompt, commands=[CommandRun(command, False, 3)])) == [NOTHING_CHANGED]
    assert said(deeds(UNTOUCHED, prompt=prompt, commands=[CommandRun("git status", True, 3)])) == [NOTHING_CHANGED]


def test_a_tool_that_acts_elsewhere_may_have_changed_something() -> None:
    assert said(deeds(UNTOUCHED, elsewhere=True)) == []


# ── files ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path", ["src/calc.py", "./src/calc.py", "calc.py", "src", "src/", "notes.md", "out", "old.log", "`calc.py`"]
)
def test_a_file_that_changed_may_be_named_in_any_usual_way(path: str) -> None:
    assert said(deeds(), changed=[path]) == []


def test_a_file_that_is_as_it_was_is_named() -> None:
    assert said(deeds(), changed=["notes.md", "main.py"]) == ["main.py is said to have changed, but it is as it was"]


@pytest.mark.parametrize(
    "summary",
    [
        "Created main.py.",
        "I have fixed the file `main.py` and looked at notes.md.",
        "main.py has been updated to print 5.",
        "The program main.py was successfully modified.",
        "Deleted main.py",
    ],
)
def test_words_that_leave_no_doubt_count_as_a_claim(summary: str) -> None:
    assert said(deeds(), summary=summary) == ["main.py is said to have changed, but it is as it was"]


@pytest.mark.parametrize(
    "summary",
    [
        "Created notes.md with the three names.",
        "Fixed the bug that test_main.py showed.",
        "I did not change main.py, nothing was created in main.py.",
        "main.py should be updated next.",
        "If main.py is changed, run the tests.",
        "main.py prints 5.",
        "Fixed the failing assertion in test_x.py by editing calc.py",
    ],
)
def test_words_that_may_mean_something_else_do_not(summary: str) -> None:
    assert said(deeds(), summary=summary) == []


def test_of_very_many_changes_no_file_is_missed() -> None:
    many = WorkspaceCompared(created=("a",), more=4_000)
    assert said(deeds(many), changed=["b"]) == []


@pytest.mark.parametrize("value", [None, "calc.py", 3, [None, 4, ""], {"a": 1}])
def test_a_list_that_is_none_claims_nothing(value: object) -> None:
    assert said(deeds(), changed=value, checked=value) == []


# ── commands ──────────────────────────────────────────────────────────────────────────────────────────────────────────

RUNS = (
    CommandRun("python3 -m pytest -q tests", True, 7),
    CommandRun("python3 calc.py", True, 3),
    CommandRun("make build", False, 8),
    CommandRun("cd src && node app.js", True, 9),
)


@pytest.mark.parametrize(
    "command",
    ["python3 -m pytest -q tests", "pytest -q tests", "python -m pytest -q", "`pytest`", "node app.js", "all is well"],
)
def test_a_command_that_succeeded_after_the_last_change_may_be_named_shorter(command: str) -> None:
    assert said(deeds(commands=RUNS), checked=[command]) == []


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("python3 calc.py", "that was before the last change"),
        ("make build", "it failed"),
        ("npm test", "it did not run"),
        ("python3 other.py", "it did not run"),
        ("pytest -k nothing", "it did not run"),
    ],
)
def test_a_command_that_did_not_show_it_is_named(command: str, why: str) -> None:
    assert said(deeds(commands=RUNS), checked=[command]) == [f"`{command}` is said to have succeeded, but {why}"]


@pytest.mark.parametrize(
    ("summary", "ran", "why"),
    [
        (
            "The commit was made and pushed to origin main.",
            (),
            ["no `git commit` succeeded", "no `git push` succeeded"],
        ),
        ("Committed the fix.", (CommandRun("git commit -am fix", False, 7),), ["no `git commit` succeeded"]),
        ("Committed the fix.", (CommandRun("git add . && git -c a=b commit -m fix", True, 7),), []),
        ("Committed and pushed.", (CommandRun("git commit -m x && git push", True, 7),), []),
        ("Nothing was pushed.", (), []),
        ("The change has not been committed.", (), []),
        ("Uncommitted changes are left.", (), []),
    ],
)
def test_commits_and_pushes_are_looked_up(summary: str, ran: Sequence[CommandRun], why: list[str]) -> None:
    assert [claim.why for claim in false_claims({"summary": summary}, deeds(commands=ran))] == why


# ── tests ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

BOASTS = (
    "Fixed, the test passed.",
    "All tests pass.",
    "All 3 tests passed now",
    "The tests are passing.",
    "The unit tests have all succeeded.",
    "calc.py now passes the tests.",
)


@pytest.mark.parametrize("summary", BOASTS)
@pytest.mark.parametrize("proof", [NO_PROOF, RAN])
def test_tests_that_were_not_executed_have_not_passed(summary: str, proof: Proof) -> None:
    assert said(deeds(proof=proof), summary=summary) == [
        "tests are said to have passed, but none was executed after the last change"
    ]


@pytest.mark.parametrize("summary", BOASTS)
def test_tests_that_were_executed_may_be_told_of(summary: str) -> None:
    assert said(deeds(proof=TESTED), summary=summary) == []


@pytest.mark.parametrize(
    "summary",
    [
        "The tests do not pass.",
        "I could not make the tests pass.",
        "Run the tests: they should pass.",
        "No test passed.",
    ],
)
def test_who_does_not_say_that_tests_passed_is_believed(summary: str) -> None:
    assert said(deeds(proof=RAN), summary=summary) == []


def test_tests_of_what_was_changed_want_to_be_run() -> None:
    tested = WorkspaceCompared(modified=("calc.py",), tests=("test_calc.py",))
    assert untested(deeds(tested, proof=RAN)) == ("test_calc.py",)
    assert untested(deeds(tested)) == ("test_calc.py",)
    assert untested(deeds(tested, proof=TESTED)) == ()
