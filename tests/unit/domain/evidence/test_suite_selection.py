"""Which tests a command executes."""

import pytest

from agent_fabric.domain.evidence.suite_selection import options_for_pytest, selected_by
from agent_fabric.domain.policy.working_folders import ELSEWHERE

TEST = "tests/test_calc.py"


@pytest.mark.parametrize(
    "command",
    [
        "pytest",
        "pytest -q -x --tb=short",
        "python3 -m pytest -p no:cacheprovider",
        "pytest tests",
        "pytest ./tests/",
        "pytest .",
        "pytest tests/test_calc.py tests/test_other.py",
        "pytest test_calc.py",
        "pytest /work/project/tests/test_calc.py",
        "pytest tests/test_*.py",
        "pytest --maxfail 1 tests",
        "python3 -m unittest",
        "python3 -m unittest -v tests.test_calc",
        "python3 -m unittest tests/test_calc.py",
        "python3 -m unittest discover",
        "python3 -m unittest discover -s tests -t .",
        "python3 -m unittest discover tests",
        "python3 tests/test_calc.py",
        "make test",
        "npm test",
        "tox -q",
        "make -C . test",
        "make test CC=gcc",
        "npm test -- --verbose",
        "python3 -m unittest discover -stests -ptest_*.py",
    ],
)
def test_all_tests_of_a_file_are_executed(command: str) -> None:
    assert selected_by(command).has(TEST)


@pytest.mark.parametrize(
    "command",
    [
        "pytest tests/test_other.py",
        "pytest tests/test_calc.py::test_add",
        "pytest -k zero",
        "pytest -m 'not slow' tests",
        "pytest --deselect tests/test_calc.py::test_add",
        "pytest --ignore=tests/test_calc.py",
        "pytest --lf",
        "pytest other_tests",
        "python3 -m unittest tests.test_other",
        "python3 -m unittest tests.test_calc.Calc",
        "python3 -m unittest tests.test_calc.Calc.test_add",
        "python3 -m unittest -k zero",
        "python3 -m unittest discover -p 'test_o*.py'",
        "python3 -m unittest discover -s other",
        "python3 tests/test_other.py",
        "pytest -o addopts=-kzero",
        "pytest -o testpaths=other",
        "pytest --override-ini=python_files=test_o*.py",
        "python3 -m unittest discover --pattern=test_o*.py",
        "python3 -m unittest discover -ptest_o*.py",
        "python3 -m unittest discover -sother",
        "make -C other test",
        "make -Cother test",
        "make --directory=other test",
        "make test ARGS='-k zero'",
        "make test TESTS=tests/test_other.py",
        "npm --prefix other test",
        "npm test -- -t zero",
        "npm test -- other.test.js",
        "tox -- tests/test_other.py",
        "tox -q -- -k zero",
    ],
)
def test_only_others_or_a_part_are_executed(command: str) -> None:
    assert not selected_by(command).has(TEST)


@pytest.mark.parametrize(
    ("command", "test", "all_of_it"),
    [
        ("go test ./...", "pkg/calc_test.go", True),
        ("go test ./pkg", "pkg/calc_test.go", True),
        ("go test ./other", "pkg/calc_test.go", False),
        ("go test -run TestZero ./...", "pkg/calc_test.go", False),
        ("cargo test", "tests/calc.rs", True),
        ("cargo test zero", "tests/calc.rs", False),
        ("jest calc", "src/calc.test.js", True),
        ("jest other", "src/calc.test.js", False),
        ("jest -t zero", "src/calc.test.js", False),
        ("node --test", "calc.test.js", True),
        ("bash 'unfinished", "calc.test.js", True),
    ],
)
def test_runners_of_other_languages(command: str, test: str, all_of_it: bool) -> None:
    assert selected_by(command).has(test) is all_of_it


@pytest.mark.parametrize(
    ("named", "executed"),
    [
        ("test_calc.py", {"test_calc.py"}),  # and not the one in the other folder
        ("sub/test_calc.py", {"sub/test_calc.py"}),
        ("sub", {"sub/test_calc.py"}),
        ("old/test_calc.py", set()),
        (".", {"test_calc.py", "sub/test_calc.py"}),
        ("..", {"test_calc.py", "sub/test_calc.py"}),
    ],
)
def test_a_name_means_one_file(named: str, executed: set[str]) -> None:
    assert selected_by(f"pytest {named}").of(["test_calc.py", "sub/test_calc.py"]) == executed


@pytest.mark.parametrize(
    ("command", "folder", "executed"),
    [
        ("pytest", ".", {"test_calc.py", "sub/test_calc.py"}),
        ("pytest", "sub", {"sub/test_calc.py"}),
        ("pytest ..", "sub", {"test_calc.py", "sub/test_calc.py"}),
        ("pytest ../test_calc.py", "sub", {"test_calc.py"}),
        ("pytest", "..", {"test_calc.py", "sub/test_calc.py"}),
        ("pytest", ELSEWHERE, set()),
        ("pytest test_calc.py", ELSEWHERE, set()),
        ("pytest /home/me/project/test_calc.py", ".", {"test_calc.py"}),
        ("pytest /workspace/sub", ".", {"sub/test_calc.py"}),
        ("pytest /tmp/test_calc.py", ".", set()),
        ("python3 -m unittest test_calc", "sub", {"sub/test_calc.py"}),
    ],
)
def test_it_counts_where_a_command_runs(command: str, folder: str, executed: set[str]) -> None:
    found = selected_by(command).within(folder, "/home/me/project")
    assert found.of(["test_calc.py", "sub/test_calc.py"]) == executed


@pytest.mark.parametrize(
    ("line", "executed"),
    [
        ("PYTEST_ADDOPTS='-k zero' pytest", False),
        ("export PYTEST_ADDOPTS=-kzero; pytest", False),
        ("PYTEST_ADDOPTS=--tb=short pytest", True),
        ("PYTEST_ADDOPTS='unfinished pytest", True),
    ],
)
def test_options_in_the_environment_count(line: str, executed: bool) -> None:
    assert selected_by("pytest", options=options_for_pytest(line)).has(TEST) is executed


@pytest.mark.parametrize(
    ("command", "other", "includes"),
    [
        ("pytest", "pytest tests", True),
        ("pytest", "pytest -k zero", True),
        ("pytest tests", "pytest tests/test_calc.py", True),
        ("pytest -k zero", "pytest -k zero", True),
        ("pytest tests/test_calc.py", "pytest", False),
        ("pytest -k zero", "pytest", False),
        ("pytest tests/test_calc.py", "pytest tests/test_other.py", False),
    ],
)
def test_what_has_failed_is_executed_again(command: str, other: str, includes: bool) -> None:
    assert selected_by(command).includes(selected_by(other)) is includes
