"""The table of sessions."""

from collections.abc import Sequence
from typing import Any, Final

from agent_fabric.application.ports.chat import SessionQuery
from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.domain.chat.sessions import Session, copy_message
from agent_fabric.domain.errors import MessageNotFound, SessionNotFound
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer
from agent_fabric.domain.ids import RunId, SessionId
from agent_fabric.infrastructure.persistence.chat.rows import (
    SESSION_COLUMNS,
    TITLE_PLACE,
    SessionKeys,
    insert_message,
    message_from_row,
    remove_messages,
    seal,
    session_from,
)
from agent_fabric.infrastructure.persistence.runs.run_visibility import visible_to
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, erasing, storable

_LAST_CHARACTER = "\U0010ffff"
_SEE_ALL = "See all sessions with `fabric sessions list`."
_CHANGEABLE: Final = frozenset({"title", "visibility", "model_key", "pack", "node", "has_unread", "archived_at"})


class SqlSessionRepository:
    """SessionRepository over the database."""

    def __init__(self, database: Database, keys: SessionKeys) -> None:
        self._database = database
        self._keys = keys

    async def create(self, session: Session, *, encrypted: bool, upto: str = "") -> Session:
        new = self._database.keys.new(RunId(session.session_id)) if encrypted else None
        cipher = None if new is None else new.cipher

        def write(connection: SqlConnection) -> None:
            query = (
                "INSERT INTO chat_sessions (id, title, has_unread, created_at, updated_at, owner, visibility,"
                " model_key, pack, node, parent_session, parent_message, project, last_run, key)"
                " VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            )
            values = (
                session.session_id,
                seal(cipher, TITLE_PLACE, session.title) if session.title else "",
                session.created_at,
                session.updated_at,
                storable(session.owner),
                session.visibility.value,
                storable(session.model_key),
                storable(session.pack),
                storable(session.node),
                session.parent_session,
                session.parent_message or None,
                storable(session.project),
                session.last_run,
                None if new is None else new.sealed,
            )
            connection.execute(query, values)
            if session.parent_session is not None:
                self._copy(connection, session, cipher, upto)

        await self._database.write(write)
        if new is not None:
            self._keys.note(session.session_id, new.sealed, new.cipher)
        return session

    def _copy(self, connection: SqlConnection, session: Session, cipher: Cipher | None, upto: str) -> None:
        parent = session.parent_session
        assert parent is not None
        row = connection.execute(
            "SELECT number FROM chat_messages WHERE session_id = ? AND id = ?", (parent, upto)
        ).fetchone()
        key = connection.execute("SELECT key FROM chat_sessions WHERE id = ?", (parent,)).fetchone()
        if row is None or key is None:
            raise MessageNotFound(f"Session {parent} has no message {upto!r}", hint="Reload the session.")
        opened = self._keys.cipher(parent, key[0])
        query = (
            "SELECT id, role, content, metadata_json, created_at FROM chat_messages"
            " WHERE session_id = ? AND number <= ? ORDER BY number"
        )
        for each in connection.execute(query, (parent, row[0])).fetchall():
            insert_message(connection, cipher, copy_message(message_from_row(each, parent, opened), session.session_id))

    async def find(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> Session:
        wanted = storable(prefix).lower()
        if not wanted:
            raise SessionNotFound("No session was named", hint=_SEE_ALL)
        visible = visible_to(viewer, "chat_sessions")

        def read(connection: SqlConnection) -> list[Session]:
            query = (
                f"SELECT {SESSION_COLUMNS} FROM chat_sessions WHERE id >= ? AND id < ? AND {visible.sql}"  # noqa: S608 - ours
                " ORDER BY id LIMIT 6"
            )
            rows = connection.execute(query, (wanted, wanted + _LAST_CHARACTER, *visible.values)).fetchall()
            return [session_from(row, self._keys) for row in rows]

        found = await self._database.read(read)
        if not found:
            raise SessionNotFound(f"There is no session {prefix!r}", hint=_SEE_ALL)
        if len(found) == 1 or found[0].session_id == wanted:
            return found[0]
        ids = ", ".join(each.session_id for each in found)
        raise SessionNotFound(f"Several sessions begin with {prefix!r}", hint=f"Give more of the id: {ids}.")

    async def list(self, wanted: SessionQuery) -> Sequence[Session]:
        condition, values = list_condition(wanted)
        query = (
            f"SELECT {SESSION_COLUMNS} FROM chat_sessions WHERE {condition}"  # noqa: S608 - ours
            " ORDER BY updated_at DESC, id LIMIT ?"
        )

        def read(connection: SqlConnection) -> list[Session]:
            rows = connection.execute(query, (*values, wanted.limit)).fetchall()
            return [session_from(row, self._keys) for row in rows]

        return await self._database.read(read)

    async def change(self, session_id: SessionId, **values: Any) -> Session:
        assert values.keys() <= _CHANGEABLE

        def write(connection: SqlConnection) -> Session:
            row = connection.execute("SELECT key FROM chat_sessions WHERE id = ?", (session_id,)).fetchone()
            if row is None:
                raise SessionNotFound(f"There is no session {session_id!r}", hint=_SEE_ALL)
            stored = dict(values)
            if "title" in stored:
                stored["title"] = seal(self._keys.cipher(session_id, row[0]), TITLE_PLACE, stored["title"])
            if "has_unread" in stored:
                stored["has_unread"] = int(stored["has_unread"])
            for name, value in stored.items():
                query = f"UPDATE chat_sessions SET {name} = ? WHERE id = ?"  # noqa: S608 - one of ours
                connection.execute(query, (storable(value) if isinstance(value, str) else value, session_id))
            query = f"SELECT {SESSION_COLUMNS} FROM chat_sessions WHERE id = ?"  # noqa: S608 - ours
            return session_from(connection.execute(query, (session_id,)).fetchone(), self._keys)

        return await self._database.write(write)

    async def remove(self, session_id: SessionId) -> Sequence[RunId]:
        def write(connection: SqlConnection) -> list[RunId]:
            with erasing(connection, self._database.dialect):  # the key, too
                query = "DELETE FROM chat_sessions WHERE id = ? RETURNING id"
                if connection.execute(query, (session_id,)).fetchone() is None:
                    raise SessionNotFound(f"There is no session {session_id!r}", hint=_SEE_ALL)
                remove_messages(connection, session_id)
                connection.execute("DELETE FROM chat_queue WHERE session_id = ?", (session_id,))
            query = "SELECT run_id FROM runs WHERE session_id = ? ORDER BY number DESC"
            return [RunId(str(run_id)) for (run_id,) in connection.execute(query, (session_id,))]

        return await self._database.write(write)


def list_condition(wanted: SessionQuery) -> tuple[str, tuple[Any, ...]]:
    """Return the condition under which a session is listed."""
    visible = visible_to(wanted.viewer, "chat_sessions")
    condition = (
        f"{visible.sql} AND (? = '' OR chat_sessions.owner = ?)"
        f" AND chat_sessions.archived_at IS {'NOT ' if wanted.archived else ''}NULL"
        " AND (? OR chat_sessions.updated_at < ?)"
    )
    before = wanted.before
    return condition, (*visible.values, wanted.owner, wanted.owner, before is None, 0.0 if before is None else before)
