"""Finds runs: lists, searches, completes ids, and shows where in a run a search found it."""

import re
import sys
from collections.abc import Container, Sequence
from dataclasses import replace
from functools import partial
from math import inf
from typing import Final

from agent_fabric.application.ports.encryption import ENCRYPTED
from agent_fabric.application.ports.runs import ANY_RUN, RunPage, RunQuery, RunRecord
from agent_fabric.domain.errors import RunKeyMissing, RunNotFound
from agent_fabric.domain.events import Event
from agent_fabric.domain.identity.ownership import EVERYTHING, LOCAL_OWNER, OwnedRun, Viewer, is_owner, visibility_from
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.runs.event_bodies import body_reader, readable
from agent_fabric.infrastructure.persistence.runs.index_batches import KeptIndex
from agent_fabric.infrastructure.persistence.runs.run_reader import status_of
from agent_fabric.infrastructure.persistence.runs.run_text_index import (
    SEQ_BITS,
    RunActivityIndex,
    RunTextIndex,
    activity_text,
    hits_of,
    search_hits,
    terms_of,
    words_of,
)
from agent_fabric.infrastructure.persistence.runs.run_visibility import SEEN_BY, visible_to
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys
from agent_fabric.infrastructure.persistence.sql import Condition, Database, SqlConnection, marks
from agent_fabric.infrastructure.persistence.table import fetch
from agent_fabric.infrastructure.persistence.text_search import TextSearch

_OUTLINE = ("run_created", "recruitment", "run_complete", "run_failed")
"""The kinds of event that tell what a run was about."""
_SELECT = f"SELECT number, run_id, created_at, key, owner, {SEEN_BY} FROM runs LEFT JOIN run_keys ON run = number"  # noqa: S608 - ours
_LAST_CHARACTER = "\U0010ffff"

AT_ONCE = 200
"""Runs looked at in one go, so that other readers have their turn in between."""
INDEX_PATIENCE_S = 5.0
"""How long a search waits for the indexes when few events are missing in them."""
FEW_EVENTS = 500
"""With more, a search does not wait: it finds what is indexed, and the rest is indexed in the background."""
MAX_LOOKED_AT = 10_000
"""Runs looked at for one page; a filter that fits few of them takes several pages."""


