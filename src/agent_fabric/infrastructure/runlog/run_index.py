"""`run_index.jsonl`: one line for each settled run, so that later runs and people can look back."""

import os
from collections.abc import Sequence
from typing import Any

from agent_fabric.domain.events import Event, RunCancelled, RunCompleted, RunCreated, RunFailed, SpecialistsRecruited
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.codec import dump_json, load_json
from agent_fabric.infrastructure.runlog.layout import Layout


class RunIndex:
    """LogFollower that notes a run when it settles."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def follow(self, run_id: RunId, created: RunCreated, events: Sequence[Event], payloads: Sequence[bytes]) -> None:  # noqa: ARG002 - every follower's
        entry = _entry(run_id, created, events)
        if entry is not None:
            self._append([entry])

    def catch_up(self, run_id: RunId, events: Sequence[Event]) -> None:
        created = events[0].body if events else None
        if isinstance(created, RunCreated):
            entry = _entry(run_id, created, events)
            if entry is not None and run_id not in self._known():
                self._append([entry])

    def export(self, runs: Sequence[tuple[RunId, Sequence[Event]]]) -> None:
        """Write the whole file anew."""
        entries = [
            entry
            for run_id, events in runs
            if events and isinstance(created := events[0].body, RunCreated)
            if (entry := _entry(run_id, created, events)) is not None
        ]
        fresh = self._layout.run_index.with_suffix(".jsonl.new")
        fresh.write_bytes(b"".join(dump_json(entry) + b"\n" for entry in entries))
        fresh.replace(self._layout.run_index)

    def _append(self, entries: Sequence[dict[str, Any]]) -> None:
        data = b"".join(dump_json(entry) + b"\n" for entry in entries)
        try:
            descriptor = os.open(self._layout.run_index, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                # A line that a crash tore off is ended here; readers skip what is not JSON.
                size = os.fstat(descriptor).st_size
                torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
                os.write(descriptor, b"\n" + data if torn else data)
            finally:
                os.close(descriptor)
        except OSError:
            return  # the store has it all; `logs export` writes the index again

    def _known(self) -> set[str]:
        try:
            lines = self._layout.run_index.read_bytes().splitlines()
        except OSError:
            return set()
        known: set[str] = set()
        for line in lines:
            try:
                known.add(load_json(line)["run_id"])
            except (ValueError, KeyError, TypeError):
                continue
        return known


def _entry(run_id: RunId, created: RunCreated, events: Sequence[Event]) -> dict[str, Any] | None:
    settled = events[-1]
    specialist_ids: Sequence[str] = ()
    for event in events:
        if isinstance(event.body, SpecialistsRecruited):
            specialist_ids = event.body.specialist_ids
    entry: dict[str, Any] = {"run_id": run_id, "ts": settled.ts, "prompt": created.prompt}
    match settled.body:
        case RunCompleted() as body:
            outcome = {"status": "completed", "summary": body.payload.get("summary", ""), "payload": dict(body.payload)}
            specialist_ids = body.specialist_ids
        case RunFailed() as body:
            outcome = {"status": "failed", "summary": body.message}
        case RunCancelled() as body:
            outcome = {"status": "cancelled", "summary": f"Cancelled by {body.by}"}
        case _:
            return None
    return {**entry, "specialist_ids": list(specialist_ids), **outcome}
