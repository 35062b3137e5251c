"""Full-text indexes: over the tasks and summaries of runs, and over what they did and said (calls, results, answers).

Every search first indexes what was appended since the last one, so writing a log costs nothing more. Encrypted runs
are never indexed.
"""

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from agent_fabric.domain.approvals.events import ApprovalDecided
from agent_fabric.domain.errors import RunKeyMissing
from agent_fabric.domain.events import (
    Body,
    ModelAnswered,
    RunCompleted,
    RunCreated,
    RunFailed,
    ToolCalled,
    ToolErred,
    ToolReturned,
)
from agent_fabric.domain.models.events import PlainAnswerAccepted
from agent_fabric.domain.workflows.events import SignalReceived, StepFinished, StepStarted
from agent_fabric.infrastructure.persistence.runs.event_bodies import body_reader
from agent_fabric.infrastructure.persistence.runs.index_batches import EventIndex, IndexedText, KeptIndex
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection
from agent_fabric.infrastructure.persistence.text_search import TRIGRAM, TextSearch, space_words, without_spaces

MAX_EVENT_CHARS: Final = 4_000
"""How much of an event is indexed."""
SEQ_BITS: Final = 20
"""A row's number is the run's number with the event's sequence number in its last bits."""
_ACTIVITY_KINDS: Final = tuple(
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


class RunActivityIndex(KeptIndex):
    """Keeps the index of what runs did and said up to date: words are found at their beginning, phrases as they stand.

    Each event is a row of its own; its number holds the run's. Indexing happens in small batches beside other work, so
    that a store with many older runs stays usable meanwhile.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database, _ACTIVITY_INDEX)


def activity_text(connection: SqlConnection, run: int, seq: int) -> str:
    """Return what was indexed of an event; empty: nothing."""
    query = "SELECT kind, version, payload FROM events WHERE run = ? AND seq = ?"
    row = connection.execute(query, (run, seq)).fetchone()
    return "" if row is None else _activity_text(connection, run, seq, *row, split=False)


def forget_activity(connection: SqlConnection, run: int) -> None:
    """Remove a run from the index, while its events are still there."""
    connection.execute(
        "DELETE FROM run_activity WHERE rowid IN (SELECT ? + seq FROM events WHERE run = ?)", (run << SEQ_BITS, run)
    )


def _activity_row(run: int, seq: int, _: str) -> int | None:
    return (run << SEQ_BITS) + seq if seq >> SEQ_BITS == 0 else None


def _put_activity(connection: SqlConnection, search: TextSearch, texts: Sequence[IndexedText]) -> None:
    connection.executemany(search.put_activity, [(row, search.text_to_index(text), run) for row, run, text in texts])


def _activity_text(
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
    return (space_words(text) if split else text).encode("utf-8", "replace").decode().replace("\0", " ")


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


_ACTIVITY_INDEX: Final = EventIndex(
    progress="run_activity_progress",
    kinds=_ACTIVITY_KINDS,
    max_texts=400,
    max_chars=200_000,
    row_of=_activity_row,
    text_of=_activity_text,
    put=_put_activity,
)


MAX_CHARS: Final = 20_000
"""How much of a task, and of a summary, is indexed."""
MAX_WORDS: Final = 32
"""How many words of a query count."""

_KINDS: Final = (RunCreated.kind, RunCompleted.kind, RunFailed.kind)
_WORD = re.compile(r"\w+")
_TERM = re.compile(r'"([^"]+)"|(\S+)')


class RunTextIndex(KeptIndex):
    """Keeps the index of tasks and summaries up to date.

    Words of three and more characters are found anywhere in a text, shorter ones as whole words.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database, _INDEX)


def _text_of(connection: SqlConnection, run: int, seq: int, kind: str, version: int, payload: bytes) -> str:
    try:
        body = body_reader(connection, run, None)(seq, kind, version, payload)
    except (ValueError, zlib.error, RunKeyMissing):  # `fabric audit verify` tells about damage
        return ""
    match body:
        case RunCreated():
            text = body.prompt
        case RunCompleted():
            text = str(body.payload.get("summary", ""))
        case RunFailed():
            text = body.message
        case _:  # a newer program's
            text = ""
    return _plain(text[:MAX_CHARS])


def _plain(text: str) -> str:
    return text.lower().encode("utf-8", "replace").decode().replace("\0", " ")


def _row_of(run: int, _: int, kind: str) -> int:
    return 2 * run + (kind != RunCreated.kind)


def _put(connection: SqlConnection, search: TextSearch, texts: Sequence[IndexedText]) -> None:
    rows = [search.text_row(row, text, _short_words(text), run) for row, run, text in texts]
    connection.executemany(search.put_text, rows)


def _short_words(text: str) -> list[str]:
    """Return the words that are too short for the index, each once."""
    found = {word for word in (*_WORD.findall(text), *text.split()) if len(word) < TRIGRAM}
    for part in without_spaces(text):
        found.update(part, map("".join, pairwise(part)))
    return sorted(found)


_INDEX: Final = EventIndex(
    progress="run_text_progress",
    kinds=_KINDS,
    max_texts=100,
    max_chars=100_000,
    row_of=_row_of,
    text_of=_text_of,
    put=_put,
)


def forget_text(connection: SqlConnection, run: int) -> None:
    """Remove a run from the index."""
    connection.execute("DELETE FROM run_text WHERE rowid IN (?, ?)", (2 * run, 2 * run + 1))


def words_of(query: str) -> list[str]:
    """Return the different words of a query."""
    return list(dict.fromkeys(_plain(query).split()))[:MAX_WORDS]


def terms_of(query: str) -> list[str]:
    """Return the different words of a query, and its phrases: what stands in double quotes."""
    found = (" ".join((phrase or word).split()) for phrase, word in _TERM.findall(_plain(query)))
    return list(dict.fromkeys(filter(None, found)))[:MAX_WORDS]


class Hits(NamedTuple):
    """A subquery that gives each run with the number of words that its texts have."""

    sql: str
    """Has the columns `run` and `score`."""
    values: list[str]


def search_hits(search: TextSearch, terms: list[str]) -> Hits:
    """Return the subquery for terms in tasks, summaries and activity; `near` counts those of the first two."""
    found: list[str] = []
    values: list[str] = []
    for number, term in enumerate(terms):
        text, activity = search.in_text(term), search.in_activity(term)
        found.append(
            f"SELECT rowid / 2 AS run, {number} AS term, 1 AS near FROM run_text WHERE {text.sql}"  # noqa: S608 - ours
            f" UNION SELECT rowid >> {SEQ_BITS} AS run, {number}, 0 FROM run_activity WHERE {activity.sql}"
        )
        values += (*text.values, *activity.values)
    each = " UNION ".join(found)
    sql = f"SELECT run, count(DISTINCT term) AS score, sum(near) AS near FROM ({each}) AS found GROUP BY run"  # noqa: S608 - ours
    return Hits(sql, values)


def hits_of(search: TextSearch, words: list[str]) -> Hits:
    """Return the subquery for words, of which there is at least one."""
    matches = [search.in_text(word) for word in words]
    each = " UNION ".join(
        f"SELECT rowid / 2 AS run, {number} FROM run_text WHERE {match.sql}"  # noqa: S608 - ours
        for number, match in enumerate(matches)
    )
    sql = f"SELECT run, count(*) AS score FROM ({each}) AS found GROUP BY run"  # noqa: S608 - ours
    return Hits(sql, [value for match in matches for value in match.values])
