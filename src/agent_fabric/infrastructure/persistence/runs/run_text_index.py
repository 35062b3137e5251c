"""A full-text index over the tasks and summaries of runs.

Words of three and more characters are found anywhere in a text, shorter ones as whole words. Every search first indexes
what was appended since the last one, so writing a log costs nothing more. Encrypted runs are never indexed.
"""

import asyncio
import re
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from agent_fabric.domain.errors import RunKeyMissing
from agent_fabric.domain.events import RunCompleted, RunCreated, RunFailed
from agent_fabric.infrastructure.persistence.runs.event_bodies import body_reader
from agent_fabric.infrastructure.persistence.runs.index_batches import EventIndex, IndexedText
from agent_fabric.infrastructure.persistence.runs.run_activity_index import SEQ_BITS
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection
from agent_fabric.infrastructure.persistence.text_search import TRIGRAM, TextSearch, without_spaces

MAX_CHARS: Final = 20_000
"""How much of a task, and of a summary, is indexed."""
MAX_WORDS: Final = 32
"""How many words of a query count."""

_KINDS: Final = (RunCreated.kind, RunCompleted.kind, RunFailed.kind)
_WORD = re.compile(r"\w+")
_TERM = re.compile(r'"([^"]+)"|(\S+)')


class RunTextIndex:
    """Keeps the index up to date."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._catching_up = asyncio.Lock()

    async def catch_up(self) -> None:
        """Index what was appended since the last time. Other reads and writes go on in between.

        Raises:
            StoreUnavailable: the store cannot be read or written.
        """
        async with self._catching_up:
            await _INDEX.catch_up(self._database)


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
