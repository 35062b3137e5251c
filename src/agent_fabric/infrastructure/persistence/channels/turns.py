"""The table of turns whose answers are owed to somebody on a channel."""

from collections.abc import Sequence
from typing import Any, Final

from agent_fabric.application.ports.channels import PendingTurn
from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.sql import Database, storable

_COLUMNS: Final = "run_id, channel, account, chat, thread, is_direct, sender, message_id"
_SELECT: Final = f"SELECT {_COLUMNS} FROM channel_turns"  # noqa: S608 - names of ours, here and below


class SqlChannelTurns:
    """TurnStore over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, turn: PendingTurn) -> None:
        query = (
            f"INSERT INTO channel_turns ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
            " ON CONFLICT (run_id) DO NOTHING"
        )
        place = turn.place
        values = (
            turn.run_id,
            *(storable(text) for text in (place.channel, place.account, place.chat, place.thread)),
            int(place.is_direct),
            storable(turn.sender.id),
            storable(turn.message_id),
        )
        await self._database.write(lambda connection: connection.execute(query, values).fetchall())

    async def open(self, channel: str, account: str, *, limit: int) -> Sequence[PendingTurn]:
        query = f"{_SELECT} WHERE channel = ? AND account = ? ORDER BY number LIMIT ?"
        values = (storable(channel), storable(account), limit)
        rows = await self._database.read(lambda connection: connection.execute(query, values).fetchall())
        return [_turn(row) for row in rows]

    async def find(self, run_id: RunId) -> PendingTurn | None:
        query = f"{_SELECT} WHERE run_id = ?"
        row = await self._database.read_briefly(lambda connection: connection.execute(query, (run_id,)).fetchone())
        return None if row is None else _turn(row)

    async def close(self, run_id: RunId) -> None:
        query = "DELETE FROM channel_turns WHERE run_id = ?"
        await self._database.write(lambda connection: connection.execute(query, (run_id,)).fetchall())


def _turn(row: Sequence[Any]) -> PendingTurn:
    run_id, channel, account, chat, thread, is_direct, sender, message_id = row
    place = Place(channel, account, chat, thread, is_direct=bool(is_direct))
    return PendingTurn(RunId(run_id), place, Sender(channel, account, sender), message_id)
