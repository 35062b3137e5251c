"""Makes the messages of a session anew from the logs of its turns: the table is a projection of them."""

from agent_fabric.application.ports.chat import SessionMessages
from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.domain.chat.sessions import ChatMessage, Session, copy_message, message_from
from agent_fabric.domain.events import RunCancelled, RunCompleted, RunCreated, RunFailed
from agent_fabric.domain.ids import RunId, SessionId
from agent_fabric.infrastructure.persistence.chat.rows import (
    SESSION_COLUMNS,
    SessionKeys,
    insert_message,
    message_from_row,
    remove_messages,
    session_from,
)
from agent_fabric.infrastructure.persistence.chat.sessions import SqlSessionMessages
from agent_fabric.infrastructure.persistence.runs.event_rows import load_events
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys
from agent_fabric.infrastructure.persistence.sql import SqlConnection

_MADE_OF = (RunCreated, RunCompleted, RunFailed, RunCancelled)


async def rebuild_messages(messages: SessionMessages, session_id: SessionId) -> int:
    """Replace the rows of a session by what its turns make; return how many there are."""
    assert isinstance(messages, SqlSessionMessages)
    database, keys = messages._database, messages._keys

    def write(connection: SqlConnection) -> int:
        query = f"SELECT {SESSION_COLUMNS} FROM chat_sessions WHERE id = ?"
        row = connection.execute(query, (session_id,)).fetchone()
        session, cipher = session_from(row, keys), keys.cipher(session_id, row[-2])
        made = [*_shared(connection, keys, session, cipher), *_of_turns(connection, database.keys, session_id)]
        remove_messages(connection, session_id)
        for message in made:
            insert_message(connection, cipher, message)
        return len(made)

    return await database.write(write)


def _shared(connection: SqlConnection, keys: SessionKeys, session: Session, cipher: Cipher | None) -> list[ChatMessage]:
    """Return what a fork shares with its parent: from there, or as it is if the parent is gone."""
    parent = session.parent_session
    if parent is None:
        return []
    key = connection.execute("SELECT key FROM chat_sessions WHERE id = ?", (parent,)).fetchone()
    own = f"{session.session_id}.{session.parent_message.rpartition('.')[2]}"
    source, upto = (session.session_id, own) if key is None else (parent, session.parent_message)
    query = (
        "SELECT id, role, content, metadata_json, created_at FROM chat_messages WHERE session_id = ? AND number <="
        " (SELECT number FROM chat_messages WHERE session_id = ? AND id = ?) ORDER BY number"
    )
    opened = cipher if key is None else keys.cipher(parent, key[0])
    rows = connection.execute(query, (source, source, upto)).fetchall()
    return [copy_message(message_from_row(row, source, opened), session.session_id) for row in rows]


def _of_turns(connection: SqlConnection, keys: RunKeys, session_id: SessionId) -> list[ChatMessage]:
    query = (
        "SELECT number, run_id, run_keys.key FROM runs LEFT JOIN run_keys ON run_keys.run = number"
        " WHERE session_id = ? ORDER BY number"
    )
    made: list[ChatMessage] = []
    for number, run_id, key in connection.execute(query, (session_id,)).fetchall():
        events = load_events(connection, number, keys.cipher(RunId(run_id), key))
        created = events[0].body
        assert isinstance(created, RunCreated)
        found = [message_from(RunId(run_id), created, each) for each in events if isinstance(each.body, _MADE_OF)]
        made += filter(None, found)
    return made
