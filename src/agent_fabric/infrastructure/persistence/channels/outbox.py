"""The ledger of what goes out on channels."""

from collections.abc import Sequence
from typing import Any, Final

from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.channels.deliveries import DeliveryStatus, Part, Settlement
from agent_fabric.infrastructure.persistence.automation.dead_letters import LetterSeal
from agent_fabric.infrastructure.persistence.channels.rows import PART_COLUMNS, as_plain, part_from, part_row
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, marks, storable

_SELECT: Final = f"SELECT {', '.join(PART_COLUMNS)} FROM channel_outbox"  # noqa: S608 - names of ours, here and below
_AGAIN: Final = (DeliveryStatus.IN_DOUBT, DeliveryStatus.FAILED, DeliveryStatus.EXPIRED)


class SqlChannelOutbox:
    """ChannelOutbox and DeliveryHistory over the database."""

    def __init__(self, database: Database, seal: LetterSeal) -> None:
        self._database = database
        self._seal = seal

    async def put(self, parts: Sequence[Part]) -> None:
        query = (
            f"INSERT INTO channel_outbox ({', '.join(PART_COLUMNS)}) VALUES ({marks(PART_COLUMNS)})"  # noqa: S608
            " ON CONFLICT (id) DO NOTHING"
        )
        rows = [part_row(each, self._seal) for each in parts]
        await self._database.write(lambda connection: connection.executemany(query, rows))

    async def due(self, channel: str, account: str, now: float, *, limit: int) -> Sequence[Part]:
        # Later parts wait for those before them, but a doubt holds nothing up, and a card waits only for cards.
        query = (
            f"{_SELECT} AS one WHERE channel = ? AND account = ? AND status = 'queued' AND next_at <= ?"  # noqa: S608
            " AND NOT EXISTS"
            " (SELECT 1 FROM channel_outbox AS earlier WHERE earlier.channel = one.channel"
            " AND earlier.account = one.account AND earlier.chat = one.chat AND earlier.thread = one.thread"
            " AND earlier.priority = one.priority AND earlier.number < one.number"
            " AND earlier.status IN ('queued', 'sending')) ORDER BY priority, number LIMIT ?"
        )
        return await self._parts(query, (storable(channel), storable(account), now, limit))

    async def begin(self, part: Part, *, now: float) -> bool:
        query = (
            "UPDATE channel_outbox SET status = 'sending', next_at = ? WHERE id = ? AND status = 'queued' RETURNING 1"
        )
        values = (now, storable(part.id))
        return bool(await self._database.write(lambda connection: connection.execute(query, values).fetchall()))

    async def settle(self, part: Part, settlement: Settlement, *, now: float) -> None:
        is_over = settlement.status is not DeliveryStatus.QUEUED
        changes: dict[str, Any] = {
            "status": settlement.status.value,
            "attempts": part.attempts + int(settlement.counts),
            "next_at": settlement.next_at,
            "settled_at": now if is_over else None,
            "message_id": storable(settlement.message_id),
            "problem": storable(settlement.problem),
        }
        if settlement.as_plain:
            changes["body"] = part_row(as_plain(part), self._seal)[PART_COLUMNS.index("body")]
        assigned = ", ".join(f"{name} = ?" for name in changes)
        among = "'queued', 'sending', 'in_doubt'" + (", 'sent'" if settlement.overrules else "")
        query = f"UPDATE channel_outbox SET {assigned} WHERE id = ? AND status IN ({among})"  # noqa: S608
        values = (*changes.values(), storable(part.id))
        await self._database.write(lambda connection: connection.execute(query, values).fetchall())

    async def requeue(self, part: Part, *, now: float) -> bool:
        query = (
            "UPDATE channel_outbox SET status = 'queued', attempts = 0, next_at = ?, created_at = ?, settled_at = NULL,"  # noqa: S608
            f" problem = '' WHERE id = ? AND status IN ({marks(_AGAIN)}) RETURNING 1"
        )
        values = (now, now, storable(part.id), *_AGAIN)
        return bool(await self._database.write(lambda connection: connection.execute(query, values).fetchall()))

    async def list(
        self, *, statuses: Sequence[DeliveryStatus] = (), channel: str = "", chat: str = "", limit: int = 100
    ) -> Sequence[Part]:
        conditions, values = ["1 = 1"], list[Any]()
        if statuses:
            conditions.append(f"status IN ({marks(statuses)})")
            values += statuses
        for name, wanted in (("channel", channel), ("chat", chat)):
            if wanted:
                conditions.append(f"{name} = ?")
                values.append(storable(wanted))
        query = f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY number DESC LIMIT ?"
        return await self._parts(query, (*values, limit))

    async def of_message(self, place: Place, message_id: str) -> Part | None:
        if not message_id:
            return None
        query = (
            f"{_SELECT} WHERE channel = ? AND account = ? AND chat = ? AND message_id = ? AND kind <> 'edit'"
            " ORDER BY number LIMIT 1"
        )
        texts = (place.channel, place.account, place.chat, message_id)
        found = await self._parts(query, tuple(storable(text) for text in texts))
        return found[0] if found else None

    async def of_source(self, source: str) -> Sequence[Part]:
        return await self._parts(f"{_SELECT} WHERE source = ? ORDER BY seq, part, number", (storable(source),))

    async def _parts(self, query: str, values: Sequence[Any]) -> Sequence[Part]:
        def read(connection: SqlConnection) -> Sequence[Any]:
            return connection.execute(query, values).fetchall()

        return [part_from(row, self._seal) for row in await self._database.read(read)]
