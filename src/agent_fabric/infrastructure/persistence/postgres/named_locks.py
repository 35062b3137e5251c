"""Locks by name that the processes of all machines respect. Like the lease of a run, a lock ends with its process."""

from typing import Final

from agent_fabric.infrastructure.persistence.postgres.leases import ACQUIRE_LOCK, ALIVE
from agent_fabric.infrastructure.persistence.postgres.store import PostgresStore
from agent_fabric.infrastructure.persistence.sql import SqlConnection

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
