"""The table of messages that wait for their turn."""

from collections.abc import Sequence
from typing import Final

from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.domain.chat.sessions import QueuedMessage
from agent_fabric.domain.errors import MessageNotFound, MessageSent, SessionMoved
from agent_fabric.domain.ids import RunId, SessionId
from agent_fabric.infrastructure.persistence.chat.rows import SessionKeys, message_place, plain, seal, unseal
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, storable
from agent_fabric.wire.json_codec import load_json

_COLUMNS = "id, run_id, content, asked, created_at, problem"
DUE_SESSIONS: Final = (
    "SELECT DISTINCT session_id FROM chat_queue JOIN chat_sessions ON chat_sessions.id = session_id"
    " WHERE turn IS NULL AND problem = ''"
)
"""Query: the sessions whose next turn can begin."""


def queued_messages(connection: SqlConnection, session_id: SessionId, cipher: Cipher | None) -> list[QueuedMessage]:
    """Return what waits in a session, in its order."""
    query = f"SELECT {_COLUMNS} FROM chat_queue WHERE session_id = ? ORDER BY number"  # noqa: S608 - ours
    return [
        QueuedMessage(
            message_id=message_id,
            session_id=session_id,
            run_id=RunId(run_id),
            content=unseal(cipher, message_place(message_id, "content"), content),
            asked=load_json(asked.encode()),
            created_at=created_at,
            problem=problem,
        )
        for message_id, run_id, content, asked, created_at, problem in connection.execute(query, (session_id,))
    ]


class SqlMessageQueue:
    """MessageQueue over the database."""

    def __init__(self, database: Database, keys: SessionKeys) -> None:
        self._database = database
        self._keys = keys

    async def add(self, message: QueuedMessage, *, after: str | None = None) -> None:
        def write(connection: SqlConnection) -> None:
            # A writer of a session holds its row, so that `after` is compared with what really comes before.
            connection.execute("UPDATE chat_sessions SET pack = pack WHERE id = ?", (message.session_id,))
            cipher = self._keys.cipher_of(connection, message.session_id)
            if _is_known(connection, message):
                return
            if after is not None and after != (newest := _newest(connection, message.session_id)):
                raise SessionMoved(
                    f"More was said in this session: its newest message is {newest or 'none'}, not {after or 'none'}",
                    hint="Read what was said, then send it again.",
                )
            query = (
                "INSERT INTO chat_queue (id, session_id, run_id, content, asked, created_at) VALUES (?, ?, ?, ?, ?, ?)"
            )
            content = seal(cipher, message_place(message.message_id, "content"), message.content)
            values = (message.message_id, message.session_id, message.run_id, content, plain(message.asked))
            connection.execute(query, (*values, message.created_at))

        await self._database.write(write)

    async def list(self, session_id: SessionId) -> Sequence[QueuedMessage]:
        return await self._database.read(
            lambda connection: queued_messages(connection, session_id, self._keys.cipher_of(connection, session_id))
        )

    async def due(self) -> Sequence[SessionId]:
        return await self._database.read_briefly(
            lambda connection: [SessionId(str(session_id)) for (session_id,) in connection.execute(DUE_SESSIONS)]
        )

    async def change(self, session_id: SessionId, message_id: str, content: str | None, *, problem: str = "") -> None:
        def write(connection: SqlConnection) -> None:
            _require_waiting(connection, session_id, message_id)
            connection.execute("UPDATE chat_queue SET problem = ? WHERE id = ?", (storable(problem), message_id))
            if content is not None:
                sealed = seal(
                    self._keys.cipher_of(connection, session_id), message_place(message_id, "content"), content
                )
                connection.execute("UPDATE chat_queue SET content = ? WHERE id = ?", (sealed, message_id))

        await self._database.write(write)

    async def withdraw(self, session_id: SessionId, message_id: str) -> None:
        def write(connection: SqlConnection) -> None:
            _require_waiting(connection, session_id, message_id)
            connection.execute("DELETE FROM chat_queue WHERE id = ?", (message_id,))

        await self._database.write(write)


def _is_known(connection: SqlConnection, message: QueuedMessage) -> bool:
    waits = connection.execute("SELECT 1 FROM chat_queue WHERE run_id = ?", (message.run_id,)).fetchone()
    return waits is not None or (
        connection.execute("SELECT 1 FROM runs WHERE run_id = ?", (message.run_id,)).fetchone() is not None
    )


def _newest(connection: SqlConnection, session_id: SessionId) -> str:
    """Return the message behind which the next one stands; empty: it is the first."""
    for table in ("chat_queue", "chat_messages"):
        query = f"SELECT id FROM {table} WHERE session_id = ? ORDER BY number DESC LIMIT 1"  # noqa: S608 - ours
        row = connection.execute(query, (session_id,)).fetchone()
        if row is not None:
            return str(row[0])
    return ""


def _require_waiting(connection: SqlConnection, session_id: SessionId, message_id: str) -> None:
    for table in ("chat_queue", "chat_messages"):
        query = f"SELECT 1 FROM {table} WHERE session_id = ? AND id = ?"  # noqa: S608 - ours
        if connection.execute(query, (session_id, message_id)).fetchone() is not None:
            if table == "chat_queue":
                return
            raise MessageSent(f"The turn of message {message_id} has begun", hint="Stop it, or send another message.")
    raise MessageNotFound(f"Session {session_id} has no message {message_id!r}", hint="Reload the session.")
