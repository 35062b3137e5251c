"""Remembers which files of a project folder were written by runs that had read untrusted text.

A later run that reads one of them has read that text, too. A run is noted as *open* before it changes anything, and
with the files that it changed when it lets the folder go: after a crash all files of the folder count until it has
been resumed.
"""

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.policy.globs import plain_path
from agent_fabric.domain.policy.labels import file_written, files_maybe_written

if TYPE_CHECKING:  # most runs change no project folder
    from agent_fabric.domain.runs.changes import FolderSnapshot

_MAX_COMPARED_BYTES = 5_000_000
"""A larger file counts as changed."""


@dataclass(slots=True)
class _Noted:
    """What is known about a folder."""

    open: dict[str, str] = field(default_factory=dict)
    """Runs that may have written anything, and the run above all others that each works for."""
    files: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By path: the run that wrote it, and what identifies its content before; empty: there was none."""


class ExposedFiles:
    """FileOrigins in one file for each project folder, to which lines are added."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: set[tuple[str, RunId]] = set()
        self._read: dict[str, tuple[tuple[int, int], _Noted]] = {}

    def may_write(self, workspace: str, run_id: RunId, root: RunId) -> None:
        """Note that a run which has read untrusted text is about to change files of a folder."""
        if (workspace, run_id) not in self._open:
            self._add(workspace, {"open": run_id, "root": root})
            self._open.add((workspace, run_id))

    def wrote(self, workspace: str, run_id: RunId, before: "FolderSnapshot", after: "FolderSnapshot") -> None:
        """Note what such a run, or one that works for it, has changed; nothing if none was noted before."""
        known = self._note(workspace).open
        closed = sorted(each for each, root in known.items() if run_id in (each, root))
        if not closed:
            return
        changed = {
            path: old.digest if (old := before.entries.get(path)) is not None else ""
            for path, entry in after.entries.items()
            if entry.kind != "folder" and ((was := before.entries.get(path)) is None or not entry.same_as(was))
        }
        changed |= dict.fromkeys(after.left_alone, "")  # what is not watched may have been written, too
        self._add(workspace, {"run": run_id, "files": changed, "closed": closed})
        self._open.difference_update((workspace, RunId(each)) for each in closed)

    def vouch(self, workspace: str, paths: Iterable[str]) -> list[str]:
        """Take a person's word for files, or for all below a folder; return which of them were noted."""
        noted, wanted = self._note(workspace), [_plain(path) for path in paths]
        found = sorted(path for path in noted.files if any(_is_below(path, each) for each in wanted))
        everything = "" in wanted
        if found or (everything and noted.open):
            self._add(workspace, {"vouched": found, "closed": sorted(noted.open) if everything else []})
        return found

    def exposing(self, workspace: str, paths: Sequence[str], *, reader: RunId) -> str:
        """Say why files are strangers' text; empty: they are not. A folder stands for all in it."""
        noted = self._note(workspace)
        if others := noted.open.keys() - {reader}:
            return files_maybe_written(min(others))
        if not noted.files:
            return ""
        wanted = [_plain(path) for path in paths]
        for path, (run_id, before) in noted.files.items():
            if run_id == reader or not any(_is_below(path, each) or _is_below(each, path) for each in wanted):
                continue
            if _differs(Path(workspace, path), before):
                return file_written(path, run_id)
        return ""

    def _add(self, workspace: str, line: Mapping[str, Any]) -> None:
        with _explain_errors(self._folder):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._append(workspace, line)

    def _append(self, workspace: str, line: Mapping[str, Any]) -> None:
        with self._file(workspace).open("a", encoding="utf-8") as file:
            file.write(f"\n{json.dumps(line, separators=(',', ':'))}\n")  # a crash may have cut the line before
            file.flush()
            os.fsync(file.fileno())

    def _note(self, workspace: str) -> _Noted:
        path = self._file(workspace)
        with _explain_errors(path):
            try:
                status = path.stat()
            except FileNotFoundError:
                return _Noted()
            mark = (status.st_mtime_ns, status.st_size)
            known = self._read.get(workspace)
            if known is None or known[0] != mark:
                known = self._read[workspace] = (mark, _load(path.read_text(encoding="utf-8", errors="replace")))
            return known[1]

    def _file(self, workspace: str) -> Path:
        return self._folder / f"{hashlib.sha256(os.fsencode(workspace)).hexdigest()[:32]}.jsonl"


@contextmanager
def _explain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise StoreUnavailable(
            f"Whose text the files of the project are cannot be recorded in {path}: {problem.strerror or problem}",
            hint="Check that you may write to the fabric folder, and that the disk is not full.",
        ) from None


def _load(text: str) -> _Noted:
    noted = _Noted()
    for line in text.splitlines():
        try:
            said = json.loads(line)
        except ValueError:
            continue  # cut by a crash; the run is still noted as open
        if "open" in said:
            noted.open[said["open"]] = said["root"]
            continue
        for each in said["closed"]:
            noted.open.pop(each, None)
        if "run" in said:
            for path, before in said["files"].items():  # what it held before the first of them
                noted.files.setdefault(path, (said["run"], before))
        else:
            for path in said["vouched"]:
                noted.files.pop(path, None)
    return noted


def _plain(path: str) -> str:
    plain = plain_path(path)
    return "" if plain == "." else plain


def _is_below(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")


def _differs(path: Path, before: str) -> bool:
    """Tell whether a file is there and holds something else than before."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_COMPARED_BYTES or not before:
            return True
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() != before
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # what cannot be looked at is not known to be as it was
