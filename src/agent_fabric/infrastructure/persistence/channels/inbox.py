"""The tables of what came on channels: messages, their files, the sessions held there and the answers owed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from agent_fabric.application.ports.channels import Conversation, PendingTurn
from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.channels.files import StoredFile
from agent_fabric.domain.channels.inbound import (
    ButtonPress,
    ChatMoved,
    DeliveryReport,
    Inbound,
    InboundFile,
    InboundMessage,
)
from agent_fabric.domain.ids import RunId, SessionId
from agent_fabric.infrastructure.persistence.automation.dead_letters import LetterSeal
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, storable
from agent_fabric.infrastructure.persistence.table import Table, fetch_briefly

PLACE: Final = "channel = ? AND account = ? AND chat = ? AND thread = ?"
_KINDS: Final = {"message": InboundMessage, "press": ButtonPress, "moved": ChatMoved, "report": DeliveryReport}


def split_place(place: Place) -> dict[str, Any]:
    """Return the columns of a place."""
    return asdict(place)


def _key(place: Place) -> tuple[str, str, str, str]:
    return place.channel, place.account, place.chat, place.thread


def _conversation(session_id: SessionId, sender: str, is_direct: bool, **place: str) -> Conversation:
    where = Place(**place, is_direct=bool(is_direct))
    return Conversation(session_id, where, Sender(where.channel, where.account, sender))


def _split_conversation(held: Conversation) -> Mapping[str, Any]:
    return {**split_place(held.place), "sender": held.sender.id, "session_id": held.session_id}


def _turn(run_id: RunId, sender: str, message_id: str, is_direct: bool, **place: str) -> PendingTurn:
    where = Place(**place, is_direct=bool(is_direct))
    return PendingTurn(run_id, where, Sender(where.channel, where.account, sender), message_id)


def _split_turn(turn: PendingTurn) -> Mapping[str, Any]:
    rest = {"run_id": turn.run_id, "sender": turn.sender.id, "message_id": turn.message_id}
    return {**split_place(turn.place), **rest}


_CONVERSATIONS: Final = Table(
    "channel_conversations",
    _conversation,
    key="channel account chat thread",
    columns="channel account chat thread is_direct sender session_id",
    split=_split_conversation,
)
TURNS: Final = Table(
    "channel_turns",
    _turn,
    key="run_id",
    columns="run_id channel account chat thread is_direct sender message_id",
    split=_split_turn,
)


class SqlInboundLog:
    """InboundLog over the database. Bodies are sealed with the user's keys: sessions may be encrypted."""

    def __init__(self, database: Database, seal: LetterSeal) -> None:
        self._database = database
        self._inbox: Table[Inbound] = Table(
            "channel_inbox",
            lambda body: _inbound(seal.open(bytes(body))),
            key="channel account key",
            columns="body",
            split=lambda inbound: _split_inbound(inbound, seal),
        )

    async def add(self, inbound: Sequence[Inbound], *, now: float) -> int:
        return await self._database.write(
            lambda connection: sum(self._inbox.add(connection, each, received_at=now) for each in inbound)
        )

    async def pending(self, channel: str, account: str, *, limit: int) -> Sequence[Inbound]:
        return await self._inbox.within(self._database).rows(
            "AS one WHERE channel = ? AND account = ? AND outcome = '' AND NOT EXISTS"
            " (SELECT 1 FROM channel_inbox AS earlier WHERE earlier.channel = one.channel"
            " AND earlier.account = one.account AND earlier.chat = one.chat AND earlier.thread = one.thread"
            " AND earlier.outcome = '' AND earlier.number < one.number) ORDER BY number LIMIT ?",
            *(channel, account, limit),
        )

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
        query = f"SELECT key FROM channel_inbox WHERE {PLACE} ORDER BY number DESC LIMIT 1"  # noqa: S608 - ours
        row = await fetch_briefly(self._database, query, *_key(place))
        return "" if row is None else str(row[0])


def _split_inbound(inbound: Inbound, seal: LetterSeal) -> Mapping[str, Any]:
    place = split_place(inbound.place)
    del place["is_direct"]
    kind = next(name for name, each in _KINDS.items() if isinstance(inbound, each))
    return {**place, "key": inbound.key, "body": seal.seal({"kind": kind, **asdict(inbound)})}


def _inbound(body: Mapping[str, Any]) -> Inbound:
    made: dict[str, Any] = {**body, "place": Place(**body["place"])}
    kind: Callable[..., Inbound] = _KINDS[made.pop("kind")]
    if "sender" in made:
        made["sender"] = Sender(**made["sender"])
    if "files" in made:
        made["files"] = tuple(InboundFile(**each) for each in made["files"])
    return kind(**made)


class SqlConversations:
    """ConversationStore over the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._conversations = _CONVERSATIONS.within(database)

    async def find(self, place: Place) -> Conversation | None:
        return await self._conversations.find(PLACE, *_key(place))

    async def bind(self, conversation: Conversation) -> None:
        await self._conversations.put(conversation)

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


class SqlChannelTurns:
    """TurnStore over the database."""

    def __init__(self, database: Database) -> None:
        self._turns = TURNS.within(database)

    async def add(self, turn: PendingTurn) -> None:
        await self._turns.add(turn)

    async def open(self, channel: str, account: str, *, limit: int) -> Sequence[PendingTurn]:
        return await self._turns.rows(
            "WHERE channel = ? AND account = ? ORDER BY number LIMIT ?", channel, account, limit
        )

    async def find(self, run_id: RunId) -> PendingTurn | None:
        return await self._turns.find("run_id = ?", run_id)

    async def close(self, run_id: RunId) -> None:
        await self._turns.delete("run_id = ?", run_id)


class SqlInboundFiles:
    """InboundFiles over the database: whichever server begins the turn finds them."""

    def __init__(self, database: Database, seal: LetterSeal) -> None:
        self._files: Table[StoredFile] = Table(
            "channel_files",
            lambda path, body: StoredFile(path, seal.opened_file(bytes(body))),
            key="run_id path",
            columns="path body",
            split=lambda file: {"path": file.path, "body": seal.sealed_file(file.content)},
        )
        self._stored = self._files.within(database)

    async def put(self, run_id: RunId, files: Sequence[StoredFile], *, now: float) -> None:
        await self._stored.add_all(files, run_id=run_id, created_at=now)

    async def list(self, run_id: RunId) -> Sequence[StoredFile]:
        return await self._stored.rows("WHERE run_id = ? ORDER BY path", run_id)

    async def discard(self, run_id: RunId) -> None:
        await self._stored.delete("run_id = ?", run_id)
