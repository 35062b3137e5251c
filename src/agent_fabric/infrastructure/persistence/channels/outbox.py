"""The ledger of what goes out on channels, and all tables of channels together."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from agent_fabric.application.ports.channels import ChannelStore
from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.channels.deliveries import HELD, Button, DeliveryStatus, Part, PartKind, Settlement
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.automation.dead_letters import LetterSeal
from agent_fabric.infrastructure.persistence.channels.inbox import (
    SqlChannelTurns,
    SqlConversations,
    SqlInboundFiles,
    SqlInboundLog,
    split_place,
)
from agent_fabric.infrastructure.persistence.channels.people import SqlChannelPeople, SqlNotifyPreferences
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, marks
from agent_fabric.infrastructure.persistence.table import Table, matching

_COLUMNS: Final = (
    "source seq part channel account chat thread is_direct kind priority body"
    " status attempts next_at created_at settled_at message_id problem"
)
_SAME: Final = ("source", "seq", "attempts", "next_at", "created_at", "settled_at", "message_id", "problem")
"""Columns that are called as their fields, and need no codec."""
_BODY: Final = ("text", "plain", "reply_to", "edits", "facts")
_AGAIN: Final = (DeliveryStatus.IN_DOUBT, DeliveryStatus.FAILED, DeliveryStatus.EXPIRED)
_PRUNED: Final = (
    "DELETE FROM channel_inbox WHERE received_at < ? AND outcome <> '' RETURNING 1",
    "DELETE FROM channel_outbox WHERE created_at < ? AND status NOT IN ('queued', 'sending') RETURNING 1",
    "DELETE FROM channel_files WHERE created_at < ? RETURNING 1",
)


def open_channels(database: Database, chain: ChainWriter) -> ChannelStore:
    """Return the tables of channels."""
    seal = LetterSeal(database.keys)
    outbox = SqlChannelOutbox(database, seal)

    async def prune(before: float) -> int:
        def write(connection: SqlConnection) -> int:
            return sum(len(connection.execute(query, (before,)).fetchall()) for query in _PRUNED)

        return await database.write(write)

    return ChannelStore(
        people=SqlChannelPeople(database, chain),
        inbound=SqlInboundLog(database, seal),
        conversations=SqlConversations(database),
        turns=SqlChannelTurns(database),
        outbox=outbox,
        deliveries=outbox,
        notify=SqlNotifyPreferences(database, chain),
        files=SqlInboundFiles(database, seal),
        prune=prune,
    )


class SqlChannelOutbox:
    """ChannelOutbox and DeliveryHistory over the database. Bodies are sealed: sessions may be encrypted."""

    def __init__(self, database: Database, seal: LetterSeal) -> None:
        table: Table[Part] = Table(
            "channel_outbox",
            partial(_part, seal),
            key="id",
            columns=_COLUMNS,
            split=partial(_split, seal),
        )
        self._seal = seal
        self._parts = table.within(database)

    async def put(self, parts: Sequence[Part]) -> None:
        await self._parts.add_all(parts)

    async def due(self, channel: str, account: str, now: float, *, limit: int) -> Sequence[Part]:
        # Later parts wait for those before them, but a doubt holds nothing up, and a card waits only for cards.
        return await self._parts.rows(
            "AS one WHERE channel = ? AND account = ? AND status = 'queued' AND next_at <= ? AND NOT EXISTS"
            " (SELECT 1 FROM channel_outbox AS earlier WHERE earlier.channel = one.channel"
            " AND earlier.account = one.account AND earlier.chat = one.chat AND earlier.thread = one.thread"
            " AND earlier.priority = one.priority AND earlier.number < one.number"
            " AND earlier.status IN ('queued', 'sending')) ORDER BY priority, number LIMIT ?",
            *(channel, account, now, limit),
        )

    async def begin(self, part: Part, *, now: float) -> bool:
        changes = {"status": DeliveryStatus.SENDING, "next_at": now}
        return bool(await self._parts.update(changes, "id = ? AND status = 'queued'", part.id))

    async def settle(self, part: Part, settlement: Settlement, *, now: float) -> None:
        changes: dict[str, Any] = {
            "status": settlement.status,
            "attempts": part.attempts + int(settlement.counts),
            "next_at": settlement.next_at,
            "settled_at": None if settlement.status is DeliveryStatus.QUEUED else now,
            "message_id": settlement.message_id,
            "problem": settlement.problem,
        }
        if settlement.as_plain:  # it goes without markup from now on
            changes["body"] = _sealed_body(self._seal, replace(part, text=part.plain))
        among = "'queued', 'sending', 'in_doubt'" + (", 'sent'" if settlement.overrules else "")
        await self._parts.update(changes, f"id = ? AND status IN ({among})", part.id)

    async def requeue(self, part: Part, *, now: float) -> bool:
        queued = {"status": DeliveryStatus.QUEUED, "attempts": 0, "problem": "", "settled_at": None}
        changes = {**queued, "next_at": now, "created_at": now}
        return bool(await self._parts.update(changes, f"id = ? AND status IN ({marks(_AGAIN)})", part.id, *_AGAIN))

    async def list(
        self, *, statuses: Sequence[DeliveryStatus] = (), channel: str = "", chat: str = "", limit: int = 100
    ) -> Sequence[Part]:
        where = matching(status=statuses, channel=channel, chat=chat)
        return await self._parts.rows(f"WHERE {where.sql} ORDER BY number DESC LIMIT ?", *where.values, limit)

    async def of_message(self, place: Place, message_id: str) -> Part | None:
        if not message_id:
            return None
        return await self._parts.find(
            "channel = ? AND account = ? AND chat = ? AND message_id = ? AND message_id <> '' AND kind <> 'edit'"
            " ORDER BY number LIMIT 1",
            *(place.channel, place.account, place.chat, message_id),
        )

    async def of_source(self, source: str) -> Sequence[Part]:
        return await self._parts.rows("WHERE source = ? ORDER BY seq, part, number", source)


def _sealed_body(seal: LetterSeal, part: Part) -> bytes:
    buttons = [[each.label, each.data] for each in part.buttons]
    return seal.seal({**{name: getattr(part, name) for name in _BODY}, "facts": dict(part.facts), "buttons": buttons})


def _split(seal: LetterSeal, part: Part) -> Mapping[str, Any]:
    return {
        "id": part.id,
        "part": part.number,
        **split_place(part.place),
        "kind": part.kind,
        "priority": part.priority,
        "body": _sealed_body(seal, part),
        "status": part.status,
        **{name: getattr(part, name) for name in _SAME},
    }


def _part(seal: LetterSeal, **stored: Any) -> Part:
    body = seal.open(bytes(stored["body"]))
    place = {name: stored[name] for name in ("channel", "account", "chat", "thread")}
    return Part(
        number=stored["part"],
        place=Place(**place, is_direct=bool(stored["is_direct"])),
        kind=PartKind(stored["kind"]),
        buttons=tuple(Button(label, data) for label, data in body["buttons"]),
        is_held=stored["priority"] == HELD,
        status=DeliveryStatus(stored["status"]),
        **{name: body[name] for name in _BODY},
        **{name: stored[name] for name in _SAME},
    )
