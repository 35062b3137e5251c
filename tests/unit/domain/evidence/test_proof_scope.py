"""Whether a command that succeeded says anything about what was changed."""

import pytest

from agent_fabric.domain.evidence.events import WorkspaceCompared
from agent_fabric.domain.evidence.proofs import (
    bears_on,
    chooses_programs,
    is_framed,
    own_recipes,
    replaced_runners,
)

CHANGED = WorkspaceCompared(modified=("src/calc.py",), created=("notes.md",))


@pytest.mark.parametrize(
    "command",
    [
        "python3 src/calc.py",
        "python3 main.py",
        "python3 -m calc",
        "python3 -m py_compile src/calc.py",
        "ruff check calc.py",
        "ruff check .",
        "bash check.sh",
        "make",
        "./run",
        "python3 -c 'import calc; calc.add(1, 2)'",
    ],
)
def test_what_may_use_the_change_is_believed(command: str) -> None:
    assert bears_on(command, command, CHANGED)


@pytest.mark.parametrize(
    "command",
    [
        "python3 -c pass",
        "python3 -c \"print('works')\"",
        "python3 -m py_compile other.py",
        "ruff check other.py",
        "node app.js",
        "gcc -o x x.c",
    ],
)
def test_what_cannot_use_the_change_shows_nothing(command: str) -> None:
    assert not bears_on(command, command, CHANGED)
    assert bears_on(command, command, WorkspaceCompared())
    assert bears_on(command, command, WorkspaceCompared(known=False))


def test_a_document_of_code_is_looked_at() -> None:
    assert bears_on("python3 - <<'EOF'\nfrom calc import add\nEOF", "python3 -", CHANGED)
    assert not bears_on("python3 - <<'EOF'\nprint(1)\nEOF", "python3 -", CHANGED)


def test_settings_may_be_read_by_any_program() -> None:
    settings = WorkspaceCompared(modified=("config.ini",))
    assert bears_on("python3 app.py", "python3 app.py", settings)
    assert bears_on("python3 -c \"open('config.ini')\"", "python3 -c \"open('config.ini')\"", settings)


@pytest.mark.parametrize(
    ("path", "runner"),
    [
        ("pytest.py", True),
        ("bin/pytest", True),
        ("unittest/", True),
        ("sitecustomize.py", True),
        ("pytest.ini", False),
        ("test_pytest.py", False),
    ],
)
def test_what_may_be_run_in_place_of_a_runner(path: str, runner: bool) -> None:
    assert bool(replaced_runners(WorkspaceCompared(created=(path,)))) is runner


@pytest.mark.parametrize(
    ("command", "recipe"),
    [
        ("make test", "Makefile"),
        ("npm test", "package.json"),
        ("bash run_tests.sh", "run_tests.sh"),
        ("./check", "check"),
        ("python3 test_calc.py", "test_calc.py"),
    ],
)
def test_who_wrote_what_a_command_prints(command: str, recipe: str) -> None:
    assert own_recipes(command, WorkspaceCompared(created=(recipe,))) == (recipe,)
    assert own_recipes(command, WorkspaceCompared(created=("other",))) == ()
    assert own_recipes("python3 -m pytest test_calc.py", WorkspaceCompared(created=("test_calc.py",))) == ()


@pytest.mark.parametrize(
    ("output", "framed"),
    [
        ("===== test session starts =====\ncollected 3 items\n\n===== 3 passed in 0.01s =====", True),
        ("...    [100%]\n3 passed in 0.01s", True),
        (f"...\n{'-' * 70}\nRan 3 tests in 0.001s\n\nOK", True),
        ("3 passed in 0.01s", False),
        ("Ran 3 tests in 0.001s\n\nOK", True),
        ("Ran 3 tests in 0.001s", False),
    ],
)
def test_a_runner_prints_more_than_its_summary(output: str, framed: bool) -> None:
    assert is_framed(output) is framed


@pytest.mark.parametrize(
    ("line", "chooses"),
    [
        ("PATH=/tmp/bin:$PATH pytest", True),
        ("export PATH=bin:$PATH && pytest", True),
        ("PYTHONPATH=. pytest", True),
        ("pytest", False),
        ("echo $PATH && pytest", False),
        ("MYPATH=x pytest", False),
    ],
)
def test_who_says_where_programs_are_looked_for_may_run_any(line: str, chooses: bool) -> None:
    assert chooses_programs(line) is chooses
