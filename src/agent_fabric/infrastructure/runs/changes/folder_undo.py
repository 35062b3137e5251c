"""Undoes changes of a run and records each undo, one line each, beside the run's snapshots."""

import errno
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_fabric.application.ports.changes import UndoRecord
from agent_fabric.domain.errors import StoreFull, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.changes import Entry, EntryKind
from agent_fabric.domain.runs.undo import UndoStep
from agent_fabric.infrastructure.runs.changes.folder_snapshots import entry_at, open_folder
from agent_fabric.infrastructure.runs.changes.recorder import ChangeRecorder
from agent_fabric.infrastructure.runs.changes.restore import restore
from agent_fabric.infrastructure.runs.log.layout import Layout


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
                self._append(run_id, _begun(record, left))
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
        known = self._recorder.objects.known()
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


def _begun(record: UndoRecord, left: Sequence[str]) -> dict[str, Any]:
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
