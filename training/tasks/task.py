"""A task: what a person types, the files that are there, one right way to do it, and what must be true in the end.

All of it is data, so that a task can be kept as one line of JSON, played by the real loop, and judged anywhere.
"""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a tool of the loop: `shell`, `write_file`, `fix_line`, `look` or `finish_task`."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


def shell(command: str) -> Step:
    """Run a command in the folder."""
    return Step("shell", {"command": command})


def write(path: str, content: str) -> Step:
    """Write a file, whole."""
    return Step("write_file", {"path": path, "content": content})


def look() -> Step:
    """See which files there are, and how they begin. The loop begins with it: steps need it only later."""
    return Step("look")


def finish(summary: str) -> Step:
    """Say what was done and what was seen, in a sentence or two that the log holds."""
    return Step("finish_task", {"summary": summary})


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What must be true in the end. Files that are not named here must be as they were."""

    files: Mapping[str, str] = field(default_factory=dict)
    """Files with their text; spaces at ends of lines and the end of the last line do not count."""
    either: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Files of which several texts are right."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """JSON files with what they must hold, however it is laid out."""
    unordered: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Files with their lines in any order."""
    gone: Sequence[str] = ()
    """Files and folders that must not be there."""
    folders: Sequence[str] = ()
    """Folders that must be there, empty ones too."""
    prints: Mapping[str, str] = field(default_factory=dict)
    """Commands that must succeed, with what they print; run in the folder, in this order."""
    says: Sequence[str] = ()
    """Patterns (case does not count) that the last answer must have, each of them."""
    free: Sequence[str] = ()
    """Files that may be there, or be changed, as far as this check is concerned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task; see `Draw.task`."""

    template: str
    half: str
    """`train` or `test`."""
    language: str
    prompt: str
    files: Mapping[str, str]
    folders: Sequence[str] = ()
    """Empty folders that are there."""
    steps: Sequence[Step]
    check: Check

    def lay(self, folder: Path) -> None:
        """Put the files into an empty folder."""
        for each in self.folders:
            (folder / each).mkdir(parents=True, exist_ok=True)
        for name, text in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")

    def problem(self, folder: Path, answer: str) -> str:
        """Return what is wrong in the end; empty: nothing is."""
        return next(_problems(self, folder, answer), "")

    def to_json(self) -> str:
        """Return the task as one line."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, line: str) -> "Task":
        """Read what `to_json` wrote."""
        value = json.loads(line)
        steps = [Step(**each) for each in value.pop("steps")]
        return cls(**{**value, "steps": steps, "check": Check(**value["check"])})


_TRIAL_S = 20


def _problems(task: Task, folder: Path, answer: str) -> Iterator[str]:
    yield from _wrong_files(task.check, folder)
    for pattern in task.check.says:
        if not re.search(pattern, answer, re.IGNORECASE):
            yield f"the answer is {answer!r}"
    yield from _strange_files(task, folder)
    for command, printed in task.check.prints.items():
        ended = subprocess.run(
            ["bash", "-c", command], cwd=folder, capture_output=True, text=True, timeout=_TRIAL_S, check=False
        )
        if ended.returncode or _plain(ended.stdout) != _plain(printed):
            yield f"{command} printed {ended.stdout!r} {ended.stderr!r}"


def _wrong_files(check: Check, folder: Path) -> Iterator[str]:
    """Name what a check speaks of and does not find as it wants it."""
    for path, text in check.files.items():
        yield from _differs(folder, path, (text,))
    for path, texts in check.either.items():
        yield from _differs(folder, path, texts)
    for path, wanted in check.values.items():
        try:
            value = json.loads((folder / path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as problem:
            yield f"{path}: {problem}"
        else:
            if value != wanted:
                yield f"{path} holds {value!r}"
    for path, lines in check.unordered.items():
        found = _text(folder / path)
        if found is None or sorted(_plain(found).split("\n")) != sorted(lines):
            yield f"{path} has {found!r}"
    for path in check.gone:
        if (folder / path).exists():
            yield f"{path} is there"
    for path in check.folders:
        if not (folder / path).is_dir():
            yield f"{path} is no folder"


def _strange_files(task: Task, folder: Path) -> Iterator[str]:
    """Name files that the check does not speak of and that are not as they were."""
    check = task.check
    named = {*check.files, *check.either, *check.values, *check.unordered, *check.gone, *check.free}
    for path in {*task.files, *_files(folder)} - named:
        if any(path.startswith(f"{each}/") for each in (*check.gone, *check.free)):
            continue
        if path in task.files:
            yield from _differs(folder, path, (task.files[path],))
        else:
            yield f"{path} has come into being"


def _files(folder: Path) -> set[str]:
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return {path for path in found if "__pycache__" not in path and not path.startswith(".")}


def _differs(folder: Path, path: str, texts: Sequence[str]) -> Iterator[str]:
    text = _text(folder / path)
    if text is None:
        yield f"{path} is not there"
    elif _plain(text) not in [_plain(each) for each in texts]:
        yield f"{path} has {text!r}"


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _plain(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))
