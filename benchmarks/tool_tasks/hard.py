"""Twenty tasks of one to six steps that ask for care: exact effects, programs that must work, files that must stay."""

import csv
import io
import json
from pathlib import Path

from tool_tasks.tasks import ToolTask, numbers_in, python, text_of

_LOG = "".join(f"10.0.0.{n % 7} GET /page/{n} {404 if n % 5 == 0 else 200}\n" for n in range(1, 38))
_SALES = "day,item,amount\n" + "".join(f"2026-03-{n:02d},item{n % 3},{n * 7 + 3}\n" for n in range(1, 13))
_SALES_TOTAL = sum(int(row["amount"]) for row in csv.DictReader(io.StringIO(_SALES)))
_NAMES = "Mira\nJonas\nAda\nZoe\nBela\nKim\n"
_CALC = "def add(a, b):\n    return a - b\n\n\ndef double(x):\n    return x * 2\n"
_CALC_TEST = "from calc import add, double\n\nassert add(2, 3) == 5\nassert double(4) == 8\nprint('ok')\n"
_GREET = "def greet(name):\n    print('Hello, ' + nam)\n\n\ngreet('Ada')\n"
_SHOP = "shop:\n  name: Corner\n  port: 8000\n  debug: true\n"
_SETTINGS = json.dumps({"app": "demo", "database": {"host": "db.example.net", "port": 5432}, "timeout": 45}, indent=2)
_TEST_RUNS = (("-B", "test_stats.py"), ("-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_stats.py"))
_MEAN_CHECK = "from stats import mean; assert mean([1, 2, 3, 6]) == 3; assert mean([5]) == 5"


def _renamed(workspace: Path) -> bool:
    return text_of(workspace, "final.txt") == "a first draft" and not (workspace / "draft.txt").exists()


def _only_temporary_removed(workspace: Path) -> bool:
    return sorted(path.name for path in workspace.iterdir() if path.is_file()) == ["data.csv", "keep.txt"]


def _port_changed(workspace: Path) -> bool:
    return text_of(workspace, "shop.yml") == _SHOP.replace("8000", "9090").strip()


def _person(workspace: Path) -> bool:
    return bool(json.loads(text_of(workspace, "person.json")) == {"name": "Ada", "age": 36, "languages": ["en", "fr"]})


def _primes(workspace: Path) -> bool:
    return numbers_in(python(workspace, "primes.py").stdout) == [str(n) for n in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)]


def _tests_pass(workspace: Path) -> bool:
    untouched = text_of(workspace, "test_calc.py") == _CALC_TEST.strip()
    return untouched and python(workspace, "test_calc.py").returncode == 0


def _greets(workspace: Path) -> bool:
    ran = python(workspace, "greet.py")
    repaired = "def greet" in text_of(workspace, "greet.py")  # not replaced by a line that prints the words
    return repaired and ran.returncode == 0 and ran.stdout.strip() == "Hello, Ada"


def _spelling(workspace: Path) -> bool:
    return (
        text_of(workspace, "texts/one.txt") == "The color red.\nA color wheel."
        and text_of(workspace, "texts/two.txt") == "No change here."
        and text_of(workspace, "texts/three.txt") == "My favourite color is blue."
    )


def _statistics(workspace: Path) -> bool:
    if python(workspace, "-c", _MEAN_CHECK).returncode != 0:
        return False
    right = (workspace / "stats.py").read_text()
    passed = [python(workspace, *words).returncode == 0 for words in _TEST_RUNS]
    (workspace / "stats.py").write_text("def mean(numbers):\n    return 4\n")
    noticed = [python(workspace, *words).returncode != 0 for words in _TEST_RUNS]
    (workspace / "stats.py").write_text(right)
    # A test that nothing calls passes too: it counts only if it also notices a wrong mean.
    return any(both for both in zip(passed, noticed, strict=True) if all(both))


def _project(workspace: Path) -> bool:
    made = (workspace / "app" / "__init__.py").is_file() and text_of(workspace, "README.md").startswith("# App")
    ran = python(workspace, "app/main.py")
    return made and ran.returncode == 0 and ran.stdout.strip() == "ready"


def _squares(workspace: Path) -> bool:
    wanted = [str(n * n) for n in range(1, 11)]
    printed = python(workspace, "squares.py").stdout  # numbers that were only written down are not the task
    return numbers_in(printed) == wanted and numbers_in(text_of(workspace, "squares.txt")) == wanted


