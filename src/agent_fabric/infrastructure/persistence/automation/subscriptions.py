"""The tables of receivers and of the messages that they have not had yet."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from agent_fabric.domain.automation.outgoing import OutgoingMessage, Subscription
from agent_fabric.domain.errors import NameTaken
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection
from agent_fabric.infrastructure.persistence.table import FLAG, Table, fetch_briefly, json_bytes, json_text

_SUBSCRIPTIONS: Final = Table(
    "subscriptions", Subscription, key="name", subjects=json_text(tuple, list), is_active=FLAG
)
_MESSAGES: Final = Table("outgoing_messages", OutgoingMessage, key="id", payload=json_bytes())


class SqlSubscriptions:
    """SubscriptionStore and OutgoingQueue over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._subscriptions = _SUBSCRIPTIONS.within(database)

    async def save(self, subscription: Subscription, *, new: bool = False) -> None:
        if not new:
            await self._subscriptions.put(subscription)
        elif not await self._subscriptions.add(subscription):
            raise NameTaken(f"There is a subscription {subscription.name!r} already", hint="Choose another name.")

    async def list(self) -> Sequence[Subscription]:
        return await self._subscriptions.rows("ORDER BY name")

    async def remove(self, name: str) -> bool:
        def write(connection: SqlConnection) -> bool:
            _MESSAGES.delete(connection, "subscription = ?", name)
            return bool(_SUBSCRIPTIONS.delete(connection, "name = ?", name))

        return await self._database.write(write)

    async def put(self, messages: Sequence[OutgoingMessage]) -> None:
        def write(connection: SqlConnection) -> None:
            for each in messages:
                _MESSAGES.add(connection, replace(each, attempts=0), line=each.message_id.partition(":")[0])

        await self._database.write(write)

    async def claim(self, subscription: str, now: float, *, until: float) -> OutgoingMessage | None:
        rest = (
            "AS message WHERE subscription = ? AND next_at <= ? AND NOT EXISTS"
            " (SELECT 1 FROM outgoing_messages AS earlier WHERE earlier.subscription = message.subscription"
            " AND earlier.line = message.line AND earlier.number < message.number) ORDER BY number LIMIT 1"
        )

        def write(connection: SqlConnection) -> OutgoingMessage | None:
            for found in _MESSAGES.rows(connection, rest, subscription, now):
                if _MESSAGES.update(connection, {"next_at": until}, "id = ? AND next_at = ?", found.id, found.next_at):
                    return found
            return None

        due = "SELECT 1 FROM outgoing_messages WHERE subscription = ? AND next_at <= ? LIMIT 1"
        if not await fetch_briefly(self._database, due, subscription, now):
            return None
        return await self._database.write(write)

    async def settle(self, message: OutgoingMessage, *, next_at: float | None) -> None:
        def write(connection: SqlConnection) -> None:
            if next_at is None:
                _MESSAGES.delete(connection, "id = ?", message.id)
            else:
                changes = {"attempts": message.attempts + 1, "next_at": next_at}
                _MESSAGES.update(connection, changes, "id = ?", message.id)

        await self._database.write(write)
