"""Workflows in files: `workflow-definitions/` in the project, or the folders that the configuration names.

Nothing is watched. Every lookup compares the files' times and sizes with what was read before and reads again what has
changed, so a correction counts at once. A broken file is listed with its problems and hides no other.
"""

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from agent_fabric.config.formats.syntax import SyntaxProblem
from agent_fabric.domain.definitions.problems import Problem, WorkflowInvalid, did_you_mean, located
from agent_fabric.domain.errors import DefinitionNotFound
from agent_fabric.domain.workflows.checks.check import NOTHING_KNOWN, problems_in
from agent_fabric.domain.workflows.checks.known import Known
from agent_fabric.domain.workflows.checks.triggers import not_armed
from agent_fabric.domain.workflows.definition import WorkflowDefinition, definition_from
from agent_fabric.infrastructure.definitions.links import LEADS_OUT, WHAT_TO_DO, leads_out
from agent_fabric.infrastructure.definitions.positions import Parsed, hint_for, parse_with_spots
from agent_fabric.infrastructure.definitions.spots import Spot, Spots

SUFFIXES: Final = (".yaml", ".yml", ".json")
MAX_BYTES: Final = 2 * 1024 * 1024
MAX_FILES: Final = 1_000
_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A workflow's file: what it says, or why it cannot be used."""

    path: Path
    plain: Any = None
    """The definition as plain data, as a run keeps it; None: it could not be read."""
    definition: WorkflowDefinition | None = None
    """None: there are problems."""
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    """What is right but may surprise, such as triggers that nothing watches yet."""

    @property
    def name(self) -> str:
        """The workflow's name; of a file that tells none, the file's."""
        name = self.plain.get("name") if isinstance(self.plain, dict) else None
        return name if isinstance(name, str) and name else self.path.stem

    def usable(self) -> WorkflowDefinition:
        """Return the workflow.

        Raises:
            WorkflowInvalid: there are problems.
        """
        if self.definition is None:
            raise WorkflowInvalid(self.problems, what=str(self.path))
        return self.definition


def read_definition(path: Path, known: Known = NOTHING_KNOWN) -> Found:
    """Read and check one file. Whatever is wrong, with the file or with what it says, stands in `problems`."""
    return _checked(_read(path), known)


def check_definition(path: Path, text: str, known: Known = NOTHING_KNOWN) -> Found:
    """Check what would stand in a file, as `read_definition` does; nothing is read."""
    return _checked(_parsed(path, text), known)


def definition_text(path: Path) -> str | None:
    """Return what stands in a file; None if it cannot be read as text, and `read_definition` says why."""
    text = _content(path)
    return text if isinstance(text, str) else None


class DefinitionFolder:
    """The workflows of some folders, by name."""

    def __init__(self, folders: Sequence[Path], known: Callable[[], Known] = Known) -> None:
        """`known` is asked at each lookup: agents and actions may have changed too."""
        self._folders = tuple(dict.fromkeys(folders))
        self._known = known
        self._files: dict[Path, tuple[_Stamp, _Read]] = {}
        self._checks: dict[Path, tuple[_Read, Known, Found]] = {}

    def list(self) -> list[Found]:
        """Return every file, by name of its workflow; broken ones have problems, and so has a folder that is."""
        broken, reads = self._look()
        known = replace(self._known(), workflows=frozenset(name for read in reads if (name := _name_in(read.plain))))
        found = [*broken, *_without_doubles([self._check(read, known) for read in reads])]
        return sorted(found, key=lambda each: (each.name, str(each.path)))

    def find(self, name: str) -> Found:
        """Return the workflow of a name, which can be run.

        Raises:
            DefinitionNotFound: there is none.
            WorkflowInvalid: its file is broken, or two files have the name.
        """
        every = self.list()
        for each in every:
            if each.name == name:
                each.usable()
                return each
        here = ", ".join(f"{folder}{'' if folder.is_dir() else ' (does not exist)'}" for folder in self._folders)
        hint = did_you_mean(name, [each.name for each in every], otherwise=f"Looked in {here}.")
        raise DefinitionNotFound(f"There is no workflow {name!r}", hint=hint)

    def _look(self) -> "tuple[Sequence[Found], Sequence[_Read]]":
        broken: list[Found] = []
        paths: list[Path] = []
        for folder in self._folders:
            if leads_out(folder):
                broken.append(_unreadable(folder, LEADS_OUT, WHAT_TO_DO).found())
                continue
            try:
                names = sorted(entry.name for entry in os.scandir(folder))
            except FileNotFoundError:
                continue
            except OSError as error:
                broken.append(_unreadable(folder, f"the folder cannot be read: {error.strerror or error}").found())
                continue
            here = [folder / name for name in names if name.endswith(SUFFIXES) and not name.startswith(".")]
            if len(here) > MAX_FILES:
                message = f"the folder has {len(here)} files; only the first {MAX_FILES} are read"
                broken.append(_unreadable(folder, message).found())
            paths += here[:MAX_FILES]
        self._files = {path: known for path, known in self._files.items() if path in set(paths)}
        self._checks = {path: known for path, known in self._checks.items() if path in set(paths)}
        return broken, [self._read(path) for path in paths]

    def _read(self, path: Path) -> "_Read":
        if leads_out(path):
            return _unreadable(path, LEADS_OUT, WHAT_TO_DO)
        stamp = _stamp(path)
        before = self._files.get(path)
        if before is not None and stamp is not None and before[0] == stamp:
            return before[1]
        read = _read(path)
        if stamp is not None:
            self._files[path] = stamp, read
        return read

    def _check(self, read: "_Read", known: Known) -> Found:
        before = self._checks.get(read.path)
        if before is not None and before[0] is read and before[1] == known:
            return before[2]
        found = _checked(read, known)
        self._checks[read.path] = read, known, found
        return found


