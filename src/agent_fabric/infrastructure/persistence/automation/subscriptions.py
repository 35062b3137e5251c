"""The tables of receivers and of the messages that they have not had yet."""

import json
from collections.abc import Sequence
from typing import Any

from agent_fabric.domain.automation.outgoing import OutgoingMessage, Subscription
from agent_fabric.domain.errors import NameTaken
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, storable
from agent_fabric.wire.json_codec import dump_json, load_json

_COLUMNS = (
    "name, subjects, url, secret, old_secret, old_until, is_active, disabled_because, failing_since, owner, created_at"
)
_NAMES = _COLUMNS.split(", ")


class SqlSubscriptions:
    """SubscriptionStore and OutgoingQueue over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, subscription: Subscription, *, new: bool = False) -> None:
        values = (
            storable(subscription.name),
            json.dumps(list(subscription.subjects)),
            storable(subscription.url),
            storable(subscription.secret),
            storable(subscription.old_secret),
            subscription.old_until,
            int(subscription.is_active),
            storable(subscription.disabled_because),
            subscription.failing_since,
            storable(subscription.owner),
            subscription.created_at,
        )
        changes = ", ".join(f"{name} = excluded.{name}" for name in _NAMES[1:])
        conflict = "DO NOTHING" if new else f"DO UPDATE SET {changes}"
        query = (
            f"INSERT INTO subscriptions ({_COLUMNS}) VALUES ({', '.join('?' * len(values))})"  # noqa: S608 - ours
            f" ON CONFLICT (name) {conflict} RETURNING 1"
        )
        done = await self._database.write(lambda connection: connection.execute(query, values).fetchall())
        if not done:
            raise NameTaken(f"There is a subscription {subscription.name!r} already", hint="Choose another name.")

    async def list(self) -> Sequence[Subscription]:
        query = f"SELECT {_COLUMNS} FROM subscriptions ORDER BY name"  # noqa: S608 - ours
        rows = await self._database.read(lambda connection: connection.execute(query).fetchall())
        return [_subscription(row) for row in rows]

    async def remove(self, name: str) -> bool:
        def write(connection: SqlConnection) -> bool:
            connection.execute("DELETE FROM outgoing_messages WHERE subscription = ?", (storable(name),))
            query = "DELETE FROM subscriptions WHERE name = ? RETURNING 1"
            return bool(connection.execute(query, (storable(name),)).fetchall())

        return await self._database.write(write)

    async def put(self, messages: Sequence[OutgoingMessage]) -> None:
        query = (
            "INSERT INTO outgoing_messages"
            " (id, subscription, message_id, line, subject, payload, attempts, next_at, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?) ON CONFLICT (id) DO NOTHING"
        )
        rows = [
            (
                storable(each.id),
                storable(each.subscription),
                storable(each.message_id),
                storable(each.message_id.partition(":")[0]),
                storable(each.subject),
                dump_json(dict(each.payload)),
                each.next_at,
                each.created_at,
            )
            for each in messages
        ]
        await self._database.write(lambda connection: connection.executemany(query, rows))

    async def claim(self, subscription: str, now: float, *, until: float) -> OutgoingMessage | None:
        query = (
            "SELECT id, subscription, message_id, subject, payload, attempts, next_at, created_at"
            " FROM outgoing_messages AS message WHERE subscription = ? AND next_at <= ? AND NOT EXISTS"
            " (SELECT 1 FROM outgoing_messages AS earlier WHERE earlier.subscription = message.subscription"
            " AND earlier.line = message.line AND earlier.number < message.number) ORDER BY number LIMIT 1"
        )
        take = "UPDATE outgoing_messages SET next_at = ? WHERE id = ? AND next_at = ? RETURNING 1"

        def write(connection: SqlConnection) -> OutgoingMessage | None:
            row = connection.execute(query, (storable(subscription), now)).fetchone()
            if row is None or not connection.execute(take, (until, row[0], row[6])).fetchall():
                return None
            return _message(row)

        due = "SELECT 1 FROM outgoing_messages WHERE subscription = ? AND next_at <= ? LIMIT 1"
        values = (storable(subscription), now)
        if not await self._database.read_briefly(lambda connection: connection.execute(due, values).fetchone()):
            return None
        return await self._database.write(write)

    async def settle(self, message: OutgoingMessage, *, next_at: float | None) -> None:
        def write(connection: SqlConnection) -> None:
            if next_at is None:
                connection.execute("DELETE FROM outgoing_messages WHERE id = ?", (storable(message.id),))
            else:
                query = "UPDATE outgoing_messages SET attempts = ?, next_at = ? WHERE id = ?"
                connection.execute(query, (message.attempts + 1, next_at, storable(message.id)))

        await self._database.write(write)


def _subscription(row: Sequence[Any]) -> Subscription:
    stored = dict(zip(_NAMES, row, strict=True))
    stored |= {"subjects": tuple(json.loads(stored["subjects"])), "is_active": bool(stored["is_active"])}
    return Subscription(**stored)


def _message(row: Sequence[Any]) -> OutgoingMessage:
    key, subscription, message_id, subject, payload, attempts, next_at, created_at = row
    return OutgoingMessage(
        id=str(key),
        subscription=str(subscription),
        message_id=str(message_id),
        subject=str(subject),
        payload=load_json(payload),
        attempts=int(attempts),
        next_at=float(next_at),
        created_at=float(created_at),
    )
