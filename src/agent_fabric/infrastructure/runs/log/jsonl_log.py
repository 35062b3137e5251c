"""Mirrors of the store for people and scripts, never the truth.

`runlog.jsonl` is a run's log as append-only lines; `run_index.jsonl` has one line for each settled run.
"""

import errno
import os
from collections.abc import AsyncIterable, Sequence
from pathlib import Path
from typing import Any

from agent_fabric.application.ports.encryption import ENCRYPTED
from agent_fabric.domain.errors import FolderLinked
from agent_fabric.domain.events import Event, RunCancelled, RunCompleted, RunCreated, RunFailed, SpecialistsRecruited
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.effects import marked_line
from agent_fabric.infrastructure.atomic_files import write_atomically
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.wire.event_lines import encoded_line, is_encrypted, line_of
from agent_fabric.wire.json_codec import dump_json, load_json

MAX_HELD_BACK = 64
"""Lines of a run that wait at most."""


class JsonlRunLog:
    """LogFollower that appends to each run's file; an encrypted run has none, unless it is exported.

    The file is opened for every append: thousands of runs in flight must not hold thousands of descriptors. That costs,
    so lines are held back for a moment; what a crash takes away, `catch_up` writes from the store.
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._held_back: dict[RunId, list[bytes]] = {}

    def follow(
        self, run_id: RunId, outline: Sequence[Event], events: Sequence[Event], payloads: Sequence[bytes]
    ) -> None:
        held_back = self._held_back.get(run_id)
        if held_back is None:
            if is_encrypted(outline):
                return
            held_back = self._held_back[run_id] = []
        for event, payload in zip(events, payloads, strict=True):
            held_back.append(encoded_line(run_id, event, payload))
        if len(held_back) >= MAX_HELD_BACK:
            self.flush(run_id)

    def flush(self, run_id: RunId) -> None:
        lines = self._held_back.pop(run_id, [])
        if lines:
            _append(self._file(run_id), lines)

    def catch_up(self, run_id: RunId, events: Sequence[Event]) -> None:
        if is_encrypted(events):
            return
        path = self._file(run_id)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._held_back.pop(run_id, None)
        missing = events[_repair(path) + 1 :]
        _append(path, [dump_json(line_of(run_id, event)) for event in missing])

    def export(self, run_id: RunId, events: Sequence[Event]) -> Path:
        """Write the whole file anew, and return its path.

        Raises:
            FolderLinked: the run's folder has become a link.
        """
        path, fresh = self._exporting(run_id)
        _append(fresh, [dump_json(line_of(run_id, event)) for event in events])
        fresh.replace(path)
        return path

    async def export_pages(
        self, run_id: RunId, pages: AsyncIterable[Sequence[Event]], *, encrypted: bool = False
    ) -> Path | None:
        """Do the same with events that are read some at a time: a long log never lies in memory.

        Unless `encrypted`, an encrypted run is read and not written; then there is no path.

        Raises:
            FolderLinked: as above.
        """
        path: Path | None = None
        fresh: Path | None = None
        first = True
        async for events in pages:
            if first and (encrypted or not is_encrypted(events)):
                path, fresh = self._exporting(run_id)
            first = False
            if fresh is not None:
                _append(fresh, [dump_json(line_of(run_id, event)) for event in events])
        if path is not None and fresh is not None:
            fresh.replace(path)
        return path

    def _exporting(self, run_id: RunId) -> tuple[Path, Path]:
        """Return the file of a run, and a new one beside it."""
        path = self._layout.own("runs", run_id) / "runlog.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".jsonl.new")
        fresh.unlink(missing_ok=True)
        return path, fresh

    def _file(self, run_id: RunId) -> Path:
        """Return the file of a run.

        Raises:
            OSError: the run's folder has become a link.
        """
        try:
            return self._layout.own("runs", run_id) / "runlog.jsonl"
        except FolderLinked as problem:
            raise OSError(errno.ELOOP, problem.message) from None


def _append(path: Path, lines: Sequence[bytes]) -> None:
    if not lines:
        return
    data = b"\n".join(lines) + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        written = os.write(descriptor, data)
        if written < len(data):
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - written)  # no line is better than half a line
            raise OSError(errno.ENOSPC, "only a part could be written")
    finally:
        os.close(descriptor)


def _repair(path: Path) -> int:
    """Cut off a torn last line; return the sequence number of the last whole one, -1 if there is none."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return -1
    good, last = 0, -1
    with os.fdopen(descriptor, "rb") as file:
        for line in file:
            try:
                seq = load_json(line)["seq"]
            except (ValueError, KeyError, TypeError):
                break
            if not line.endswith(b"\n") or seq != last + 1:
                break
            last, good = seq, good + len(line)
        if good < os.fstat(descriptor).st_size:
            os.ftruncate(descriptor, good)
    return last