class SqlRunCatalogue:
    """RunListing over the store; it may leave out runs that are `encrypted`."""

    def __init__(self, database: Database, *, encrypted: bool = True) -> None:
        self._database = database
        self._encrypted = encrypted
        self._index, self._activity = RunTextIndex(database), RunActivityIndex(database)

    async def recent(self, *, limit: int) -> Sequence[RunRecord]:
        seen = await self._database.read(partial(self._records, wanted=RunQuery(limit=limit)))
        return [record for _, record in seen]

    async def search(
        self,
        query: str,
        *,
        limit: int,
        viewer: Viewer = EVERYTHING,
        only: RunQuery = ANY_RUN,
    ) -> Sequence[RunRecord]:
        terms = terms_of(query)
        if not terms:
            return []
        await self._catch_up(self._index, self._activity)
        text_search = self._database.dialect.text_search
        hits = search_hits(text_search, terms)
        visible, wanted = visible_to(viewer), _wanted_condition(only)
        ranked = (
            f"SELECT number, score, near, owner FROM ({hits.sql}) AS hits JOIN runs ON number = run"  # noqa: S608 - ours
            f" WHERE {visible.sql} AND {wanted.sql}"
        )
        rows = await fetch(self._database, ranked, *hits.values, *visible.values, *wanted.values)
        best = {number: (score, near) for number, score, near, owner in rows if _may_own(only.owner, owner)}
        if self._encrypted:
            opened = await self._encrypted_hits(terms, viewer)
            best |= {number: (score, score) for number, score in opened.items()}
        numbers = sorted(best, key=lambda number: (best[number], number), reverse=True)
        found = await self._first_matching(numbers, only, limit)
        shown: list[RunRecord] = []
        for first in range(0, len(found), AT_ONCE):
            some = partial(_with_passages, search=text_search, found=found[first : first + AT_ONCE], terms=terms)
            shown += await self._database.read(some)
        return shown

    async def _first_matching(self, numbers: Sequence[int], only: RunQuery, limit: int) -> list[RunRecord]:
        """Return the first runs that fit: what only a log tells, such as old owners, is looked up for each."""
        found: list[RunRecord] = []
        at_once = AT_ONCE if _is_particular(only) else min(limit, AT_ONCE)
        for first in range(0, len(numbers), at_once):
            records = await self._database.read(partial(self.by_number, numbers=numbers[first : first + at_once]))
            found += filter(only.matches, records)
            if len(found) >= limit:
                break
        return found[:limit]

    async def count_unindexed(self) -> int:
        return await self._activity.count_unindexed()

    async def _encrypted_hits(self, words: Sequence[str], viewer: Viewer) -> dict[int, int]:
        """Return how many words each encrypted run has. They are in no index, so each has to be opened."""
        scores: dict[int, int] = {}
        visible = visible_to(viewer)
        query = f"{_SELECT} WHERE key IS NOT NULL AND number < ? AND {visible.sql} ORDER BY number DESC LIMIT ?"

        def read(connection: SqlConnection, older_than: int) -> list[tuple[int, RunRecord]]:
            rows = connection.execute(query, (older_than, *visible.values, AT_ONCE)).fetchall()
            return [(row[0], self._record(connection, *row)) for row in rows]

        older_than = sys.maxsize
        while records := await self._database.read(partial(read, older_than=older_than)):
            for number, record in records:
                if score := sum(word in record.text for word in words):
                    scores[number] = score
            older_than = records[-1][0]
        return scores

    async def _catch_up(self, *indexes: KeptIndex) -> None:
        """Bring indexes up to date; what they lack is indexed in the background when it would take long."""
        for index in indexes:
            await index.catch_up(patience_s=0.0 if await index.lacks_many(FEW_EVENTS) else INDEX_PATIENCE_S)

    async def update_index(self) -> None:
        await self._index.catch_up()
        await self._activity.catch_up()

    async def find(self, prefix: str) -> RunId:
        return (await self.locate(prefix)).run_id

    async def locate(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> OwnedRun:
        prefix = prefix.lower().encode("utf-8", "replace").decode()
        if not prefix:
            raise RunNotFound("No run id was given", hint="See all runs with `fabric logs list`.")

        def read(connection: SqlConnection) -> list[OwnedRun]:
            # Not LIKE: an id typed by a person may hold % or _, and this way the index is used.
            visible = visible_to(viewer)
            where = f"run_id >= ? AND run_id < ? AND {visible.sql}"
            query = f"SELECT run_id, owner, {SEEN_BY} FROM runs WHERE {where} ORDER BY run_id LIMIT 6"  # noqa: S608 - ours
            rows = connection.execute(query, (prefix, prefix + _LAST_CHARACTER, *visible.values))
            return [OwnedRun(RunId(str(run_id)), str(owner), visibility_from(seen)) for run_id, owner, seen in rows]

        found = await self._database.read(read)
        if not found:
            raise RunNotFound(f"There is no run {prefix!r}", hint="See all runs with `fabric logs list`.")
        if len(found) == 1 or found[0].run_id == prefix:  # an id that is the beginning of others comes first
            return found[0]
        ids = ", ".join(each.run_id for each in found)
        raise RunNotFound(f"Several runs begin with {prefix!r}", hint=f"Give more of the id: {ids}.")

    async def newest(self, *, viewer: Viewer = EVERYTHING, owner: str = "") -> RunId:
        visible = visible_to(viewer)
        where = f"parent IS NULL AND trial_of = '' AND (? = '' OR owner IN (?, ?)) AND {visible.sql}"
        query = f"SELECT run_id FROM runs WHERE {where} ORDER BY number DESC LIMIT 1"  # noqa: S608 - ours
        also = "" if owner == LOCAL_OWNER else owner  # stores before 0.6 have no owners
        values = (owner, owner, also, *visible.values)
        if found := await fetch(self._database, query, *values):
            return RunId(found[0][0])
        if owner:
            await self.newest(viewer=viewer)  # says if there are none at all
            raise RunNotFound(
                "None of the runs here is yours", hint="Name one of others: `fabric logs list` shows them."
            )
        raise RunNotFound("There are no runs here yet", hint='Start one with: fabric run "…"')

    async def page(self, wanted: RunQuery, *, awaited: Container[RunId] = ()) -> RunPage:
        found: list[tuple[int, RunRecord]] = []
        older_than = wanted.older_than
        if wanted.words.strip():
            await self._catch_up(self._index)
        at_once = AT_ONCE if _is_particular(wanted) else wanted.limit + 1
        for _ in range(0, MAX_LOOKED_AT, at_once):
            next_ones = partial(self._records, wanted=replace(wanted, older_than=older_than, limit=at_once))
            seen = await self._database.read(next_ones)
            listed = [(number, record.count_as_running(record.run_id in awaited)) for number, record in seen]
            found += [(number, record) for number, record in listed if wanted.matches(record)]
            if len(found) > wanted.limit:
                return RunPage([record for _, record in found[: wanted.limit]], found[wanted.limit - 1][0])
            if len(seen) < at_once:
                return RunPage([record for _, record in found], None)
            older_than = seen[-1][0]
        return RunPage([record for _, record in found], older_than)

    def by_number(self, connection: SqlConnection, numbers: Sequence[int]) -> list[RunRecord]:
        """Return one line about each of these runs, in this order; the store's own numbers name them."""
        query = f"{_SELECT} WHERE number = ?"
        return [
            self._record(connection, *row) for number in numbers for row in list(connection.execute(query, (number,)))
        ]

    def _records(self, connection: SqlConnection, wanted: RunQuery) -> list[tuple[int, RunRecord]]:
        """Return the runs that may fit, as far as the table alone can tell, each with its number."""
        words = words_of(wanted.words)
        hits = hits_of(self._database.dialect.text_search, words) if words else None
        visible, filtered = visible_to(wanted.viewer), _wanted_condition(wanted)
        having = ""
        if hits is not None:
            having = f" AND (key IS NOT NULL OR number IN (SELECT run FROM ({hits.sql}) AS hits WHERE score = ?))"  # noqa: S608 - ours
        query = (
            f"{_SELECT} WHERE (? OR key IS NULL) AND number < ? AND {filtered.sql} AND {visible.sql}{having}"
            " ORDER BY number DESC LIMIT ?"
        )
        matches = () if hits is None else (*hits.values, len(words))
        values = (
            self._encrypted,
            sys.maxsize if wanted.older_than is None else wanted.older_than,
            *filtered.values,
            *visible.values,
            *matches,
            sys.maxsize if wanted.limit < 0 else wanted.limit,
        )
        rows = connection.execute(query, values).fetchall()
        return [(row[0], self._record(connection, *row)) for row in rows]

    def _record(
        self,
        connection: SqlConnection,
        number: int,
        run_id: str,
        created_at: float,
        key: bytes | None,
        owner: str,
        visibility: str,
    ) -> RunRecord:
        try:
            outline = _outline(connection, self._database.keys, number, RunId(run_id), key)
        except RunKeyMissing:
            outline = None
        newest = connection.execute(
            "SELECT ts FROM events WHERE run = ? ORDER BY seq DESC LIMIT 1", (number,)
        ).fetchone()
        record = RunRecord.of(
            RunId(run_id),
            status_of(connection, self._database.leases, number),
            outline or (),
            created_at=created_at,
            updated_at=newest[0] if newest else created_at,
        )
        if outline is None:
            record = replace(record, prompt=ENCRYPTED, summary=ENCRYPTED, owner=owner)
        return replace(record, visibility=visibility_from(visibility))


def open_runs_only(database: Database) -> SqlRunCatalogue:
    """Return the catalogue without encrypted runs."""
    return SqlRunCatalogue(database, encrypted=False)


def _with_passages(
    connection: SqlConnection, search: TextSearch, found: Sequence[RunRecord], terms: Sequence[str]
) -> list[RunRecord]:
    return [with_passage(connection, search, record, terms) for record in found]


def _wanted_condition(wanted: RunQuery) -> Condition:
    """Return the condition under which a run may fit: time, status as far as it is stored, trials."""
    # A run whose driver died is stored as running and counts as interrupted.
    unsettled = wanted.status in (RunStatus.RUNNING, RunStatus.INTERRUPTED)
    statuses = (RunStatus.RUNNING, RunStatus.INTERRUPTED) if unsettled else (wanted.status, wanted.status)
    since, until = -inf if wanted.since is None else wanted.since, inf if wanted.until is None else wanted.until
    return Condition(
        "created_at >= ? AND created_at < ? AND (? OR status IN (?, ?))"
        " AND (? OR trial_of = '') AND (? = '' OR trial_of = ?)",
        (since, until, wanted.status is None, *statuses, wanted.trials, wanted.trial_of, wanted.trial_of),
    )


def _may_own(wanted: str, owner: str) -> bool:
    """Tell whether a run may be of an owner; stores before 0.6 do not know."""
    return not wanted or not owner or is_owner(wanted, owner)


def _is_particular(wanted: RunQuery) -> bool:
    """Tell whether runs must be looked at to know which ones are wanted."""
    return bool(wanted.words or wanted.specialist_id or wanted.status or wanted.conversation or wanted.owner)


def _outline(connection: SqlConnection, keys: RunKeys, number: int, run_id: RunId, key: bytes | None) -> list[Event]:
    read = readable(body_reader(connection, number, keys.cipher(run_id, key), whole=False))
    columns = "seq, ts, kind, version, payload"
    query = f"SELECT {columns} FROM events WHERE run = ? AND kind IN ({marks(_OUTLINE)}) ORDER BY seq"  # noqa: S608 - ours
    return [
        Event(seq, ts, None, "", read(seq, kind, version, payload))
        for seq, ts, kind, version, payload in connection.execute(query, (number, *_OUTLINE))
    ]


MAX_CHARS: Final = 160
"""Of a passage."""


_BEFORE: Final = 50
"""How much of that stands before the word."""


_PART = re.compile(r"\w+")


def with_passage(connection: SqlConnection, search: TextSearch, record: RunRecord, terms: Sequence[str]) -> RunRecord:
    """Return the record of a run with the passage in which it was found."""
    for text in (record.prompt, record.summary):
        if found := passage(text, terms):
            return replace(record, matched=found)
    text = _activity(connection, search, record, terms)
    return replace(record, matched=passage(text, terms) or _cut(_one_line(text), 0))


def passage(text: str, terms: Sequence[str]) -> str:
    """Return one line of a text around the first of some words and phrases; empty: it has none of them."""
    line = _one_line(text)
    lower = line.lower()
    places = [at for at in (lower.find(term) for term in terms) if at >= 0]
    if not places:  # the index of activity does not see what stands between words
        patterns = [r"\W+".join(map(re.escape, _PART.findall(term))) for term in terms]
        matches = (re.search(rf"\b{pattern}", lower) for pattern in patterns if pattern)
        places = [match.start() for match in matches if match is not None]
    return _cut(line, min(places)) if places else ""


def _cut(line: str, at: int) -> str:
    """Return the part of a line around a place, which begins and ends with whole words."""
    first = 0 if at <= _BEFORE else line.find(" ", at - _BEFORE, at) + 1 or at - _BEFORE
    if len(line) - first <= MAX_CHARS:
        last = len(line)
    else:
        end = line.rfind(" ", at, first + MAX_CHARS)
        last = end if end > at else first + MAX_CHARS
    return f"{'… ' * (first > 0)}{line[first:last]}{' …' * (last < len(line))}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _activity(connection: SqlConnection, search: TextSearch, record: RunRecord, terms: Sequence[str]) -> str:
    """Return the text of the first event that has one of the words."""
    row = connection.execute("SELECT number FROM runs WHERE run_id = ?", (record.run_id,)).fetchone()
    if row is None:
        return ""
    first = int(row[0]) << SEQ_BITS
    match = search.in_activity(*terms)
    query = f"SELECT rowid FROM run_activity WHERE {match.sql} AND rowid BETWEEN ? AND ? ORDER BY rowid LIMIT 1"  # noqa: S608 - ours
    hit = connection.execute(query, (*match.values, first, first + (1 << SEQ_BITS) - 1)).fetchone()
    return "" if hit is None else activity_text(connection, int(row[0]), int(hit[0]) - first)
