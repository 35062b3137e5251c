"""Locks by name that the processes of all machines respect. Like the lease of a run, a lock ends with its process."""

from collections.abc import Collection, Sequence
from typing import Final

from agent_fabric.infrastructure.persistence.postgres.leases import ACQUIRE_LOCK, ALIVE
from agent_fabric.infrastructure.persistence.postgres.store import PostgresStore
from agent_fabric.infrastructure.persistence.sql import SqlConnection, marks

_HELD: Final = f"SELECT 1 FROM named_locks WHERE name = ? AND holder IN {ALIVE}"  # noqa: S608 - ours


class PostgresLocks:
    """NamedLocks in a PostgreSQL database."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._held: dict[str, str] = {}
        """Locks of this process, with the id that it had when it acquired them."""

    async def acquire(self, name: str) -> bool:
        if name in self._held:
            return False
        self._held[name] = ""  # now: others of this process may ask meanwhile

        def acquire(connection: SqlConnection) -> str:
            holder = self._store.membership.worker_id
            return holder if connection.execute(ACQUIRE_LOCK, (name, holder)).fetchone() is not None else ""

        holder = ""
        try:
            holder = await self._store.write(acquire)
        finally:
            if holder:
                self._held[name] = holder
            else:
                del self._held[name]
        return bool(holder)

    async def release(self, name: str) -> None:
        holder = self._held.pop(name, "")
        if holder:
            statement = "DELETE FROM named_locks WHERE name = ? AND holder = ?"
            await self._store.write(lambda connection: connection.execute(statement, (name, holder)))

    async def is_held(self, name: str) -> bool:
        return await self._store.read(lambda connection: connection.execute(_HELD, (name,)).fetchone() is not None)

    async def taken(self, names: Sequence[str]) -> Collection[str]:
        # One whose acquisition got no answer may stand there as ours; it can be acquired again.
        query = f"SELECT name FROM named_locks WHERE name IN ({marks(names)}) AND holder <> ? AND holder IN {ALIVE}"  # noqa: S608 - ours
        values = (*names, self._store.membership.present_id)
        found = await self._store.read(lambda connection: connection.execute(query, values).fetchall())
        return {*(str(name) for (name,) in found), *(name for name in names if name in self._held)}
