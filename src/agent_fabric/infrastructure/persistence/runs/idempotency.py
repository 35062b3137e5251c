"""The tables of idempotency keys, and of the runs that have answered a question."""

from collections.abc import Sequence
from typing import Any, Final

from agent_fabric.application.ports.clock import Clock, IdSource
from agent_fabric.application.ports.idempotency import Claim, KeptAnswer
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, storable
from agent_fabric.infrastructure.persistence.table import fetch
from agent_fabric.wire.json_codec import dump_json, load_json

RESPONSES_KEPT_S: Final = 30 * 24 * 3600.0
"""How long it is known. Asking again begins anew."""


KEPT_S = 24 * 3600.0
"""How long a key is remembered."""
CLEARED_AT_ONCE = 100
"""Old rows that go with each new one, so that there are never many of them."""


class SqlIdempotencyStore:
    """IdempotencyStore over the database."""

    def __init__(self, database: Database, clock: Clock, ids: IdSource) -> None:
        self._database = database
        self._clock = clock
        self._ids = ids

    async def claim(self, who: str, key: str, request: bytes) -> Claim:
        now, run_id = self._clock.now(), self._ids.new_run_id()

        def write(connection: SqlConnection) -> Claim:
            _clear(connection, now - KEPT_S)
            row = connection.execute(
                "SELECT request, run_id, status, headers, body FROM idempotency "
                "WHERE principal = ? AND key = ? AND created_at > ?",
                (who, key, now - KEPT_S),
            ).fetchone()
            if row is not None:
                return _claim(row, request)
            connection.execute(
                "INSERT INTO idempotency (principal, key, request, run_id, created_at) VALUES (?, ?, ?, ?, ?) "
                "ON CONFLICT (principal, key) DO UPDATE SET request = excluded.request, run_id = excluded.run_id, "
                "created_at = excluded.created_at, status = NULL, headers = NULL, body = NULL",
                (who, key, request, run_id, now),
            )
            return Claim(run_id=run_id, is_new=True, same_request=True)

        return await self._database.write(write)

    async def keep(self, who: str, key: str, answer: KeptAnswer, *, about: Sequence[str] = ()) -> None:
        values = (answer.status, dump_json(list(answer.headers)), answer.body, who, key)

        def write(connection: SqlConnection) -> None:
            query = "SELECT run_id FROM idempotency WHERE principal = ? AND key = ?"
            started = [str(run_id) for (run_id,) in connection.execute(query, (who, key))]
            if not any(_is_encrypted(connection, each) for each in (*started, *about)):
                connection.execute(
                    "UPDATE idempotency SET status = ?, headers = ?, body = ? WHERE principal = ? AND key = ?", values
                )

        await self._database.write(write)


def _claim(row: tuple[Any, ...], request: bytes) -> Claim:
    known, run_id, status, headers, body = row
    answer = None
    if status is not None:
        answer = KeptAnswer(status, [(name, value) for name, value in load_json(headers)], body)
    return Claim(run_id=RunId(run_id), is_new=False, same_request=known == request, answer=answer)


def _is_encrypted(connection: SqlConnection, beginning: str) -> bool:
    """Tell whether a run or a session is encrypted, or the run of an approval, whose id begins so."""
    query = (
        "SELECT EXISTS (SELECT 1 FROM runs JOIN run_keys ON run = number WHERE run_id BETWEEN ? AND ?)"
        " OR EXISTS (SELECT 1 FROM pending_approvals JOIN run_keys USING (run) WHERE id BETWEEN ? AND ?)"
        " OR EXISTS (SELECT 1 FROM chat_sessions WHERE key IS NOT NULL AND id BETWEEN ? AND ?)"
    )
    first = storable(beginning)
    return bool(connection.execute(query, (first, f"{first}~") * 3).fetchone()[0])


def _clear(connection: SqlConnection, before: float) -> None:
    connection.execute(
        "DELETE FROM idempotency WHERE (principal, key) IN "
        "(SELECT principal, key FROM idempotency WHERE created_at <= ? LIMIT ?)",
        (before, CLEARED_AT_ONCE),
    )


class SqlResponses:
    """ResponseIndex over the database."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def find(self, key: str) -> RunId | None:
        query = "SELECT run_id FROM response_cache WHERE key = ? AND created_at > ?"
        found = await fetch(self._database, query, key, self._clock.now() - RESPONSES_KEPT_S)
        return RunId(found[0][0]) if found else None

    async def note(self, key: str, run_id: RunId) -> None:
        now = self._clock.now()

        def write(connection: SqlConnection) -> None:
            connection.execute("DELETE FROM response_cache WHERE created_at <= ?", (now - RESPONSES_KEPT_S,))
            connection.execute(
                "INSERT INTO response_cache (key, run_id, created_at) VALUES (?, ?, ?)"
                " ON CONFLICT (key) DO UPDATE SET run_id = excluded.run_id, created_at = excluded.created_at",
                (key, run_id, now),
            )

        await self._database.write(write)
