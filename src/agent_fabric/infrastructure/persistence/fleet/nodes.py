"""The tables of machines and invitations, and which machines are there."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from agent_fabric.application.ports.fleet import NodeStates, SeenNode
from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.errors import NameTaken
from agent_fabric.domain.fleet.commands import Invite
from agent_fabric.domain.fleet.nodes import Node, NodeId, NodeStatus
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter, add_act
from agent_fabric.infrastructure.persistence.runs.log_writes import OfOneRun
from agent_fabric.infrastructure.persistence.sql import Database, OneStatement, SqlConnection, UniqueViolation, storable
from agent_fabric.infrastructure.persistence.table import FLAG, Codec, Table, fetch, fetch_briefly, json_text

_LABELS: Final = json_text()
NODES: Final = Table(
    "agents",
    Node,
    key="id",
    supported_tools=json_text(tuple, list),
    os_info=json_text(),
    security_policy_json=json_text(),
    labels=_LABELS,
    reported=json_text(),
    status=Codec(NodeStatus),
)
_INVITES: Final = Table("node_invites", Invite, key="id", labels=_LABELS, confirm=FLAG)
_MORE: Final = frozenset({"state", "previous_state", "held_by"})
_MAX_NOTED: Final = 200
"""Rows of one statement, and of one transaction: commands that come meanwhile wait for no more than that."""


class SqlNodeRepository:
    """NodeRepository over the store; each act of a person is an entry of the audit chain in its transaction."""

    def __init__(self, database: Database, chain: ChainWriter) -> None:
        self._database = database
        self._chain = chain
        status = f"CASE WHEN status = 'online' AND {database.dialect.is_holder_gone} THEN 'offline' ELSE status END"
        self._names = ", ".join(status if name == "status" else name for name in NODES.columns)

    async def list(self, *, revoked: bool = False) -> Sequence[Node]:
        query = f"SELECT {self._names} FROM agents WHERE status <> 'revoked' OR ? ORDER BY name, id"  # noqa: S608
        return [*map(NODES.load, await fetch(self._database, query, revoked))]

    async def find(self, node_id: str) -> Node | None:
        return await self._database.read_briefly(lambda connection: self._find(connection, node_id))

    def find_now(self, node_id: str) -> Node | None:
        return self._database.read_now(lambda connection: self._find(connection, node_id))

    async def update(
        self, node_id: NodeId, changes: Mapping[str, Any], *, act: Act | None = None, generation: int | None = None
    ) -> Node | None:
        unknown = set(changes) - set(NODES.columns) - _MORE
        assert not unknown, unknown
        encoded = NODES.encode(changes)
        assigned = ", ".join(f"{name} = ?" for name in encoded)

        def write(connection: SqlConnection) -> Node | None:
            row = connection.execute(
                f"UPDATE agents SET {assigned} WHERE id = ? AND status <> 'revoked'"  # noqa: S608
                f"{'' if generation is None else ' AND generation = ?'} RETURNING {self._names}",
                (*encoded.values(), node_id, *(() if generation is None else (generation,))),
            ).fetchone()
            if row is not None and act is not None:
                add_act(connection, self._chain, replace(act, about=act.about or f"{row[1]} ({row[0]})"))
            return None if row is None else NODES.load(row)

        try:
            return await self._database.write(write if act is not None else OfOneRun(write))
        except UniqueViolation:
            raise NameTaken(f"There is a node {changes.get('name')!r} already", hint="Choose another name.") from None

    async def states(self, node_id: NodeId) -> NodeStates:
        query = "SELECT state, previous_state FROM agents WHERE id = ?"
        row = await fetch_briefly(self._database, query, node_id)
        return NodeStates(*row) if row is not None else NodeStates("", "")

    def _find(self, connection: SqlConnection, node_id: str) -> Node | None:
        query = f"SELECT {self._names} FROM agents WHERE id = ? OR (name = ? AND status <> 'revoked')"  # noqa: S608
        row = connection.execute(query, (storable(node_id), storable(node_id))).fetchone()
        return None if row is None else NODES.load(row)


class SqlInviteRepository:
    """InviteRepository over the store."""

    def __init__(self, database: Database, chain: ChainWriter) -> None:
        self._database = database
        self._chain = chain

    async def add(self, invite: Invite, *, act: Act | None = None) -> None:
        def write(connection: SqlConnection) -> None:
            _INVITES.insert(connection, invite)
            add_act(connection, self._chain, act)

        await self._database.write(write)

    async def join(self, token_hash: bytes, node: Node, *, at: float, act: Act | None = None) -> Node | None:
        def write(connection: SqlConnection) -> Node | None:
            invite = _INVITES.find(connection, "hash = ? AND expires_at > ?", token_hash, at)
            if invite is None:
                return None
            known = NODES.find(
                connection,
                "public_key = ? AND invite = ? AND status <> 'revoked' AND generation = 0",
                *(node.public_key, invite.id),
            )
            if known is not None:
                return known
            taken = "SELECT 1 FROM agents WHERE public_key = ?"
            if invite.uses_left < 1 or connection.execute(taken, (node.public_key,)).fetchone() is not None:
                return None
            connection.execute("UPDATE node_invites SET uses_left = uses_left - 1 WHERE id = ?", (invite.id,))
            status = NodeStatus.PENDING if invite.confirm else NodeStatus.OFFLINE
            name = _free_name(connection, invite.name or node.name)
            note = node.note if invite.confirm else ""
            made = replace(node, name=name, labels=invite.labels, status=status, note=note)
            NODES.insert(connection, made, invite=invite.id)
            if act is not None:
                add_act(connection, self._chain, replace(act, about=f"{name} ({node.id})", by=invite.created_by))
            return made

        return await self._database.write(write)

    async def list(self, *, at: float) -> Sequence[Invite]:
        rest = "WHERE expires_at > ? AND uses_left > 0 ORDER BY created_at DESC, id"
        return await _INVITES.within(self._database).rows(rest, at)


def _free_name(connection: SqlConnection, wanted: str) -> str:
    query = "SELECT name FROM agents WHERE status <> 'revoked' AND (name = ? OR substr(name, 1, ?) = ?)"
    taken = {row[0] for row in connection.execute(query, (wanted, len(wanted) + 1, f"{wanted}-"))}
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted[:58]}-{number}"
    return name


class SqlNodePresence:
    """NodePresence over the store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(self, seen: Sequence[SeenNode], *, held_by: str) -> Collection[NodeId]:
        newest: set[NodeId] = set()
        for start in range(0, len(seen), _MAX_NOTED):
            newest |= await self._note(seen[start : start + _MAX_NOTED], held_by)
        return newest

    async def _note(self, seen: Sequence[SeenNode], held_by: str) -> set[NodeId]:
        query = (
            "UPDATE agents SET status = 'online', last_seen = CAST(told.column3 AS DOUBLE PRECISION), held_by = ?"  # noqa: S608 - ours
            f" FROM (VALUES {', '.join(['(?, ?, ?)'] * len(seen))}) AS told"
            " WHERE id = told.column1 AND generation = CAST(told.column2 AS BIGINT) AND status IN ('online', 'offline')"
            " RETURNING id"
        )
        values = (held_by, *(value for each in seen for value in each))

        def write(connection: SqlConnection) -> set[NodeId]:
            return {NodeId(node_id) for (node_id,) in connection.execute(query, values).fetchall()}

        return await self._database.write(OfOneRun(write))

    async def forget_gone(self) -> None:
        gone = self._database.dialect.is_holder_gone
        query = f"UPDATE agents SET status = 'offline' WHERE status = 'online' AND {gone}"  # noqa: S608 - ours
        await self._database.write(OneStatement(query, ()))
