"""The store in memory, for tests: the SQL of the product on SQLite, and nothing survives.

Each database is closed after the test that made it; see `close_stores`. Repositories come alone, too, for tests of one
use case: those that name another one share its database.
"""

import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

import apsw

from agent_fabric.application.ports.channels import ChannelStore, PendingTurn
from agent_fabric.application.ports.clock import Clock, IdSource
from agent_fabric.application.ports.memory import MemoryStore
from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.channels.deliveries import Part
from agent_fabric.domain.chat.sessions import ChatMessage, Session
from agent_fabric.domain.fleet.commands import NodeCommand, RelayedCall
from agent_fabric.domain.fleet.nodes import Node, NodeId
from agent_fabric.domain.fleet.plans import Plan
from agent_fabric.domain.identity.accounts import ApiKey, User
from agent_fabric.domain.ids import RunId, SessionId
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter, SqlActLog
from agent_fabric.infrastructure.persistence.channels.inbox import TURNS
from agent_fabric.infrastructure.persistence.channels.outbox import SqlChannelOutbox, _sealed_body
from agent_fabric.infrastructure.persistence.chat.rows import SessionKeys, insert_message
from agent_fabric.infrastructure.persistence.chat.sessions import SqlSessionMessages, SqlSessionRepository
from agent_fabric.infrastructure.persistence.database import BUSY_TIMEOUT_MS
from agent_fabric.infrastructure.persistence.fleet.fleet_plans import PLANS, SqlPlanRepository
from agent_fabric.infrastructure.persistence.fleet.node_commands import (
    CALLS,
    COMMANDS,
    SqlCallRelay,
    SqlCommandRepository,
)
from agent_fabric.infrastructure.persistence.fleet.nodes import (
    NODES,
    SqlInviteRepository,
    SqlNodePresence,
    SqlNodeRepository,
)
from agent_fabric.infrastructure.persistence.identity.accounts import (
    KEYS,
    USERS,
    SqlApiKeyRepository,
    SqlEndedLogins,
    SqlUserRepository,
)
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys
from agent_fabric.infrastructure.persistence.storage import SqlStorage, _SqliteParts
from agent_fabric.infrastructure.persistence.store import Store
from agent_fabric.infrastructure.persistence.table import Table
from agent_fabric.infrastructure.secrets.keyring import open_keyring
from agent_fabric.testing.fakes import CountingIds, FrozenClock
from agent_fabric.wire.json_codec import dump_json, load_json
from new_stores import empty_memory

T = TypeVar("T")
_STORES: list["MemoryDatabase"] = []


def close_stores() -> None:
    """Close all databases; what they held is gone."""
    while _STORES:
        _STORES.pop().close()


