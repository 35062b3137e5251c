"""Finds what is left of something that was forgotten: a log is not rewritten, so it is named."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from agent_fabric.application.ports.runs import RunReader
from agent_fabric.domain.errors import RunKeyMissing, RunNotFound
from agent_fabric.domain.events import RunCreated
from agent_fabric.domain.ids import RunId

COPIES = "Backups that were made before, and exports, still hold it."


class Remains(NamedTuple):
    """Where something still stands."""

    logs: Sequence[RunId] = ()
    """Runs that are still there, and whose logs hold it."""
    sessions: Sequence[str] = ()
    """Sessions whose messages may hold it."""
    notes: Sequence[str] = (COPIES,)
    """What nobody can look up."""


async def find_remains(reader: RunReader | None, runs: Iterable[RunId]) -> Remains:
    """Return which of these runs are still there, and the sessions that they are turns of."""
    wanted = list(dict.fromkeys(runs))
    if reader is None:
        return Remains(wanted)
    logs: list[RunId] = []
    sessions: list[str] = []
    for run_id in wanted:
        try:
            (created, *_) = await reader.page(run_id, after=-1, limit=1)
        except RunNotFound:
            continue  # it was deleted, and its log with it
        except RunKeyMissing:
            logs.append(run_id)
            continue
        logs.append(run_id)
        if isinstance(created.body, RunCreated) and created.body.session:
            sessions.append(created.body.session)
    return Remains(logs, list(dict.fromkeys(sessions)))
