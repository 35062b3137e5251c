"""`run_index.jsonl`: one line for each settled run, so that later runs and people can look back."""

import os
from collections.abc import Sequence
from typing import Any

from agent_fabric.application.ports.encryption import ENCRYPTED
from agent_fabric.domain.errors import FolderLinked
from agent_fabric.domain.events import Event, RunCancelled, RunCompleted, RunCreated, RunFailed, SpecialistsRecruited
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.effect_lines import marked_line
from agent_fabric.infrastructure.atomic_files import write_atomically
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.wire.event_lines import is_encrypted
from agent_fabric.wire.json_codec import dump_json, load_json


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
        entry = _entry(run_id, outline, events[-1])
        if entry is not None:
            self._append(entry)

    def flush(self, run_id: RunId) -> None:
        """Nothing is held back."""

    def catch_up(self, run_id: RunId, events: Sequence[Event]) -> None:
        entry = _entry(run_id, events, events[-1]) if events else None
        if entry is not None and run_id not in self._known():
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

    def _known(self) -> set[str]:
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
    return {
        "run_id": run_id,
        "ts": newest.ts,
        "prompt": prompt,
        "specialist_ids": list(next(recruited, ())),
        **outcome,
    }