class MemoryDatabase(Store):
    """A database in memory. Its folder holds nothing but locks."""

    def __init__(self, chain: ChainWriter | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fabric-memory-"))
        path = self.folder / "fabric.db"
        path.touch()  # what tells the product that the store was not deleted
        self._address = f"file:/{uuid.uuid4().hex}?vfs=memdb"
        keys = RunKeys(lambda: open_keyring({"XDG_DATA_HOME": str(self.folder / "data")}))
        super().__init__(path, keys, chain, lambda _: self.connection())
        self._first = self.connection()  # it is there as long as somebody has it open
        with self._first.backup("main", empty_memory(), "main") as copy:
            copy.step()
        _STORES.append(self)

    def connection(self) -> apsw.Connection:
        """Return one more connection."""
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI
        opened = apsw.Connection(self._address, flags=flags)
        opened.set_busy_timeout(BUSY_TIMEOUT_MS)
        return opened

    def write_now(self, write: Callable[[apsw.Connection], T]) -> T:
        """Write without an event loop."""
        self._first.execute("BEGIN IMMEDIATE")
        value = write(self._first)
        self._first.execute("COMMIT")
        return value

    def close(self) -> None:
        super().close()
        self._first.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Kept(MutableMapping[str, T], Generic[T]):
    """The rows of a table by their key, for tests to look at and to change."""

    def __init__(self, database: MemoryDatabase, table: Table[T]) -> None:
        self.database, self.table, (self.key,) = database, table, table.key

    def __getitem__(self, key: str) -> T:
        found = self.database.read_now(lambda connection: self.table.find(connection, f"{self.key} = ?", key))
        if found is None:
            raise KeyError(key)
        return found

    def __setitem__(self, key: str, item: T) -> None:
        self.database.write_now(lambda connection: self.table.put(connection, item))

    def __delitem__(self, key: str) -> None:
        self.database.write_now(lambda connection: self.table.delete(connection, f"{self.key} = ?", key))

    def __iter__(self) -> Iterator[str]:
        query = f"SELECT {self.key} FROM {self.table.name} ORDER BY created_at, {self.key}"
        return iter([str(key) for (key,) in self.database.read_now(lambda each: each.execute(query).fetchall())])

    def __len__(self) -> int:
        return len([*iter(self)])


class MemoryNodes(SqlNodeRepository):
    """NodeRepository in memory."""

    def __init__(self, database: MemoryDatabase | None = None) -> None:
        self.database = database or MemoryDatabase()
        super().__init__(self.database, ChainWriter())
        self.kept: Kept[Node] = Kept(self.database, NODES)

    def holder(self, node_id: NodeId) -> str:
        """Return which server holds the connection of a node."""
        query = "SELECT held_by FROM agents WHERE id = ?"
        return str(self.database.read_now(lambda each: each.execute(query, (node_id,)).fetchall())[0][0])


class MemoryCommands(SqlCommandRepository):
    """CommandRepository in memory."""

    def __init__(self) -> None:
        database = MemoryDatabase()
        super().__init__(database)
        self.kept: Kept[NodeCommand] = Kept(database, COMMANDS)


class MemoryPlans(SqlPlanRepository):
    """PlanRepository in memory."""

    def __init__(self) -> None:
        database = MemoryDatabase()
        super().__init__(database)
        self.kept: Kept[Plan] = Kept(database, PLANS)


class MemoryCalls(SqlCallRelay):
    """CallRelay in memory."""

    def __init__(self) -> None:
        database = MemoryDatabase()
        super().__init__(database)
        self.kept: Kept[RelayedCall] = Kept(database, CALLS)


class MemoryPresence(SqlNodePresence):
    """NodePresence of nodes in memory."""

    def __init__(self, nodes: MemoryNodes) -> None:
        super().__init__(nodes.database)


class MemoryInvites(SqlInviteRepository):
    """InviteRepository for nodes in memory."""

    def __init__(self, nodes: MemoryNodes) -> None:
        super().__init__(nodes.database, ChainWriter())


class MemoryActs(SqlActLog):
    """ActLog in memory."""

    def __init__(self, database: MemoryDatabase | None = None) -> None:
        self.database, self.chain = database or MemoryDatabase(), ChainWriter()
        super().__init__(self.database, self.chain)


class MemoryUsers(SqlUserRepository):
    """UserRepository in memory."""

    def __init__(self) -> None:
        self.acts = MemoryActs()
        super().__init__(self.acts.database, self.acts.chain)
        self.kept: Kept[User] = Kept(self.acts.database, USERS)


class MemoryKeys(SqlApiKeyRepository):
    """ApiKeyRepository in memory."""

    def __init__(self, acts: MemoryActs | None = None) -> None:
        acts = acts or MemoryActs()
        super().__init__(acts.database, acts.chain)
        self.kept: Kept[ApiKey] = Kept(acts.database, KEYS)

    async def written(self) -> None:
        """Wait until everything that was asked for is written."""
        await self._database.write(lambda _: None)


class MemoryEndedLogins(SqlEndedLogins):
    """EndedLogins in memory."""

    def __init__(self) -> None:
        super().__init__(MemoryDatabase(), FrozenClock())


class MemorySessions(SqlSessionRepository):
    """SessionRepository in memory, with its messages."""

    def __init__(self) -> None:
        self.database = MemoryDatabase()
        keys = SessionKeys(self.database.keys)
        super().__init__(self.database, keys)
        self.messages = SqlSessionMessages(self.database, keys)

    def say(self, message: ChatMessage) -> None:
        """Add a message."""
        self.database.write_now(lambda connection: insert_message(connection, None, message))


class MemoryStorage(SqlStorage):
    """Storage in memory."""

    def __init__(self, clock: Clock | None = None, ids: IdSource | None = None) -> None:
        chain = ChainWriter()
        self.database = MemoryDatabase(chain)
        parts = _SqliteParts(self.database.folder, self.database.keys, chain)
        parts.database = self.database
        folder = self.database.folder / "runs"
        super().__init__(
            parts, clock or FrozenClock(), ids or CountingIds(), lambda run_id: str(folder / run_id), chain, tuple
        )

    async def recorded_acts(self) -> Sequence[Act]:
        """Return all administrative acts, the oldest first."""
        return [*reversed(await self.acts.recent(limit=1_000))]

    async def all_sessions(self) -> Sequence[Session]:
        """Return all sessions."""
        query = "SELECT id FROM chat_sessions ORDER BY created_at, id"
        rows = self.database.read_now(lambda connection: connection.execute(query).fetchall())
        return [await self.sessions.find(SessionId(str(session_id))) for (session_id,) in rows]

    def change_card(self, approval_id: str, **changed: Any) -> None:
        """Change a stored question behind everyone's back."""

        def write(connection: apsw.Connection) -> None:
            read = "SELECT tool_name, arguments, card FROM pending_approvals WHERE id = ?"
            found: list[Any] = connection.execute(read, (approval_id,)).fetchall()
            [(tool, arguments, card)] = found
            values = {"tool": tool, "args": load_json(arguments), **load_json(card), **changed}
            stored = (values.pop("tool"), dump_json(values.pop("args")), dump_json(values), approval_id)
            query = "UPDATE pending_approvals SET tool_name = ?, arguments = ?, card = ? WHERE id = ?"
            connection.execute(query, stored)

        self.database.write_now(write)

    async def change_part(self, part: Part) -> None:
        """Change what a stored message says."""
        outbox = self.channels.outbox
        assert isinstance(outbox, SqlChannelOutbox)
        await outbox._parts.update({"body": _sealed_body(outbox._seal, part)}, "id = ?", part.id)

    @property
    def owed(self) -> dict[RunId, PendingTurn]:
        """The turns whose answers are owed."""
        turns = self.database.read_now(lambda connection: TURNS.rows(connection, "ORDER BY number"))
        return {turn.run_id: turn for turn in turns}

    def count(self, table: str) -> int:
        """Return how many rows a table has."""
        return len(self.database.read_now(lambda connection: connection.execute(f"SELECT 1 FROM {table}").fetchall()))


def MemoryChannels() -> ChannelStore:  # noqa: N802 - as the others
    """Return a ChannelStore in memory."""
    return MemoryStorage().channels


def MemoryOfDocuments() -> MemoryStore:  # noqa: N802 - as the others
    """Return a MemoryStore in memory."""
    return MemoryStorage().memory
