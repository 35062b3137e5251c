"""A full-text index over what runs did and said: calls, their results, and answers.

Each event is a row of its own; its number holds the run's. Words are found at their beginning, phrases as they stand.
Indexing happens in small batches beside other work, so that a store with many older runs stays usable meanwhile.
Encrypted runs are never indexed.
"""

import asyncio
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from agent_fabric.domain.approvals.events import ApprovalDecided
from agent_fabric.domain.errors import RunKeyMissing
from agent_fabric.domain.events import Body, ModelAnswered, RunCompleted, ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.models.events import PlainAnswerAccepted
from agent_fabric.domain.workflows.events import SignalReceived, StepFinished, StepStarted
from agent_fabric.infrastructure.persistence.runs.event_bodies import body_reader
from agent_fabric.infrastructure.persistence.runs.index_batches import EventIndex, IndexedText
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection
from agent_fabric.infrastructure.persistence.text_search import TextSearch, spaced

MAX_EVENT_CHARS: Final = 4_000
"""How much of an event is indexed."""
SEQ_BITS: Final = 20
"""A row's number is the run's number with the event's sequence number in its last bits."""
_KINDS: Final = tuple(
    kind.kind
    for kind in (
        ModelAnswered,
        ToolCalled,
        ToolReturned,
        ToolErred,
        ApprovalDecided,
        PlainAnswerAccepted,
        StepStarted,
        StepFinished,
        SignalReceived,
        RunCompleted,
    )
)


class RunActivityIndex:
    """Keeps the index up to date."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._catching_up: asyncio.Task[None] | None = None

    async def unindexed(self) -> int:
        """Return how many events have not been looked at."""
        return await self._database.read(_INDEX.unindexed)

    async def catch_up(self, *, patience_s: float | None = None) -> None:
        """Index what was appended since the last time; after `patience_s`, the rest is indexed in the background.

        Raises:
            StoreUnavailable: the store cannot be read or written.
        """
        task = self._catching_up
        if task is None or task.done():
            task = self._catching_up = asyncio.create_task(_INDEX.catch_up(self._database))
        await asyncio.wait([task], timeout=patience_s)
        if task.done():
            task.result()


def activity_text(connection: SqlConnection, run: int, seq: int) -> str:
    """Return what was indexed of an event; empty: nothing."""
    query = "SELECT kind, version, payload FROM events WHERE run = ? AND seq = ?"
    row = connection.execute(query, (run, seq)).fetchone()
    return "" if row is None else _text_of(connection, run, seq, *row, split=False)


def forget_activity(connection: SqlConnection, run: int) -> None:
    """Remove a run from the index, while its events are still there."""
    connection.execute(
        "DELETE FROM run_activity WHERE rowid IN (SELECT ? + seq FROM events WHERE run = ?)", (run << SEQ_BITS, run)
    )


def _row_of(run: int, seq: int, _: str) -> int | None:
    return (run << SEQ_BITS) + seq if seq >> SEQ_BITS == 0 else None


def _put(connection: SqlConnection, search: TextSearch, texts: Sequence[IndexedText]) -> None:
    connection.executemany(search.put_activity, [(row, search.indexed(text), run) for row, run, text in texts])


def _text_of(
    connection: SqlConnection, run: int, seq: int, kind: str, version: int, payload: bytes, *, split: bool = True
) -> str:
    try:
        body = body_reader(connection, run, None, whole=False)(seq, kind, version, payload)
    except (ValueError, zlib.error, RunKeyMissing):  # `fabric audit verify` tells about damage
        return ""
    parts, chars = list[str](), 0
    for part in _parts(body):
        parts.append(part[: MAX_EVENT_CHARS - chars])
        chars += len(parts[-1])
        if chars >= MAX_EVENT_CHARS:
            break
    text = " ".join(parts)
    return (spaced(text) if split else text).encode("utf-8", "replace").decode().replace("\0", " ")


def _parts(body: Body) -> Iterator[str]:
    match body:
        case ModelAnswered():
            yield body.content
        case ToolCalled():
            yield body.tool
            yield from _strings(body.args)
        case ToolReturned():
            yield from _strings(body.result)
            yield from body.wrote
        case ToolErred():
            yield body.error_message
        case ApprovalDecided():
            yield body.reason
        case PlainAnswerAccepted() | RunCompleted():
            yield from _strings(body.payload)
        case StepStarted():
            yield f"{body.step_id} {body.action}"
            yield from _strings(body.inputs)
        case StepFinished():
            yield body.error
            yield from _strings(body.outputs)
        case SignalReceived():
            yield body.name
            yield from _strings(body.data)
        case _:  # a newer program's
            return


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for each in value.values():
                yield from _strings(each)
        case list() | tuple():
            for each in value:
                yield from _strings(each)
        case _:
            return


_INDEX: Final = EventIndex(
    progress="run_activity_progress",
    kinds=_KINDS,
    max_texts=400,
    max_chars=200_000,
    row_of=_row_of,
    text_of=_text_of,
    put=_put,
)
