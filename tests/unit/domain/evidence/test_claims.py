"""What a result says, held against what the run has done."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from agent_fabric.domain.evidence.claims import (
    NOTHING_CHANGED,
    Deeds,
    failed_tests,
    false_claims,
    find_untested,
    find_weakened,
    tells_of_failures,
)
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.evidence.proofs import NO_PROOF, CommandRun, Proof
from agent_fabric.domain.evidence.suite_counts import LeftOut
from agent_fabric.domain.tools.findings import ProofKind, TestCount

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


@pytest.mark.parametrize(
    "path", [".benchmarks/", ".coverage", "htmlcov/", "htmlcov/index.html", "calc.egg-info/PKG-INFO"]
)
def test_what_tests_leave_behind_is_no_change(path: str) -> None:
    assert said(deeds(WorkspaceCompared(created=(path,)))) == [NOTHING_CHANGED]


@pytest.mark.parametrize(
    ("prompt", "summary", "boasts"),
    [
        ("calc.py, please", "I fixed add().", True),
        ("calc.py, please", "Der Fehler wurde behoben.", True),
        ("calc.py, please", "Nothing was changed, all is well.", False),
        ("calc.py, please", "calc.py adds two numbers.", False),
        ("What was fixed last?", "add was fixed last.", False),
    ],
)
def test_of_an_unclear_task_the_summary_decides(prompt: str, summary: str, boasts: bool) -> None:
    assert said(deeds(UNTOUCHED, prompt=prompt), summary=summary) == ([NOTHING_CHANGED] if boasts else [])


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
    ("prompt", "changed", "told"),
    [
        ("Fix the bug in calc.py", ("notes.md",), True),
        ("There is a bug in `src/calc.py`. Correct it.", ("notes.md",), True),
        ("Fix the bug in calc.py", ("notes.md", "data.json"), False),
        ("Fix the bug in calc.py and tell about it in notes.md", ("notes.md",), True),
        ("Fix the typo in README.md", ("README.md",), False),
        ("Add a section about calc.py to README.md", ("README.md",), False),
        ("Update the documentation of calc.py", ("README.md",), False),
        ("Explain the bug in calc.py in notes.md", ("notes.md",), False),
    ],
)
def test_a_program_is_not_put_right_by_a_text(prompt: str, changed: tuple[str, ...], told: bool) -> None:
    found = said(deeds(WorkspaceCompared(created=changed), prompt=prompt))
    assert any("only texts are different" in claim for claim in found) is told


def test_functions_are_not_found_by_unittest() -> None:
    compared = replace(TESTED_BY, beyond_unittest=("tests/test_io.py",))
    for command, left in {
        "python3 -m unittest": ("tests/test_io.py",),
        "python3 -m unittest discover -v": ("tests/test_io.py",),
        "python3 -m unittest discover -s .": ("tests/test_io.py",),
        "python3 -m unittest test_calc tests.test_io": (),
        "python3 -m pytest": (),
    }.items():
        run = ran(command, 7)
        assert find_untested(deeds(compared, commands=[run], proof=run.proof)) == left, command


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
    "Verified with pytest.",
    "The test suite is green.",
    "I ran the tests successfully.",
    "- **Tests**: ✅ passed",
    "5/5 tests passed, 0 failures.",
    "pytest passes without errors.",
    "Die Tests laufen alle erfolgreich durch.",
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
        "There are no tests, so none were run. A test that passes would be good to have.",
    ],
)
def test_who_does_not_say_that_tests_passed_is_believed(summary: str) -> None:
    assert said(deeds(proof=RAN), summary=summary) == []


def test_tests_of_what_was_changed_want_to_be_run() -> None:
    tested = WorkspaceCompared(modified=("calc.py",), tests=("test_calc.py",))
    assert find_untested(deeds(tested, proof=RAN)) == ("test_calc.py",)
    assert find_untested(deeds(tested)) == ("test_calc.py",)
    assert find_untested(deeds(tested, proof=TESTED)) == ()


def test_a_script_of_checks_wants_to_be_run_as_the_program_that_it_is() -> None:
    scripted = WorkspaceCompared(modified=("calc.py",), check_scripts=("test_calc.py",))
    proof = Proof(kind=ProofKind.PROGRAM, command="python3 ./test_calc.py", seq=9)
    run = CommandRun("python3 ./test_calc.py", succeeded=True, seq=9, proof=proof)
    assert find_untested(deeds(scripted, commands=[run], proof=proof)) == ()
    assert said(deeds(scripted, commands=[run], proof=proof), summary="Fixed. test_calc.py now passes.") == []
    for command in ("python3 calc.py", "python3 calc.py test_calc.py"):
        named = replace(RAN, command=command)
        other = CommandRun(command, succeeded=True, seq=9, proof=named)
        assert find_untested(deeds(scripted, commands=[other], proof=named)) == ("test_calc.py",)
    assert find_untested(deeds(scripted, commands=[replace(run, seq=4)])) == ("test_calc.py",)


def ran(command: str, seq: int, *, failed: int = 0, at: float = 0.0) -> CommandRun:
    count = TestCount(ran=3, passed=3 - failed, failed=failed)
    proof = NO_PROOF if failed else Proof(kind=ProofKind.TESTS, command=command, seq=seq, tests=count)
    return CommandRun(command, not failed, seq, at=at, tests=count, proof=proof)


TESTED_BY = WorkspaceCompared(modified=("calc.py", "io.py"), tests=("test_calc.py", "tests/test_io.py"))


@pytest.mark.parametrize(
    ("commands", "left"),
    [
        (["pytest"], ()),
        (["pytest test_other.py"], ("test_calc.py", "tests/test_io.py")),
        (["pytest test_calc.py"], ("tests/test_io.py",)),
        (["pytest test_calc.py", "pytest tests"], ()),
        (["pytest", "pytest -k zero"], ()),
        (["pytest -k zero"], ("test_calc.py", "tests/test_io.py")),
    ],
)
def test_all_tests_of_the_change_want_to_be_run(commands: list[str], left: tuple[str, ...]) -> None:
    runs = [ran(command, seq) for seq, command in enumerate(commands, start=7)]
    assert find_untested(deeds(TESTED_BY, commands=runs, proof=runs[-1].proof)) == left


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("cd tests && pytest", ("test_calc.py",)),
        ("cd /tmp/copy && pytest", ("test_calc.py", "tests/test_io.py")),
        ("cd /home/me/project && pytest", ()),
        ("PYTEST_ADDOPTS='-k zero' pytest", ("test_calc.py", "tests/test_io.py")),
    ],
)
def test_it_counts_where_and_with_what_tests_are_executed(line: str, left: tuple[str, ...]) -> None:
    run = replace(ran("pytest", 7), command=line)
    done = replace(deeds(TESTED_BY, commands=[run], proof=run.proof), workspace="/home/me/project")
    assert find_untested(done) == left


def test_tests_that_a_runner_says_it_has_left_out_are_not_executed() -> None:
    run = replace(ran("make test", 7), left_out=LeftOut(deselected=1))
    assert find_untested(deeds(TESTED_BY, commands=[run], proof=run.proof)) == TESTED_BY.tests


@pytest.mark.parametrize(("functions", "left"), [(3, False), (4, True), (0, False)])
def test_no_fewer_tests_are_executed_than_there_are(functions: int, left: bool) -> None:
    # Those that may be skipped are not among the functions: whoever else skips one leaves it out.
    run = replace(ran("make test", 7), left_out=LeftOut(skipped=2))
    found = replace(TESTED_BY, test_functions=functions)
    assert find_untested(deeds(found, commands=[run], proof=run.proof)) == (found.tests if left else ())


def test_tests_before_the_last_change_do_not_count() -> None:
    runs = [ran("pytest", 3), ran("pytest test_calc.py", 7)]
    assert find_untested(deeds(TESTED_BY, commands=runs, proof=runs[-1].proof)) == ("tests/test_io.py",)
    written = WorkspaceCompared(modified=("calc.py",), tests=("test_calc.py",), touched_at=50.0)
    early, late = ran("pytest", 7, at=40.0), ran("pytest test_other.py", 8, at=60.0)
    assert find_untested(deeds(written, commands=[early, late], proof=late.proof)) == ("test_calc.py",)


@pytest.mark.parametrize(
    ("runs", "command"),
    [
        ([ran("pytest", 7, failed=1)], "pytest"),
        ([ran("pytest", 7, failed=1), ran("pytest", 8)], ""),
        ([ran("pytest", 7, failed=1), ran("pytest test_calc.py", 8)], "pytest"),
        ([ran("pytest test_calc.py", 7, failed=1), ran("pytest", 8)], ""),
        ([ran("pytest test_calc.py", 7), ran("pytest", 8, failed=2)], "pytest"),
        ([ran("pytest", 3, failed=1), ran("pytest test_calc.py", 8)], ""),
    ],
)
def test_tests_that_failed_have_to_pass(runs: list[CommandRun], command: str) -> None:
    failed = failed_tests(deeds(TESTED_BY, commands=runs))
    assert (failed.command if failed else "") == command
    assert failed_tests(deeds(UNTOUCHED, commands=runs)) is None


@pytest.mark.parametrize(
    ("summary", "tells"),
    [
        ("test_add still fails.", True),
        ("1 of 3 tests failed, as before.", True),
        ("Fixed; all tests pass.", False),
        ("Fixed the failing test; all tests pass.", False),
        ("Done, no failures.", False),
        ("Done, 0 failed.", False),
    ],
)
def test_who_tells_of_failures(summary: str, tells: bool) -> None:
    assert tells_of_failures({"summary": summary}) is tells


@pytest.mark.parametrize(
    ("prompt", "told"),
    [("Fix the failing test", True), ("Remove test_zero from test_calc.py", False), ("Simplify the tests", False)],
)
def test_tests_may_check_less_where_that_is_the_task(prompt: str, told: bool) -> None:
    less = WorkspaceCompared(modified=("test_calc.py",), weakened=("1 check of 2",))
    assert find_weakened(deeds(less, prompt=prompt)) == (("1 check of 2",) if told else ())
