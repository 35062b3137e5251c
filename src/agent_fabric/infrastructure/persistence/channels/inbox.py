"""The tables of what came on channels, and of the sessions that are held there."""

from collections.abc import Sequence

from agent_fabric.application.ports.channels import Conversation
from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.channels.inbound import Inbound
from agent_fabric.domain.ids import SessionId
from agent_fabric.infrastructure.persistence.automation.dead_letters import LetterSeal
from agent_fabric.infrastructure.persistence.channels.rows import inbound_body, inbound_from
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, storable

_CONVERSATION = "channel, account, chat, thread, is_direct, sender, session_id"


class SqlInboundLog:
    """InboundLog over the database."""

    def __init__(self, database: Database, seal: LetterSeal) -> None:
        self._database = database
        self._seal = seal

    async def add(self, inbound: Sequence[Inbound], *, now: float) -> int:
        query = (
            "INSERT INTO channel_inbox (channel, account, key, chat, thread, body, received_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (channel, account, key) DO NOTHING RETURNING 1"
        )
        rows = [
            (
                *(storable(text) for text in (each.place.channel, each.place.account, each.key)),
                storable(each.place.chat),
                storable(each.place.thread),
                inbound_body(each, self._seal),
                now,
            )
            for each in inbound
        ]

        def write(connection: SqlConnection) -> int:
            return sum(len(connection.execute(query, row).fetchall()) for row in rows)

        return await self._database.write(write)

    async def pending(self, channel: str, account: str, *, limit: int) -> Sequence[Inbound]:
        query = (
            "SELECT body FROM channel_inbox AS one WHERE channel = ? AND account = ? AND outcome = '' AND NOT EXISTS"
            " (SELECT 1 FROM channel_inbox AS earlier WHERE earlier.channel = one.channel"
            " AND earlier.account = one.account AND earlier.chat = one.chat AND earlier.thread = one.thread"
            " AND earlier.outcome = '' AND earlier.number < one.number) ORDER BY number LIMIT ?"
        )
        values = (storable(channel), storable(account), limit)
        rows = await self._database.read(lambda connection: connection.execute(query, values).fetchall())
        return [inbound_from(bytes(row[0]), self._seal) for row in rows]

    async def settle(self, handled: Sequence[tuple[Inbound, str]]) -> None:
        # The key stays, so that a repetition is known; what was said is in its session by now.
        query = (
            "UPDATE channel_inbox SET outcome = ?, body = NULL"
            " WHERE channel = ? AND account = ? AND key = ? AND outcome = ''"
        )
        rows = [
            tuple(storable(text) for text in (outcome, each.place.channel, each.place.account, each.key))
            for each, outcome in handled
        ]
        await self._database.write(lambda connection: connection.executemany(query, rows))

    async def newest(self, place: Place) -> str:
        query = (
            "SELECT key FROM channel_inbox WHERE channel = ? AND account = ? AND chat = ? AND thread = ?"
            " ORDER BY number DESC LIMIT 1"
        )
        row = await self._database.read_briefly(lambda connection: connection.execute(query, _key(place)).fetchone())
        return "" if row is None else str(row[0])


class SqlConversations:
    """ConversationStore over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, place: Place) -> Conversation | None:
        query = (
            f"SELECT {_CONVERSATION} FROM channel_conversations"  # noqa: S608 - ours
            " WHERE channel = ? AND account = ? AND chat = ? AND thread = ?"
        )
        return await self._found(query, _key(place))

    async def of_session(self, session_id: SessionId) -> Conversation | None:
        query = f"SELECT {_CONVERSATION} FROM channel_conversations WHERE session_id = ? LIMIT 1"  # noqa: S608 - ours
        return await self._found(query, (storable(session_id),))

    async def bind(self, conversation: Conversation) -> None:
        query = (
            f"INSERT INTO channel_conversations ({_CONVERSATION}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608 - ours
            " ON CONFLICT (channel, account, chat, thread) DO UPDATE SET is_direct = excluded.is_direct,"
            " sender = excluded.sender, session_id = excluded.session_id"
        )
        place = conversation.place
        values = (
            *_key(place),
            int(place.is_direct),
            storable(conversation.sender.id),
            storable(conversation.session_id),
        )
        await self._database.write(lambda connection: connection.execute(query, values).fetchall())

    async def move(self, place: Place, to_chat: str) -> None:
        old = (storable(place.channel), storable(place.account), storable(place.chat))
        new = storable(to_chat)
        taken = (
            "DELETE FROM channel_conversations WHERE channel = ? AND account = ? AND chat = ? AND EXISTS"
            " (SELECT 1 FROM channel_conversations AS former WHERE former.channel = channel_conversations.channel"
            " AND former.account = channel_conversations.account AND former.chat = ?"
            " AND former.thread = channel_conversations.thread)"
        )
        conversations = "UPDATE channel_conversations SET chat = ? WHERE channel = ? AND account = ? AND chat = ?"
        turns = "UPDATE channel_turns SET chat = ? WHERE channel = ? AND account = ? AND chat = ?"
        parts = (
            "UPDATE channel_outbox SET chat = ?, id = source || ':' || seq || ':' || part || ':' || channel || '/'"
            " || account || '/' || ? || CASE WHEN thread = '' THEN '' ELSE '/' || thread END"
            " WHERE channel = ? AND account = ? AND chat = ? AND status = 'queued'"
        )

        def write(connection: SqlConnection) -> None:
            connection.execute(taken, (*old[:2], new, old[2]))
            connection.execute(conversations, (new, *old))
            connection.execute(turns, (new, *old))
            connection.execute(parts, (new, new, *old))

        await self._database.write(write)

    async def _found(self, query: str, values: tuple[str, ...]) -> Conversation | None:
        row = await self._database.read_briefly(lambda connection: connection.execute(query, values).fetchone())
        if row is None:
            return None
        channel, account, chat, thread, is_direct, sender, session_id = row
        place = Place(channel, account, chat, thread, is_direct=bool(is_direct))
        return Conversation(SessionId(session_id), place, Sender(channel, account, sender))


def _key(place: Place) -> tuple[str, str, str, str]:
    return storable(place.channel), storable(place.account), storable(place.chat), storable(place.thread)
