"""What a project is made of, and which commands build, test and lint it, as far as its files tell."""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

TELLING_FILES: Final = (
    *("Makefile", "pyproject.toml", "setup.py", "setup.cfg", "ruff.toml", "package.json", "pnpm-lock.yaml"),
    *("yarn.lock", "Cargo.toml", "go.mod"),
)
"""Files at the top of a project that tell how it is built."""
_LANGUAGES: Final[Mapping[str, str]] = {
    "py": "Python",
    "js": "JavaScript",
    "jsx": "JavaScript",
    "ts": "TypeScript",
    "tsx": "TypeScript",
    "rs": "Rust",
    "go": "Go",
    "java": "Java",
    "kt": "Kotlin",
    "c": "C",
    "h": "C",
    "cc": "C++",
    "cpp": "C++",
    "cs": "C#",
    "rb": "Ruby",
    "php": "PHP",
    "swift": "Swift",
    "sh": "Shell",
    "lua": "Lua",
    "ex": "Elixir",
}
_LEFT_OUT: Final = frozenset({"node_modules", "target", "dist", "build", "venv", "vendor", "__pycache__"})
_MAX_LANGUAGES: Final = 5
_MAX_FOLDERS: Final = 20


class Purpose(StrEnum):
    """What a command is for."""

    BUILD = "build"
    TEST = "test"
    LINT = "lint"


class ProjectCommand(NamedTuple):
    """A command that the files of a project suggest."""

    purpose: Purpose
    line: str


class TriedCommand(NamedTuple):
    """A command, and what became of it."""

    purpose: Purpose
    command: str
    works: bool | None
    """None: it was not run."""
    note: str = ""
    """Why it does not work here."""


class ProjectSurvey(NamedTuple):
    """What was found out about a project."""

    languages: Sequence[str]
    folders: Sequence[str]
    commands: Sequence[TriedCommand]


def languages_of(paths: Sequence[str]) -> list[str]:
    """Return the languages of a project's files, the most used first."""
    found = Counter(
        _LANGUAGES[suffix]
        for path in paths
        if (suffix := path.rpartition(".")[2]) in _LANGUAGES and not _LEFT_OUT.intersection(path.split("/"))
    )
    return [name for name, _ in found.most_common(_MAX_LANGUAGES)]


def folders_of(paths: Sequence[str]) -> list[str]:
    """Return the folders at the top of a project that hold files of its own."""
    tops = dict.fromkeys(path.partition("/")[0] for path in paths if "/" in path)
    return [each for each in tops if not each.startswith(".") and each not in _LEFT_OUT][:_MAX_FOLDERS]


def commands_of(files: Mapping[str, str], folders: Sequence[str]) -> list[ProjectCommand]:
    """Return one command for each purpose, as the telling files suggest; what a Makefile has counts most."""
    chosen: dict[Purpose, str] = {}
    for suggest in (_of_make, _of_python, _of_node, _of_rust, _of_go):
        for purpose, line in suggest(files, folders):
            chosen.setdefault(purpose, line)
    return [ProjectCommand(purpose, chosen[purpose]) for purpose in Purpose if purpose in chosen]


_Suggested = Iterator[tuple[Purpose, str]]
_TARGETS: Final = {
    Purpose.BUILD: ("build", "all"),
    Purpose.TEST: ("test", "tests", "check"),
    Purpose.LINT: ("lint", "format-check"),
}


def _of_make(files: Mapping[str, str], _: Sequence[str]) -> _Suggested:
    targets = set(re.findall(r"^([A-Za-z][\w-]*)\s*:(?!=)", files.get("Makefile", ""), re.MULTILINE))
    for purpose, names in _TARGETS.items():
        if name := next((each for each in names if each in targets), ""):
            yield purpose, f"make {name}"


def _of_python(files: Mapping[str, str], folders: Sequence[str]) -> _Suggested:
    if not {"pyproject.toml", "setup.py", "setup.cfg"} & files.keys():
        return
    said = files.get("pyproject.toml", "")
    tools = _toml(said).get("tool", {})
    if "pytest" in said or "tests" in folders:
        yield Purpose.TEST, "python3 -m pytest -q" if "pytest" in said else "python3 -m unittest discover -s tests"
    if "ruff.toml" in files or "ruff" in tools:
        yield Purpose.LINT, "ruff check ."
    elif "mypy" in tools:
        yield Purpose.LINT, "mypy"


def _of_node(files: Mapping[str, str], _: Sequence[str]) -> _Suggested:
    try:
        package = json.loads(files.get("package.json") or "{}")
    except (ValueError, RecursionError):
        return
    scripts = package.get("scripts") if isinstance(package, dict) else None
    program = "pnpm" if "pnpm-lock.yaml" in files else "yarn" if "yarn.lock" in files else "npm"
    for purpose in Purpose:
        if isinstance(scripts, dict) and purpose.value in scripts:
            yield purpose, f"{program} run {purpose.value}"


def _of_rust(files: Mapping[str, str], _: Sequence[str]) -> _Suggested:
    if "Cargo.toml" in files:
        yield from ((Purpose.BUILD, "cargo build"), (Purpose.TEST, "cargo test"), (Purpose.LINT, "cargo clippy"))


def _of_go(files: Mapping[str, str], _: Sequence[str]) -> _Suggested:
    if "go.mod" in files:
        yield from ((Purpose.BUILD, "go build ./..."), (Purpose.TEST, "go test ./..."), (Purpose.LINT, "go vet ./..."))


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def notes_text(found: ProjectSurvey) -> str:
    """Return the notes for agents that a survey amounts to."""
    lines = ["# Notes for agents", ""]
    if found.languages:
        lines += [f"Written in {', '.join(found.languages)}.", ""]
    if found.commands:
        lines += ["## Commands", "", "From the top of the project:", "", *map(_command_line, found.commands), ""]
    if found.folders:
        lines += ["## Folders", "", *(f"- `{each}/`" for each in found.folders), ""]
    lines += ["## Conventions", "", "- Read the code around before you change it, and write as it is written.", ""]
    return "\n".join(lines)


def _command_line(tried: TriedCommand) -> str:
    said = {True: "", False: f" (does not work everywhere: {tried.note})", None: " (not tried)"}[tried.works]
    return f"- {tried.purpose.value}: `{tried.command}`{said}"
