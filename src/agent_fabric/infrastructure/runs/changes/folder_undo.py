"""Undoes changes of a run and records each undo, one line each, beside the run's snapshots."""

import errno
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeGuard

from agent_fabric.application.ports.changes import UndoRecord
from agent_fabric.domain.errors import StoreFull, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.changes import REBUILDABLE, Entry, EntryKind, same
from agent_fabric.domain.runs.undo import UndoStep
from agent_fabric.infrastructure.runs.changes.folder_snapshots import entry_at, open_folder
from agent_fabric.infrastructure.runs.changes.recorder import ChangeRecorder
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.infrastructure.tree_walk import remove_tree

Content = Callable[[Entry], bytes | None]
"""Gives what a file held."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def restore(root: Path, steps: Sequence[UndoStep], content: Content) -> list[str]:
    """Carry out the steps; return the paths that were not as expected and are left alone.

    Raises:
        OSError: something cannot be written. What is done stays done, and it can be tried again.
    """
    left: set[str] = set()
    for step in steps:  # those above come first
        if _is_folder(step.current):
            _set_mode(root, step.path, step.current, at_least=0o700)
    for step in reversed(steps):
        if _clears(step) and not _remove(root, step):
            left.add(step.path)
    for step in steps:
        if step.target is not None and step.path not in left and not _put(root, step, step.target, content):
            left.add(step.path)
    for step in reversed(steps):
        as_it_stays = step.current if step.path in left else step.target
        if _is_folder(as_it_stays):
            _set_mode(root, step.path, as_it_stays)
    return sorted(left)


def _clears(step: UndoStep) -> bool:
    """Tell whether something has to go before, or instead of, something else."""
    return step.current is not None and (step.target is None or step.current.kind is not step.target.kind)


def _remove(root: Path, step: UndoStep) -> bool:
    try:
        with open_folder(root, step.path) as (folder, name):
            found = entry_at(folder, name)
            if found is None:
                return True
            if found[0].kind is EntryKind.FOLDER and _is_folder(step.current):
                return _remove_folder(folder, name)
            if not same(found[0], step.current):
                return False
            os.unlink(name, dir_fd=folder)
            return True
    except (FileNotFoundError, NotADirectoryError):
        return True  # gone with what was around it


def _remove_folder(parent: int, name: str) -> bool:
    """Remove a folder that holds nothing but what programs make again by themselves."""
    folder = os.open(name, _FOLDER, dir_fd=parent)
    try:
        with os.scandir(folder) as entries:
            made_again = [one.name for one in entries if one.name in REBUILDABLE and one.is_dir(follow_symlinks=False)]
        for one in made_again:
            remove_tree(one, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        os.rmdir(name, dir_fd=parent)
    except OSError:
        return False
    return True


def _put(root: Path, step: UndoStep, target: Entry, content: Content) -> bool:
    with open_folder(root, step.path) as (folder, name):
        found = entry_at(folder, name)
        now = found[0] if found is not None else None
        if now is not None and same(now, target):
            return True
        if target.kind is EntryKind.FOLDER:
            if now is None:
                os.mkdir(name, 0o700, dir_fd=folder)
                _give(folder, name, target)
            return now is None or now.kind is EntryKind.FOLDER
        if now is not None and (step.current is None or not same(now, step.current)):
            return False
        beside = f".fabric-undo-{hashlib.sha256(os.fsencode(step.path)).hexdigest()[:16]}.part"
        with suppress(FileNotFoundError):  # of an attempt that was killed
            os.unlink(beside, dir_fd=folder)
        if target.kind is EntryKind.LINK:
            os.symlink(target.digest, beside, dir_fd=folder)
        elif now is not None and now.same_content(target) and _chmod(folder, name, target.mode):
            return True
        else:
            data = content(target)
            if data is None:
                return False
            _write(folder, beside, data, target)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        return True


def _chmod(folder: int, name: str, mode: int) -> bool:
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return False  # not for us to open: it is written anew
    try:
        os.fchmod(file, mode)
    finally:
        os.close(file)
    return True


def _write(folder: int, name: str, data: bytes, target: Entry) -> None:
    file = os.open(name, _NEW, 0o600, dir_fd=folder)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest) :]
        _give_open(file, target)
        os.fchmod(file, target.mode)
        os.fsync(file)
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(file)


def _give(parent: int, name: str, target: Entry) -> None:
    folder = os.open(name, _FOLDER, dir_fd=parent)
    try:
        _give_open(folder, target)
    finally:
        os.close(folder)


def _give_open(file: int, target: Entry) -> None:
    now = os.fstat(file)
    if target.uid >= 0 and (now.st_uid, now.st_gid) != (target.uid, target.gid):
        with suppress(PermissionError):  # only root can give files away
            os.fchown(file, target.uid, target.gid)


def _set_mode(root: Path, path: str, target: Entry, *, at_least: int = 0) -> None:
    with suppress(FileNotFoundError, NotADirectoryError), open_folder(root, path) as (parent, name):
        folder = os.open(name, _FOLDER, dir_fd=parent)
        try:
            os.fchmod(folder, target.mode | at_least)
        finally:
            os.close(folder)


def _is_folder(entry: Entry | None) -> TypeGuard[Entry]:
    return entry is not None and entry.kind is EntryKind.FOLDER


class FolderUndo:
    """Undo on local files."""

    def __init__(self, layout: Layout, recorder: ChangeRecorder) -> None:
        self._layout = layout
        self._recorder = recorder

    def records(self, run_id: RunId) -> list[UndoRecord]:
        self._recorder.require_unlinked(run_id)
        found: dict[int, UndoRecord] = {}
        lines: list[str] = []
        with suppress(FileNotFoundError):
            lines = self._file(run_id).read_text(encoding="utf-8").splitlines()
        for line in lines:
            with suppress(ValueError, KeyError, TypeError):  # half a line: its writer was killed before it did anything
                value = json.loads(line)
                number = value["number"]
                if value["state"] == "begun":
                    found[number] = _record(value)
                else:
                    found[number] = replace(found[number], finished=True)
        return [found[number] for number in sorted(found)]

    def carry_out(self, run_id: RunId, folder: str, steps: Sequence[UndoStep], record: UndoRecord) -> list[str]:
        root = Path(folder)
        self._recorder.require_unlinked(run_id, folder)
        with self._recorder.locks.hold(root, f"An undo of run {run_id}"):
            try:
                left = self._keep(root, steps)
                todo = [step for step in steps if step.path not in left]
                self._append(run_id, _begin(record, left))
                left += restore(root, todo, lambda entry: self._recorder.objects.get(entry.digest))
                self._append(run_id, {"number": record.number, "state": "done", "left": left})
            except OSError as problem:
                if problem.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise StoreFull("The disk is full", hint="Free some space, then do the same again.") from None
                raise StoreUnavailable(
                    f"Not everything could be put back: {problem.strerror or problem}",
                    hint="Check that you may write there, then do the same again: it continues where it stopped.",
                ) from None
        return left

    def _keep(self, root: Path, steps: Sequence[UndoStep]) -> list[str]:
        """Keep what will be overwritten; return the paths at which there is something else by now."""
        left: list[str] = []
        known = self._recorder.objects.digests()
        for step in steps:
            if step.current is None or step.current.kind is not EntryKind.FILE or step.current.digest in known:
                continue
            found = None
            with suppress(OSError), open_folder(root, step.path) as (folder, name):
                found = entry_at(folder, name)
            if found is None or not found[0].same_as(step.current):
                left.append(step.path)
            elif found[1] is not None:
                self._recorder.objects.put(found[1], found[0].digest)
        return left

    def _append(self, run_id: RunId, value: dict[str, Any]) -> None:
        path = self._file(run_id)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            size = os.fstat(file).st_size
            whole = size == 0 or os.pread(file, 1, size - 1) == b"\n"
            line = json.dumps(value, separators=(",", ":")) + "\n"
            rest = memoryview((line if whole else f"\n{line}").encode())
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        finally:
            os.close(file)

    def _file(self, run_id: RunId) -> Path:
        return self._layout.changes_of(run_id) / "undos.jsonl"


def _begin(record: UndoRecord, left: Sequence[str]) -> dict[str, Any]:
    return {
        "number": record.number,
        "state": "begun",
        "at": record.at,
        "by": record.by,
        "redo": record.redo,
        "forced": record.forced,
        "steps": [list(step) for step in record.steps if step.path not in left],
    }


def _record(value: dict[str, Any]) -> UndoRecord:
    return UndoRecord(
        number=value["number"],
        at=value["at"],
        by=value["by"],
        redo=value["redo"],
        forced=value["forced"],
        steps=[UndoStep(path, _entry(current), _entry(target)) for path, current, target in value["steps"]],
    )


def _entry(row: list[Any] | None) -> Entry | None:
    return None if row is None else Entry(EntryKind(row[0]), *row[1:])