class _Stamp(NamedTuple):
    """What changes when a file does."""

    modified: int
    changed: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Read:
    """What stands in a file, or why it cannot be read."""

    path: Path
    plain: Any = None
    parsed: Parsed | None = None
    problem: Problem | None = None

    def found(self) -> Found:
        return Found(path=self.path, problems=() if self.problem is None else (self.problem,))


def _stamp(path: Path) -> _Stamp | None:
    try:
        now = path.stat()
    except OSError:
        return None
    return _Stamp(now.st_mtime_ns, now.st_ctime_ns, now.st_size, now.st_ino)


def _read(path: Path) -> _Read:
    content = _content(path)
    return _parsed(path, content) if isinstance(content, str) else content


def _content(path: Path) -> str | _Read:
    """Return the text of a file, or why it has none."""
    if not path.name.endswith(SUFFIXES):
        return _unreadable(path, "the format cannot be told from the name", "Use a name that ends in .yaml or .json.")
    try:
        # Not blocking: opening a named pipe would otherwise wait until somebody writes into it.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return _unreadable(path, "this is not a regular file")
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return _unreadable(path, "there is no such file")
    except IsADirectoryError:
        return _unreadable(path, "this is a folder", "Name the file, not its folder.")
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return _unreadable(path, f"it cannot be read: {reason}")
    if len(data) > MAX_BYTES:
        hint = "Keep data in files of its own, and long lists out of the definition."
        return _unreadable(path, f"it is larger than {MAX_BYTES // 1024 // 1024} MiB, too large for a workflow", hint)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return _unreadable(path, "it is not UTF-8 text", "Save the file as UTF-8.", line=line)


def _parsed(path: Path, text: str) -> _Read:
    suffix = ".json" if path.suffix == ".json" else ".yaml"
    try:
        parsed = parse_with_spots(text, suffix)
    except SyntaxProblem as problem:
        hint = hint_for(problem, text, suffix)
        return _unreadable(path, problem.message, hint, line=problem.line, column=problem.column)
    return _Read(path=path, plain=parsed.value, parsed=parsed)


def _unreadable(path: Path, message: str, hint: str = "", *, line: int = 0, column: int = 0) -> _Read:
    problem = Problem(path=(), message=message, hint=hint, file=str(path), line=line, column=column)
    return _Read(path=path, problem=problem)


def _checked(read: _Read, known: Known) -> Found:
    if read.parsed is None:
        return read.found()
    problems = problems_in(read.plain, known)
    if problems:
        return Found(path=read.path, plain=read.plain, problems=_in_lines(problems, read.path, read.parsed))
    definition = definition_from(read.plain)
    return Found(path=read.path, plain=read.plain, definition=definition, notes=tuple(not_armed(definition)))


def _in_lines(problems: Iterable[Problem], path: Path, parsed: Parsed) -> tuple[Problem, ...]:
    problems = list(problems)
    spots = parsed.spots() if any(each.path for each in problems) else Spots(Spot(1, 1))
    placed: list[Problem] = []
    last: list[Problem] = []
    for each in problems:
        if not each.path and not each.step and each.message.startswith("and "):
            last.append(located(each, file=str(path)))
            continue
        spot = spots.find(each.path)
        other = spots.find(each.other).line if each.other else 0
        placed.append(located(each, file=str(path), line=spot.line, column=spot.column, other_line=other))
    return (*sorted(placed, key=lambda each: (each.line, each.column)), *last)


def _name_in(plain: Any) -> str:
    name = plain.get("name") if isinstance(plain, dict) else None
    return name if isinstance(name, str) else ""


def _without_doubles(every: list[Found]) -> list[Found]:
    """Return the files, so that none of those that share a name can be used: which one is meant would be a guess."""
    by_name: dict[str, list[Found]] = {}
    for each in every:
        if name := _name_in(each.plain):
            by_name.setdefault(name, []).append(each)
    doubles = {id(each): others for others in by_name.values() if len(others) > 1 for each in others}
    return [each if id(each) not in doubles else _doubled(each, doubles[id(each)]) for each in every]


def _doubled(found: Found, others: list[Found]) -> Found:
    names = ", ".join(str(each.path) for each in others if each is not found)
    problem = Problem(
        path=("name",),
        message=f"the name {found.name!r} is used by another file too: {names}",
        hint="Rename one of them, or take one away.",
        file=str(found.path),
    )
    return replace(found, definition=None, problems=(problem, *found.problems))