class RunIndex:
    """LogFollower that notes a run when it settles."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def follow(
        self,
        run_id: RunId,
        outline: Sequence[Event],
        events: Sequence[Event],
        payloads: Sequence[bytes],  # noqa: ARG002 - every follower's
    ) -> None:
        if events[-1].body.__class__ not in _ENDS:
            return
        entry = _entry(run_id, outline, events[-1])
        if entry is not None:
            self._append(entry)

    def flush(self, run_id: RunId) -> None:
        """Nothing is held back."""

    def catch_up(self, run_id: RunId, events: Sequence[Event]) -> None:
        entry = _entry(run_id, events, events[-1]) if events else None
        if entry is not None and run_id not in self._noted_runs():
            self._append(entry)

    def export(self, runs: Sequence[tuple[RunId, Sequence[Event]]]) -> None:
        """Write the whole file anew."""
        entries = [
            entry for run_id, events in runs if events and (entry := _entry(run_id, events, events[-1])) is not None
        ]
        write_atomically(self._layout.run_index, b"".join(dump_json(entry) + b"\n" for entry in entries))

    def _append(self, entry: dict[str, Any]) -> None:
        data = dump_json(entry) + b"\n"
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._layout.run_index, flags, 0o600)
        try:
            # A line that a crash tore off is ended here; readers skip what is not JSON.
            size = os.fstat(descriptor).st_size
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            os.write(descriptor, b"\n" + data if torn else data)
        finally:
            os.close(descriptor)

    def _noted_runs(self) -> set[str]:
        try:
            lines = self._layout.own("run_index.jsonl").read_bytes().splitlines()
        except (OSError, FolderLinked):
            return set()
        known: set[str] = set()
        for line in lines:
            try:
                known.add(load_json(line)["run_id"])
            except (ValueError, KeyError, TypeError):
                continue
        return known


_ENDS = frozenset({RunCompleted, RunFailed, RunCancelled})


def _entry(run_id: RunId, outline: Sequence[Event], newest: Event) -> dict[str, Any] | None:
    """Return a settled run's line; None for one that has not settled."""
    match newest.body:
        case RunCompleted() as body:
            said = marked_line(str(body.payload.get("summary", "")), body.effects, body.outcome)
            outcome = {"status": "completed", "summary": said, "payload": dict(body.payload)}
        case RunFailed() as body:
            outcome = {"status": "failed", "summary": body.message}
        case RunCancelled() as body:
            outcome = {"status": "cancelled", "summary": f"Cancelled by {body.by}"}
        case _:
            return None
    if is_encrypted(outline):
        hidden = {"prompt": ENCRYPTED, "specialist_ids": [], "status": outcome["status"], "summary": ENCRYPTED}
        return {"run_id": run_id, "ts": newest.ts, **hidden}
    prompt = next((event.body.prompt for event in outline if isinstance(event.body, RunCreated)), "")
    recruited = (event.body.specialist_ids for event in outline if isinstance(event.body, SpecialistsRecruited))
    return {"run_id": run_id, "ts": newest.ts, "prompt": prompt, "specialist_ids": list(next(recruited, ())), **outcome}
