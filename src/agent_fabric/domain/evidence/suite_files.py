"""Which files hold tests, which of them test a given file, and how they are run: told by names and imports."""

import re
from collections.abc import Iterable, Sequence
from posixpath import basename, dirname, splitext

_TEST_FILE = re.compile(
    r"test_[^/]*\.py|[^/]*_test\.py|tests?\.py"
    r"|[^/]*[._-](?:test|spec)\.[cm]?[jt]sx?"
    r"|[^/]*_test\.go|[^/]*_(?:spec|test)\.rb|[^/]*Tests?\.(?:java|kt|php|cs|scala)|test_[^/]*\.(?:rb|php|c|cpp)"
)
_SETUP = re.compile(r"conftest\.py|pytest\.ini|tox\.ini|setup\.cfg|(?:jest|vitest)\.config\.\w+|\.mocharc\.\w+")
_FOLDERS = frozenset({"test", "tests", "spec", "__tests__"})
_PROGRAM = re.compile(r"\.(?:py|[cm]?[jt]sx?|go|rs|rb|java|kt|php|cs|c|cc|cpp|h|hpp|scala|sh)$")
_IMPORTING = re.compile(r"\b(?:import|from|require|require_relative|include|use|using|mod|load|source|run|open)\b")
_TESTED = re.compile(r"^(?:test_)?(?P<stem>.+?)(?:_test|_spec|Tests?|[._-](?:test|spec))?$")


def is_test_file(path: str) -> bool:
    """Tell whether a file's name is one that test runners look for."""
    return _TEST_FILE.fullmatch(basename(path)) is not None


def decides_tests(path: str) -> bool:
    """Tell whether a file holds tests, or says which of them are executed and how."""
    return is_test_file(path) or is_test_setup(path)


def is_test_setup(path: str) -> bool:
    """Tell whether a file says which tests are executed, and how."""
    return _SETUP.fullmatch(basename(path)) is not None


def has_test_settings(path: str) -> bool:
    """Tell whether settings of tests may stand in a file among others."""
    return basename(path) in {"pyproject.toml", "package.json"}


def may_test(path: str) -> bool:
    """Tell whether a file may hold tests, so that its text is worth a look."""
    in_folder = bool(_FOLDERS & set(dirname(path).split("/")))
    return is_test_file(path) or (in_folder and path.endswith(".rs"))


def looks_like_test(path: str) -> bool:
    """Tell whether a program may hold tests under a name that runners have to be told."""
    in_folder = bool(_FOLDERS & set(dirname(path).split("/")))
    named = re.search(r"test|spec|check", basename(path), re.IGNORECASE) is not None
    return _PROGRAM.search(path) is not None and (in_folder or named)


def is_program(path: str) -> bool:
    """Tell whether a file's name is that of a program."""
    return _PROGRAM.search(path) is not None


def tested_name(path: str) -> str:
    """Return what a file of tests is named after: `calc` of `tests/test_calc.py`."""
    match = _TESTED.match(splitext(basename(path))[0])
    return match["stem"] if match else ""


def importing_lines(text: str) -> list[str]:
    """Return the lines of a program that may name others which it uses."""
    return [line for line in text.splitlines() if _IMPORTING.search(line)]


def covers(path: str, text: str, changed: Iterable[str]) -> bool:
    """Tell whether a file of tests uses one of the changed programs, as its name or its imports say."""
    tested = tested_name(path).casefold()
    importing = importing_lines(text)
    for program in changed:
        if program == path or not _PROGRAM.search(program):
            continue
        stem = splitext(basename(program))[0]
        package = basename(dirname(program)) if stem in {"__init__", "index", "mod", "lib"} else stem
        if tested == package.casefold() or (path.endswith(".go") and dirname(path) == dirname(program)):
            return True
        if any(re.search(rf"\b{re.escape(package)}\b", line) for line in importing):
            return True
    return False


def program_names(paths: Iterable[str]) -> frozenset[str]:
    """Return the words by which tests may name the programs among some files: their own names and those of folders."""
    programs = [path for path in paths if _PROGRAM.search(path) and not is_test_file(path)]
    parts = (part for path in programs for part in splitext(path)[0].split("/"))
    return frozenset(part for part in parts if part not in {"", "__init__", "conftest"})


def names_any(text: str, names: frozenset[str]) -> bool:
    """Tell whether a file of tests names a program. Where there are none, it may test anything."""
    words = frozenset(re.findall(r"\w+", text))
    return not names or not words.isdisjoint(names) or any(name in text for name in names if not name.isidentifier())


def how_to_run(files: Sequence[str]) -> str:
    """Return the command that runs files of tests, as far as their names tell."""
    first = files[0]
    if first.endswith(".py"):
        modules = " ".join(splitext(file)[0].replace("/", ".") for file in files)
        return f"python3 -m pytest {' '.join(files)} (without pytest: python3 -m unittest {modules})"
    for ending, command in _RUNNERS.items():
        if first.endswith(ending):
            return command
    return "use the project's own test command."


_RUNNERS = {
    ".go": "go test ./...",
    ".rs": "cargo test",
    ".rb": "bundle exec rspec",
    ".java": "mvn -q test, or gradle test",
    ".kt": "gradle test",
    ".php": "vendor/bin/phpunit",
    ".cs": "dotnet test",
    ".js": "npm test, or node --test",
    ".mjs": "npm test, or node --test",
    ".ts": "npm test",
    ".tsx": "npm test",
    ".jsx": "npm test",
}
