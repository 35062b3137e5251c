"""Tests of something else show nothing: names in tests and imports of programs tell."""

import pytest

from agent_fabric.domain.evidence.asked_for import nothing_to_show
from agent_fabric.domain.evidence.claims import (
    Deeds,
    meant_tests_not_run,
    programs_left_untested,
    programs_meant,
    programs_without_tests,
    rewritten,
)
from agent_fabric.domain.evidence.commands import may_write_behind
from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.evidence.proofs import CommandRun, Proof
from agent_fabric.domain.evidence.python_suites import read_tests
from agent_fabric.domain.evidence.suite_counts import files_named_in
from agent_fabric.domain.tools.findings import ProofKind, TestCount

TESTS = Proof(kind=ProofKind.TESTS, command="pytest test_other.py", seq=3, tests=TestCount(ran=1, passed=1, failed=0))
PROGRAMS = {"calc.py": "def add", "other.py": "def twice", "core.py": "", "main.py": "import core", "pkg/x.py": ""}


def deeds(compared: WorkspaceCompared, prompt: str = "") -> Deeds:
    run = CommandRun(TESTS.command, True, 3, at=9.0, tests=TESTS.tests, proof=TESTS)
    return Deeds(prompt=prompt, compared=compared, commands=[run], proof=TESTS)


@pytest.mark.parametrize(
    ("program", "test", "unused"),
    [
        ("calc.py", "from other import twice", True),
        ("calc.py", "import calc", False),
        ("calc.py", "run(['python3', 'calc.py'])", False),
        ("core.py", "import main", False),
        ("pkg/x.py", "from pkg import y", False),
        ("tool.sh", "import other", False),
    ],
)
def test_a_program_is_used_by_a_test_that_names_it_or_another_that_does(program: str, test: str, unused: bool) -> None:
    assert bool(programs_without_tests([program], {"test_a.py": test}, PROGRAMS)) is unused


def test_a_task_is_about_what_is_to_be_put_right_or_asked_about() -> None:
    assert programs_meant("Fix the bug in calc.py") == ("calc.py",)
    assert programs_meant("Is calc.py right?") == ("calc.py",)
    assert programs_meant("Add a function to other.py like the one in calc.py") == ()


@pytest.mark.proves("AF-124")
def test_tests_of_something_else_are_found_out() -> None:
    meant = WorkspaceCompared(meant=("calc.py",), meant_tests=("test_calc.py",))
    assert meant_tests_not_run(deeds(meant)) == ("test_calc.py",)
    assert meant_tests_not_run(deeds(WorkspaceCompared(meant=("other.py",), meant_tests=("test_other.py",)))) == ()
    changed = WorkspaceCompared(modified=("calc.py",), without_tests=("calc.py",))
    assert programs_left_untested(deeds(changed)) == ("calc.py",)
    assert programs_left_untested(deeds(WorkspaceCompared(modified=("calc.py",)))) == ()


@pytest.mark.parametrize(
    ("prompt", "paths", "doubted"),
    [
        ("Fix the failing test", ("test_calc.py",), True),
        ("Fix the bug", ("test_calc.py",), True),
        ("Fix the bug", ("test_calc.py", "calc.py"), False),
        ("Update the tests to the new names", ("test_calc.py",), False),
        ("The expected value is wrong, correct it", ("test_calc.py",), False),
    ],
)
def test_other_expectations_alone_put_nothing_right(prompt: str, paths: tuple[str, ...], doubted: bool) -> None:
    compared = WorkspaceCompared(modified=paths, rewritten_tests=("test_calc.py",))
    assert bool(rewritten(deeds(compared, prompt))) is doubted


@pytest.mark.parametrize(
    ("body", "checks"),
    [
        ("def test():\n    assert 1 + 2 == 3", 0),
        ("def add(a, b):\n    return a + b\ndef test():\n    assert add(1, 2) == 3", 0),
        ("from unittest.mock import Mock\ndef test():\n    add = Mock(return_value=3)\n    assert add(1) == 3", 0),
        ("def test():\n    got = want = 3\n    assert got == want", 0),
        ("def test():\n    got = calc.add(1, 2)\n    assert got == 3", 1),
        ("from unittest.mock import Mock\ndef test():\n    m = Mock()\n    calc.run(m)\n    m.assert_called_once()", 1),
        ("def test():\n    got = []\n    got.append(calc.add(1, 2))\n    assert got == [3]", 1),
        (
            "def test():\n    got = []\n    def note(n):\n        got.append(n)\n    calc.run(note)\n    assert got",
            1,
        ),
        ("def test(given):\n    assert given == 3", 1),
        ("def test():\n    assert open('a.txt').read() == 'x'", 1),
        ("def check(a):\n    assert calc.add(a, 1) == a + 1\ndef test():\n    check(1)", 2),
    ],
)
def test_a_check_is_about_something_of_the_workspace(body: str, checks: int) -> None:
    found = read_tests(f"import calc\n{body}\n")
    assert found is not None
    assert found.checks == checks


def test_tests_that_say_when_they_are_skipped_are_counted() -> None:
    text = "import calc\n@skipif(x)\ndef test_a():\n    assert calc.a()\ndef test_b():\n    assert calc.b()\n"
    found = read_tests(text)
    assert found is not None
    assert (found.tests, found.may_skip) == (2, 1)


def test_files_count_only_if_the_runner_names_all_of_them() -> None:
    one, other = "test_a.py ..   [ 66%]\n", "test_b.py .   [100%]\n"
    assert files_named_in(f"{one}{other}\n=== 3 passed in 0.02s ===\n") == ("test_a.py", "test_b.py")
    assert files_named_in(f"{other}\n=== 3 passed in 0.02s ===\n") == ()
    line = "-" * 70
    assert files_named_in(f"test_x (pkg.test_a.Case.test_x) ... ok\n\n{line}\nRan 1 test in 0.000s\n\nOK\n") == (
        "pkg/test_a.py",
    )


def test_a_program_behind_the_tests_may_have_written() -> None:
    tests = "python3 -m unittest"
    assert may_write_behind(f"{tests} && python3 edit.py", tests)
    assert not may_write_behind(f"sed -i s/a/b/ a.py && {tests} && python3 main.py", tests)
    assert not may_write_behind(f"{tests} && git diff", tests)


def test_what_runs_in_an_unchanged_workspace_shows_something_only_if_that_was_asked_for() -> None:
    assert nothing_to_show("Ensure that add returns the sum", "It does.")
    assert not nothing_to_show("Make sure that the tests pass", "They do.")
    assert not nothing_to_show("Is add right?", "Yes.")
    assert not nothing_to_show("Improve whatever is bad", "Nothing had to be changed.")
