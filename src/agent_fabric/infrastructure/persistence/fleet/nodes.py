"""The tables of machines and invitations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from agent_fabric.application.ports.fleet import NodeStates
from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.errors import NameTaken
from agent_fabric.domain.fleet.commands import Invite
from agent_fabric.domain.fleet.nodes import Node, NodeId, NodeStatus
from agent_fabric.infrastructure.persistence.audit.act_log import add_act
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.runs.log_writes import OfOneRun
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, UniqueViolation, marks, storable
from agent_fabric.wire.json_codec import dump_json, load_json

_COLUMNS: Final = (
    *("id", "name", "hostname", "platform", "arch", "memory_total", "supported_tools", "os_info", "status"),
    *("last_seen", "security_policy_json", "public_key", "labels", "generation", "created_at", "note", "reported"),
)
_JSON: Final = frozenset({"supported_tools", "os_info", "security_policy_json", "labels", "reported"})
_MORE: Final = frozenset({"state", "previous_state", "held_by"})
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM agents"  # noqa: S608 - names of ours, here and below
_INVITES: Final = (
    "SELECT id, hash, name, labels, uses_left, confirm, created_by, created_at, expires_at FROM node_invites"
)


class SqlNodeRepository:
    """NodeRepository over the store; each act of a person is an entry of the audit chain in its transaction."""

    def __init__(self, database: Database, chain: ChainWriter) -> None:
        self._database = database
        self._chain = chain
        status = f"CASE WHEN status = 'online' AND {database.dialect.is_holder_gone} THEN 'offline' ELSE status END"
        self._shown = ", ".join(status if name == "status" else name for name in _COLUMNS)

    async def list(self, *, revoked: bool = False) -> Sequence[Node]:
        query = f"SELECT {self._shown} FROM agents WHERE status <> 'revoked' OR ? ORDER BY name, id"  # noqa: S608
        return await self._database.read(
            lambda connection: [_node(row) for row in connection.execute(query, (revoked,))]
        )

    async def find(self, node_id: str) -> Node | None:
        return await self._database.read_briefly(lambda connection: self._find(connection, node_id))

    def find_now(self, node_id: str) -> Node | None:
        return self._database.read_now(lambda connection: self._find(connection, node_id))

    async def update(
        self, node_id: NodeId, changes: Mapping[str, Any], *, act: Act | None = None, generation: int | None = None
    ) -> Node | None:
        unknown = set(changes) - set(_COLUMNS) - _MORE
        assert not unknown, unknown
        assigned = ", ".join(f"{name} = ?" for name in changes)
        values = [_stored(name, value) for name, value in changes.items()]

        def write(connection: SqlConnection) -> Node | None:
            row = connection.execute(
                f"UPDATE agents SET {assigned} WHERE id = ? AND status <> 'revoked'"  # noqa: S608
                f"{'' if generation is None else ' AND generation = ?'} RETURNING {self._shown}",
                (*values, node_id, *(() if generation is None else (generation,))),
            ).fetchone()
            if row is not None and act is not None:
                add_act(connection, self._chain, replace(act, about=act.about or f"{row[1]} ({row[0]})"))
            return None if row is None else _node(row)

        try:
            return await self._database.write(write if act is not None else OfOneRun(write))
        except UniqueViolation:
            raise NameTaken(f"There is a node {changes.get('name')!r} already", hint="Choose another name.") from None

    async def states(self, node_id: NodeId) -> NodeStates:
        query = "SELECT state, previous_state FROM agents WHERE id = ?"
        row = await self._database.read_briefly(lambda connection: connection.execute(query, (node_id,)).fetchone())
        return NodeStates(*row) if row is not None else NodeStates("", "")

    def _find(self, connection: SqlConnection, node_id: str) -> Node | None:
        query = f"SELECT {self._shown} FROM agents WHERE id = ? OR (name = ? AND status <> 'revoked')"  # noqa: S608
        row = connection.execute(query, (storable(node_id), storable(node_id))).fetchone()
        return None if row is None else _node(row)


class SqlInviteRepository:
    """InviteRepository over the store."""

    def __init__(self, database: Database, chain: ChainWriter) -> None:
        self._database = database
        self._chain = chain

    async def add(self, invite: Invite, *, act: Act | None = None) -> None:
        def write(connection: SqlConnection) -> None:
            connection.execute(
                "INSERT INTO node_invites"
                " (id, hash, name, labels, uses_left, confirm, created_by, created_at, expires_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *(invite.id, invite.hash, invite.name, _stored("labels", invite.labels), invite.uses_left),
                    *(int(invite.confirm), invite.created_by, invite.created_at, invite.expires_at),
                ),
            )
            add_act(connection, self._chain, act)

        await self._database.write(write)

    async def join(self, token_hash: bytes, node: Node, *, at: float, act: Act | None = None) -> Node | None:
        def write(connection: SqlConnection) -> Node | None:
            row = connection.execute(f"{_INVITES} WHERE hash = ? AND expires_at > ?", (token_hash, at)).fetchone()
            if row is None:
                return None
            invite = _invite(row)
            known = connection.execute(
                f"{_SELECT} WHERE public_key = ? AND invite = ? AND status <> 'revoked' AND generation = 0",
                (node.public_key, invite.id),
            ).fetchone()
            if known is not None:
                return _node(known)
            taken = "SELECT 1 FROM agents WHERE public_key = ?"
            if invite.uses_left < 1 or connection.execute(taken, (node.public_key,)).fetchone() is not None:
                return None
            connection.execute("UPDATE node_invites SET uses_left = uses_left - 1 WHERE id = ?", (invite.id,))
            status = NodeStatus.PENDING if invite.confirm else NodeStatus.OFFLINE
            name = _free_name(connection, invite.name or node.name)
            note = node.note if invite.confirm else ""
            made = replace(node, name=name, labels=invite.labels, status=status, note=note)
            values = [_stored(each, getattr(made, each)) for each in _COLUMNS]
            connection.execute(
                f"INSERT INTO agents ({', '.join(_COLUMNS)}, invite)"  # noqa: S608
                f" VALUES ({marks(_COLUMNS)}, ?)",
                (*values, invite.id),
            )
            if act is not None:
                add_act(connection, self._chain, replace(act, about=f"{name} ({node.id})", by=invite.created_by))
            return made

        return await self._database.write(write)

    async def list(self, *, at: float) -> Sequence[Invite]:
        query = f"{_INVITES} WHERE expires_at > ? AND uses_left > 0 ORDER BY created_at DESC, id"
        return await self._database.read(lambda connection: [_invite(row) for row in connection.execute(query, (at,))])


def _free_name(connection: SqlConnection, wanted: str) -> str:
    query = "SELECT name FROM agents WHERE status <> 'revoked' AND (name = ? OR substr(name, 1, ?) = ?)"
    taken = {row[0] for row in connection.execute(query, (wanted, len(wanted) + 1, f"{wanted}-"))}
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted[:58]}-{number}"
    return name


def _stored(name: str, value: Any) -> Any:
    if name in _JSON:
        return storable(dump_json(list(value) if isinstance(value, tuple) else dict(value)).decode())
    return storable(value) if isinstance(value, str) else value


def _node(row: Sequence[Any]) -> Node:
    values = dict(zip(_COLUMNS, row, strict=True))
    for name in _JSON:
        values[name] = load_json(values[name].encode())
    values["supported_tools"] = tuple(values["supported_tools"])
    values["status"] = NodeStatus(values["status"])
    return Node(**values)


def _invite(row: Sequence[Any]) -> Invite:
    invite_id, hashed, name, labels, uses_left, confirm, created_by, created_at, expires_at = row
    return Invite(
        id=invite_id,
        hash=bytes(hashed),
        name=name,
        labels=load_json(labels.encode()),
        uses_left=uses_left,
        confirm=bool(confirm),
        created_by=created_by,
        created_at=created_at,
        expires_at=expires_at,
    )
