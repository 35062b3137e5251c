"""Finds runs: lists, searches, completes ids."""

from collections import Counter
from collections.abc import Sequence
from itertools import islice

import apsw

from agent_fabric.application.ports.runs import RunRecord
from agent_fabric.domain.errors import RunNotFound
from agent_fabric.domain.events import Event, RunCompleted, RunCreated, RunFailed, SpecialistsRecruited
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.codec import decode
from agent_fabric.infrastructure.persistence.event_rows import blob_from, damage_explained
from agent_fabric.infrastructure.persistence.store import Store

_OUTLINE = ("run_created", "recruitment", "run_complete", "run_failed")
"""The kinds of event that tell what a run was about."""


class SqliteRunCatalogue:
    """RunCatalogue over the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def recent(self, *, limit: int) -> Sequence[RunRecord]:
        return await self._store.read(lambda connection: self._records(connection, limit=limit))

    async def search(self, query: str, *, limit: int) -> Sequence[RunRecord]:
        words = set(query.lower().split())
        if not words:
            return []
        records = await self._store.read(lambda connection: self._records(connection, limit=-1))
        scores = Counter(
            {
                index: score
                for index, record in enumerate(records)
                if (score := sum(word in f"{record.prompt} {record.summary}".lower() for word in words))
            }
        )
        return [records[index] for index, _ in scores.most_common(limit)]

    async def find(self, prefix: str) -> RunId:
        prefix = prefix.lower().encode("utf-8", "replace").decode()
        if not prefix:
            raise RunNotFound("No run id was given", hint="See all runs with `fabric logs list`.")

        def read(connection: apsw.Connection) -> list[str]:
            # substr, not LIKE: an id typed by a person may hold % or _
            query = "SELECT run_id FROM runs WHERE substr(run_id, 1, ?) = ? ORDER BY number DESC LIMIT 6"
            return [str(row[0]) for row in connection.execute(query, (len(prefix), prefix))]

        found = await self._store.read(read)
        if len(found) == 1:
            return RunId(found[0])
        if not found:
            raise RunNotFound(f"There is no run {prefix!r}", hint="See all runs with `fabric logs list`.")
        raise RunNotFound(f"Several runs begin with {prefix!r}", hint=f"Give more of the id: {', '.join(found)}.")

    async def newest(self) -> RunId:
        """Return the run that was created last.

        Raises:
            RunNotFound: there is none at all.
        """
        query = "SELECT run_id FROM runs ORDER BY number DESC LIMIT 1"
        found = await self._store.read(lambda connection: connection.execute(query).fetchone())
        if found is None:
            raise RunNotFound("There are no runs here yet", hint='Start one with: fabric run "…"')
        return RunId(str(found[0]))

    def _records(self, connection: apsw.Connection, *, limit: int) -> list[RunRecord]:
        query = "SELECT number, run_id, status, created_at FROM runs ORDER BY number DESC LIMIT ?"
        rows = list(islice(connection.execute(query, (limit,)), None))
        return [
            self._record(connection, number, RunId(str(run_id)), _status(status), created_at)
            for number, run_id, status, created_at in rows
        ]

    def _record(
        self, connection: apsw.Connection, number: int, run_id: RunId, status: RunStatus, created_at: float
    ) -> RunRecord:
        if status is RunStatus.RUNNING and self._store.locks.is_free(number):
            status = RunStatus.INTERRUPTED
        prompt = summary = ""
        specialists: Sequence[str] = ()
        for event in _outline(connection, number):
            match event.body:
                case RunCreated() as body:
                    prompt = body.prompt
                case SpecialistsRecruited() as body:
                    specialists = body.specialist_ids
                case RunCompleted() as body:
                    summary = str(body.payload.get("summary", ""))
                case RunFailed() as body:
                    summary = body.message
                case _:
                    pass
        newest = connection.execute(
            "SELECT ts FROM events WHERE run = ? ORDER BY seq DESC LIMIT 1", (number,)
        ).fetchone()
        return RunRecord(
            run_id=run_id,
            status=status,
            created_at=created_at,
            updated_at=newest[0] if newest else created_at,
            prompt=prompt,
            specialist_ids=specialists,
            summary=summary,
        )


def _status(value: str) -> RunStatus:
    try:
        return RunStatus(value)
    except ValueError:
        return RunStatus.WAITING  # a newer program's: not settled, and not for us to drive


def _outline(connection: apsw.Connection, number: int) -> list[Event]:
    marks = ", ".join("?" for _ in _OUTLINE)
    query = f"SELECT seq, ts, kind, version, payload FROM events WHERE run = ? AND kind IN ({marks}) ORDER BY seq"  # noqa: S608 - only question marks are filled in
    with damage_explained():
        return [
            Event(seq, ts, None, "", decode(kind, version, payload, blob_from(connection)))
            for seq, ts, kind, version, payload in connection.execute(query, (number, *_OUTLINE))
        ]
