"""Which requests came under which keys, in the file that the runs are in."""

from collections.abc import Sequence
from typing import Any

import apsw

from agent_fabric.application.ports.clock import Clock, IdSource
from agent_fabric.application.ports.idempotency import Claim, KeptAnswer
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.json_codec import dump_json, load_json
from agent_fabric.infrastructure.persistence.store import Store

KEPT_S = 24 * 3600.0
"""How long a key is remembered."""
CLEARED_AT_ONCE = 100
"""Old rows that go with each new one, so that there are never many of them."""


class SqliteIdempotencyStore:
    """IdempotencyStore in one SQLite file."""

    def __init__(self, store: Store, clock: Clock, ids: IdSource) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids

    async def claim(self, who: str, key: str, request: bytes) -> Claim:
        now, run_id = self._clock.now(), self._ids.new_run_id()

        def write(connection: apsw.Connection) -> Claim:
            _clear(connection, now - KEPT_S)
            row = connection.execute(
                "SELECT request, run_id, status, headers, body FROM idempotency "
                "WHERE principal = ? AND key = ? AND created_at > ?",
                (who, key, now - KEPT_S),
            ).fetchone()
            if row is not None:
                return _claim(row, request)
            connection.execute(
                "INSERT OR REPLACE INTO idempotency (principal, key, request, run_id, created_at) "
                "VALUES (?, ?, ?, ?, ?)",
                (who, key, request, run_id, now),
            )
            return Claim(run_id=run_id, is_new=True, same_request=True)

        return await self._store.writer.write(write)

    async def keep(self, who: str, key: str, answer: KeptAnswer, *, about: Sequence[str] = ()) -> None:
        values = (answer.status, dump_json(list(answer.headers)), answer.body, who, key)

        def write(connection: apsw.Connection) -> None:
            query = "SELECT run_id FROM idempotency WHERE principal = ? AND key = ?"
            started = [str(run_id) for (run_id,) in connection.execute(query, (who, key))]
            if not any(_is_encrypted(connection, each) for each in (*started, *about)):
                connection.execute(
                    "UPDATE idempotency SET status = ?, headers = ?, body = ? WHERE principal = ? AND key = ?", values
                )

        await self._store.writer.write(write)


def _claim(row: tuple[Any, ...], request: bytes) -> Claim:
    known, run_id, status, headers, body = row
    answer = None
    if status is not None:
        answer = KeptAnswer(status, [(name, value) for name, value in load_json(headers)], body)
    return Claim(run_id=RunId(run_id), is_new=False, same_request=known == request, answer=answer)


def _is_encrypted(connection: apsw.Connection, beginning: str) -> bool:
    """Tell whether a run is encrypted, or the run of an approval, whose id begins so."""
    query = (
        "SELECT EXISTS (SELECT 1 FROM runs JOIN run_keys ON run = number WHERE run_id BETWEEN ?1 AND ?1 || '~')"
        " OR EXISTS (SELECT 1 FROM pending_approvals JOIN run_keys USING (run) WHERE id BETWEEN ?1 AND ?1 || '~')"
    )
    return bool(connection.execute(query, (beginning.encode(errors="replace").decode(),)).get)


def _clear(connection: apsw.Connection, before: float) -> None:
    connection.execute(
        "DELETE FROM idempotency WHERE rowid IN (SELECT rowid FROM idempotency WHERE created_at <= ? LIMIT ?)",
        (before, CLEARED_AT_ONCE),
    )
