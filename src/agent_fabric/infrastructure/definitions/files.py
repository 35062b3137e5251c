"""Definition files of some folders: found, read again when they have changed, parsed with positions.

Nothing is watched. Every lookup compares the files' times and sizes with what was read before, so a correction counts
at once.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from agent_fabric.config.files import read_beginning, reason_of
from agent_fabric.config.formats.syntax import SyntaxProblem
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.definitions.problems import Problem, locate
from agent_fabric.infrastructure.definitions.positions import Parsed, Spot, Spots, hint_for, parse_with_spots

LEADS_OUT: Final = "this is a link that leads out of its folder, so it is not read"
WHAT_TO_DO: Final = "Put the file itself here, or name its folder in the configuration."


def leads_out(path: Path) -> bool:
    """Tell whether a file or a folder is a link to a place that is not below the folder it stands in."""
    if not path.is_symlink():
        return False
    home, target = os.path.realpath(path.parent), os.path.realpath(path)
    return os.path.commonpath([home, target]) != home


MAX_BYTES: Final = 2 * 1024 * 1024
MAX_FILES: Final = 1_000

Parse = Callable[[str, str], Parsed]
"""Turns a text, by the suffix of its file, into a value. Raises SyntaxProblem."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DefinitionFile:
    """What a file says, or why it cannot be read."""

    path: Path
    parsed: Parsed | None = None
    problem: Problem | None = None

    @property
    def plain(self) -> Any:
        """The definition as plain data; None: it could not be read."""
        return None if self.parsed is None else self.parsed.value

    @property
    def name(self) -> str:
        """The name that the file gives; empty: none that can be used."""
        name = self.plain.get("name") if isinstance(self.plain, dict) else None
        return name if isinstance(name, str) else ""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Why it cannot be read."""
        return () if self.problem is None else (self.problem,)

    def locate(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        """Return problems with their lines, in the order of the file; how many more there are comes last."""
        problems = list(problems)
        spots = self.parsed.spots() if self.parsed and any(each.path for each in problems) else Spots(Spot(1, 1))
        placed: list[Problem] = []
        last: list[Problem] = []
        for each in problems:
            if not each.path and not each.step and each.message.startswith("and "):
                last.append(locate(each, file=str(self.path)))
                continue
            spot = spots.find(each.path)
            other = spots.find(each.other).line if each.other else 0
            placed.append(locate(each, file=str(self.path), line=spot.line, column=spot.column, other_line=other))
        return (*sorted(placed, key=lambda each: (each.line, each.column)), *last)


class Stamp(NamedTuple):
    """What changes when a file does."""

    modified: int
    changed: int
    size: int
    inode: int


class DefinitionFiles:
    """The files of some folders whose names say that they are definitions."""

    def __init__(
        self, folders: Sequence[Path], is_meant: Callable[[str], bool], parse: Parse = parse_with_spots
    ) -> None:
        self.folders = tuple(dict.fromkeys(folders))
        self._is_meant = is_meant
        self._parse = parse
        self._known: dict[Path, tuple[Stamp, DefinitionFile]] = {}

    def look(self) -> tuple[list[DefinitionFile], dict[Path, DefinitionFile]]:
        """Return folders that cannot be read, and all files as they are now."""
        broken: list[DefinitionFile] = []
        paths: list[Path] = []
        for folder in self.folders:
            if leads_out(folder):
                broken.append(unreadable(folder, LEADS_OUT, WHAT_TO_DO))
                continue
            try:
                here = sorted(entry.name for entry in os.scandir(folder) if self._is_meant(entry.name))
            except FileNotFoundError:
                continue
            except OSError as error:
                broken.append(unreadable(folder, f"the folder cannot be read: {error.strerror or error}"))
                continue
            if len(here) > MAX_FILES:
                message = f"the folder has {len(here)} files; only the first {MAX_FILES} are read"
                broken.append(unreadable(folder, message))
            paths += [folder / name for name in here[:MAX_FILES]]
        self._known = {path: self._known[path] for path in paths if path in self._known}
        return broken, {path: self._read(path) for path in paths}

    def _read(self, path: Path) -> DefinitionFile:
        if leads_out(path):
            return unreadable(path, LEADS_OUT, WHAT_TO_DO)
        stamp = _stamp(path)
        before = self._known.get(path)
        if before is not None and before[0] == stamp:
            return before[1]
        read = read_file(path, self._parse)
        if stamp is not None:
            self._known[path] = stamp, read
        return read


def read_file(path: Path, parse: Parse = parse_with_spots) -> DefinitionFile:
    """Read one file."""
    content = read_content(path)
    return parse_text(path, content, parse) if isinstance(content, str) else content


def parse_text(path: Path, text: str, parse: Parse = parse_with_spots) -> DefinitionFile:
    """Return what a file would say with this text."""
    try:
        return DefinitionFile(path=path, parsed=parse(text, path.suffix))
    except SyntaxProblem as problem:
        hint = hint_for(problem, text, path.suffix)
        return unreadable(path, problem.message, hint, line=problem.line, column=problem.column)


def read_content(path: Path) -> str | DefinitionFile:
    """Return the text of a file, or why it has none."""
    try:
        data = read_beginning(path, MAX_BYTES)
    except FileNotFoundError:
        return unreadable(path, "there is no such file")
    except IsADirectoryError:
        return unreadable(path, "this is a folder", "Name the file, not its folder.")
    except (OSError, ValueError) as error:
        return unreadable(path, f"it cannot be read: {reason_of(error)}")
    if data is None:
        return unreadable(path, "this is not a regular file")
    if len(data) > MAX_BYTES:
        hint = "Keep data in files of its own, and long lists out of the definition."
        return unreadable(path, f"it is larger than {MAX_BYTES // 1024 // 1024} MiB, too large for a definition", hint)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return unreadable(path, "it is not UTF-8 text", "Save the file as UTF-8.", line=line)


def unreadable(path: Path, message: str, hint: str = "", *, line: int = 0, column: int = 0) -> DefinitionFile:
    """Return a file, or a folder, of which nothing but a problem is known."""
    problem = Problem(path=(), message=message, hint=hint, file=str(path), line=line, column=column)
    return DefinitionFile(path=path, problem=problem)


def _stamp(path: Path) -> Stamp | None:
    try:
        now = path.stat()
    except OSError:
        return None
    return Stamp(now.st_mtime_ns, now.st_ctime_ns, now.st_size, now.st_ino)