HARD = (
    ToolTask(
        "greeting",
        "Create a file hello.txt that contains exactly: Hello, world!",
        lambda here: text_of(here, "hello.txt") == "Hello, world!",
    ),
    ToolTask(
        "folder",
        "Make a folder docs with a file index.md in it. Its first line must be: # Handbook",
        lambda here: text_of(here, "docs/index.md").splitlines()[0].strip() == "# Handbook",
    ),
    ToolTask("rename", "Rename draft.txt to final.txt.", _renamed, {"draft.txt": "a first draft\n"}),
    ToolTask(
        "clean",
        "Delete all files whose name ends in .tmp. Keep everything else.",
        _only_temporary_removed,
        {"a.tmp": "x\n", "b.tmp": "y\n", "keep.txt": "z\n", "data.csv": "1,2\n"},
    ),
    ToolTask("port", "In shop.yml, change the port to 9090. Change nothing else.", _port_changed, {"shop.yml": _SHOP}),
    ToolTask(
        "lines",
        "Count the lines of access.log and write only the number into count.txt.",
        lambda here: text_of(here, "count.txt") == "37",
        {"access.log": _LOG},
    ),
    ToolTask(
        "errors",
        "How many lines of access.log end with 404? Write only the number into errors.txt.",
        lambda here: text_of(here, "errors.txt") == "7",
        {"access.log": _LOG},
    ),
    ToolTask(
        "search",
        "One of the files in the folder notes contains the word falcon. Write the name of that file into found.txt.",
        lambda here: text_of(here, "found.txt").removeprefix("./").removeprefix("notes/") == "march.txt",
        {"notes/april.txt": "an owl\n", "notes/march.txt": "I saw a falcon today\n", "notes/may.txt": "two swans\n"},
    ),
    ToolTask(
        "json",
        'Create person.json: a JSON object with name "Ada", age 36 and languages, a list of "en" and "fr".',
        _person,
    ),
    ToolTask("primes", "Write primes.py, which prints the first ten prime numbers, and run it.", _primes),
    ToolTask(
        "total",
        "sales.csv has a column amount. Add up all its values and write only the total into total.txt.",
        lambda here: text_of(here, "total.txt") in {str(_SALES_TOTAL), f"{_SALES_TOTAL}.0"},
        {"sales.csv": _SALES},
    ),
    ToolTask(
        "fix_test",
        "python3 test_calc.py fails. Fix the bug in calc.py so that it passes. Do not change test_calc.py.",
        _tests_pass,
        {"calc.py": _CALC, "test_calc.py": _CALC_TEST},
    ),
    ToolTask("fix_crash", "greet.py crashes. Fix it so that it prints: Hello, Ada", _greets, {"greet.py": _GREET}),
    ToolTask(
        "append",
        "Add the line 'Wednesday: rain' at the end of weather.txt. Keep the lines that are there.",
        lambda here: text_of(here, "weather.txt").split("\n") == ["Monday: sun", "Tuesday: wind", "Wednesday: rain"],
        {"weather.txt": "Monday: sun\nTuesday: wind\n"},
    ),
    ToolTask(
        "sort",
        "Sort the names in names.txt alphabetically and write them into sorted.txt, one per line.",
        lambda here: text_of(here, "sorted.txt").split("\n") == sorted(_NAMES.split()),
        {"names.txt": _NAMES},
    ),
    ToolTask(
        "spelling",
        "Replace the word colour by color in every file of the folder texts.",
        _spelling,
        {
            "texts/one.txt": "The colour red.\nA colour wheel.\n",
            "texts/two.txt": "No change here.\n",
            "texts/three.txt": "My favourite colour is blue.\n",
        },
    ),
    ToolTask(
        "setting",
        "Read settings.json and write the host of the database into host.txt.",
        lambda here: text_of(here, "host.txt") == "db.example.net",
        {"settings.json": _SETTINGS},
    ),
    ToolTask(
        "squares",
        "Write squares.py, which prints the squares of the numbers from 1 to 10, one per line. "
        "Run it and save what it prints in squares.txt.",
        _squares,
    ),
    ToolTask(
        "statistics",
        "Write stats.py with a function mean(numbers) that returns the arithmetic mean. Write test_stats.py, which "
        "checks with assert that mean([1, 2, 3, 6]) is 3. Run the test.",
        _statistics,
    ),
    ToolTask(
        "project",
        "Make a folder app with an empty file __init__.py and a file main.py that prints ready. "
        "Then write README.md with the title '# App' and run app/main.py.",
        _project,
    ),
)
