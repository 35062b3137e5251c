"""Which files hold tests, and of what."""

import pytest

from agent_fabric.domain.evidence.suite_files import (
    covers,
    how_to_run,
    is_test_file,
    may_test,
    names_any,
    program_names,
)


@pytest.mark.parametrize(
    "path",
    [
        "test_calc.py",
        "tests/unit/test_calc.py",
        "calc_test.py",
        "calc.test.js",
        "src/calc.spec.ts",
        "calc_test.go",
        "spec/calc_spec.rb",
        "src/test/java/CalcTest.java",
        "tests/CalcTest.php",
    ],
)
def test_names_that_runners_look_for(path: str) -> None:
    assert is_test_file(path)
    assert may_test(path)


@pytest.mark.parametrize("path", ["calc.py", "testing.py", "contest.py", "tests/data.json", "latest.js", "test.txt"])
def test_other_names(path: str) -> None:
    assert not is_test_file(path)


@pytest.mark.parametrize(
    ("path", "text", "changed"),
    [
        ("test_calc.py", "", "calc.py"),
        ("tests/test_all.py", "from calc import add\n", "calc.py"),
        ("tests/test_all.py", "import shop.calc as c\n", "src/shop/calc.py"),
        ("tests/test_all.py", "from shop import calc\n", "src/shop/__init__.py"),
        ("calc.test.js", "const { add } = require('./calc')\n", "calc.js"),
        ("tests/all.test.ts", "import { add } from '../src/calc'\n", "src/calc.ts"),
        ("calc_test.go", "package calc\n", "add.go"),
        ("src/test/java/CalcTest.java", "", "src/main/java/Calc.java"),
        ("spec/all_spec.rb", "require_relative '../calc'\n", "calc.rb"),
        ("tests/it.rs", "use shop::calc;\n", "src/calc.rs"),
    ],
)
def test_a_test_of_what_was_changed_is_found(path: str, text: str, changed: str) -> None:
    assert covers(path, text, [changed])


@pytest.mark.parametrize(
    ("path", "text", "changed"),
    [
        ("test_other.py", "from other import add\n# calc is elsewhere\n", "calc.py"),
        ("test_calc.py", "import calc\n", "notes.md"),
        ("test_calc.py", "import calc\n", "test_calc.py"),
        ("test_calculator.py", "import calculator\n", "calc.py"),
        ("pkg/calc_test.go", "package pkg\n", "other/add.go"),
    ],
)
def test_a_test_of_something_else_is_not(path: str, text: str, changed: str) -> None:
    assert not covers(path, text, [changed])


@pytest.mark.parametrize(
    ("files", "command"),
    [
        (
            ["tests/test_calc.py"],
            "python3 -m pytest tests/test_calc.py (without pytest: python3 -m unittest tests.test_calc)",
        ),
        (["a_test.go"], "go test ./..."),
        (["a.test.js"], "npm test, or node --test"),
        (["tests/a.rs"], "cargo test"),
        (["a.unknown"], "use the project's own test command."),
    ],
)
def test_how_tests_are_run(files: list[str], command: str) -> None:
    assert how_to_run(files) == command


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("from calc import add\n", True),
        ("import pkg\n", True),
        ("subprocess.run(['./my-tool.sh'])\n", True),
        ("assert 1 + 2 == 3\n", False),
        ("recalculate()\n", False),
    ],
)
def test_a_test_that_names_nothing_of_the_workspace_tests_nothing_of_it(text: str, named: bool) -> None:
    names = program_names(["calc.py", "pkg/__init__.py", "my-tool.sh", "test_new.py", "conftest.py", "notes.md"])
    assert names == {"calc", "pkg", "my-tool"}
    assert names_any(text, names) is named
    assert names_any(text, program_names(["notes.md", "test_new.py"]))
