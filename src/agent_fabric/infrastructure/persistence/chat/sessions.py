"""The tables of sessions and messages, and the hashes of their words."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from agent_fabric.application.ports.chat import FoundMessage, MessagePage, SessionQuery
from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.domain.chat.sessions import ChatMessage, Session, copy_message
from agent_fabric.domain.errors import MessageNotFound, RunKeyMissing, SessionNotFound
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer
from agent_fabric.domain.ids import RunId, SessionId
from agent_fabric.infrastructure.persistence.chat.queue import queued_messages
from agent_fabric.infrastructure.persistence.chat.rows import (
    SESSION_COLUMNS,
    TITLE_PLACE,
    UNREADABLE,
    SessionKeys,
    fold_text,
    hash_of_word,
    insert_message,
    message_from_row,
    remove_messages,
    seal,
    session_from,
    words_in,
)
from agent_fabric.infrastructure.persistence.runs.run_visibility import visible_to
from agent_fabric.infrastructure.persistence.sql import Database, SqlConnection, erasing, marks, storable
from agent_fabric.infrastructure.persistence.table import fetch

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


_COLUMNS = "id, role, content, metadata_json, created_at"
AT_ONCE = 500
"""Hashes that are looked up with one query."""
FIRST_SESSIONS = 50
"""Sessions that are searched together at first, and then twice as many each time: the newest mostly have enough."""
_NEWEST = "(SELECT max(number) FROM chat_messages WHERE session_id = chat_sessions.id)"
MAX_SEARCHED = 10_000
"""Sessions, the newest first, that a search looks into."""


class _Searched(NamedTuple):
    """A session with messages."""

    session_id: str
    key: bytes | None
    newest: int
    """The number of its newest message."""


class SqlSessionMessages:
    """SessionMessages over the database."""

    def __init__(self, database: Database, keys: SessionKeys) -> None:
        self._database = database
        self._keys = keys

    async def page(self, session_id: SessionId, *, before: str = "", limit: int = 50) -> MessagePage:
        def read(connection: SqlConnection) -> MessagePage:
            cipher = self._keys.cipher_of(connection, session_id)
            number = self._number(connection, session_id, before) if before else None
            query = (
                f"SELECT {_COLUMNS} FROM chat_messages WHERE session_id = ? AND (? OR number < ?)"  # noqa: S608 - ours
                " ORDER BY number DESC LIMIT ?"
            )
            rows = connection.execute(query, (session_id, number is None, number or 0, limit + 1)).fetchall()
            shown = [message_from_row(row, session_id, cipher) for row in reversed(rows[:limit])]
            return MessagePage(shown, len(rows) > limit)

        return await self._database.read(read)

    def _number(self, connection: SqlConnection, session_id: SessionId, message_id: str) -> int:
        query = "SELECT number FROM chat_messages WHERE session_id = ? AND id = ?"
        row = connection.execute(query, (session_id, message_id)).fetchone()
        if row is None:
            raise MessageNotFound(f"Session {session_id} has no message {message_id!r}", hint="Reload the session.")
        return int(row[0])

    async def after(self, session_id: SessionId, message_id: str) -> Sequence[ChatMessage]:
        def read(connection: SqlConnection) -> list[ChatMessage]:
            cipher = self._keys.cipher_of(connection, session_id)
            waiting = [each.as_message() for each in queued_messages(connection, session_id, cipher)]
            ids = [each.message_id for each in waiting]
            if message_id in ids:
                return waiting[ids.index(message_id) + 1 :]
            try:
                number = self._number(connection, session_id, message_id)
            except MessageNotFound:
                number = 0
            query = (
                f"SELECT {_COLUMNS} FROM chat_messages WHERE session_id = ? AND number > ?"  # noqa: S608 - ours
                " ORDER BY number DESC LIMIT 50"
            )
            rows = connection.execute(query, (session_id, number)).fetchall()
            return [*(message_from_row(row, session_id, cipher) for row in reversed(rows)), *waiting]

        return await self._database.read(read)

    async def turns(self, session_id: SessionId) -> Sequence[RunId]:
        query = "SELECT run_id FROM runs WHERE session_id = ? ORDER BY number"
        return [run_id for (run_id,) in await fetch(self._database, query, session_id)]

    async def search(self, words: str, *, wanted: SessionQuery) -> Sequence[FoundMessage]:
        terms = words_in(words)
        if not terms:
            return []
        return await self._database.read(lambda connection: self._search(connection, terms, wanted))

    def _search(self, connection: SqlConnection, terms: Sequence[str], wanted: SessionQuery) -> list[FoundMessage]:
        condition, values = list_condition(wanted)
        query = (
            f"SELECT {SESSION_COLUMNS}, {_NEWEST} FROM chat_sessions WHERE {condition}"  # noqa: S608 - ours
            " ORDER BY updated_at DESC, id LIMIT ?"
        )
        rows = connection.execute(query, (*values, MAX_SEARCHED)).fetchall()
        known = {row[0]: session_from(row[:-1], self._keys) for row in rows}
        readable = (session for session in known.values() if session.title != UNREADABLE)
        titled = (FoundMessage(session, None) for session in readable if _stand_in(terms, session.title))
        found = [*islice(titled, wanted.limit)]
        if len(found) == wanted.limit:
            return found
        said = [_Searched(row[0], row[-3], row[-1]) for row in rows if row[-1] is not None]
        newest = self._newest(connection, terms, said, wanted.limit - len(found))
        return [*found, *(FoundMessage(known[message.session_id], message) for message in newest)]

    def _newest(
        self, connection: SqlConnection, terms: Sequence[str], sessions: list["_Searched"], limit: int
    ) -> list[ChatMessage]:
        """Return the newest messages with all words. Sessions without one that is new enough are not looked into."""
        sessions.sort(key=lambda each: each.newest, reverse=True)
        found: dict[int, ChatMessage] = {}
        first, at_once = 0, FIRST_SESSIONS
        while first < len(sessions):
            oldest = min(found) if len(found) >= limit else 0
            part = [each for each in sessions[first : first + at_once] if each.newest > oldest]
            if not part:
                break
            ciphers = self._unseal((each.session_id, each.key) for each in part)
            numbers = [each for each in self._candidates(connection, terms, ciphers) if each > oldest]
            found |= self._matching(connection, terms, sorted(numbers, reverse=True), ciphers, limit)
            found = {number: found[number] for number in sorted(found, reverse=True)[:limit]}
            first, at_once = first + at_once, at_once * 2
        return [*found.values()]

    def _matching(
        self,
        connection: SqlConnection,
        terms: Sequence[str],
        numbers: Sequence[int],
        ciphers: Mapping[str, Cipher | None],
        limit: int,
    ) -> dict[int, ChatMessage]:
        """Return the first of these messages in which all words stand, by their numbers."""
        found: dict[int, ChatMessage] = {}
        for first in range(0, len(numbers), limit):
            part = numbers[first : first + limit]
            query = (
                f"SELECT number, session_id, {_COLUMNS} FROM chat_messages"  # noqa: S608 - only marks
                f" WHERE number IN ({marks(part)}) ORDER BY number DESC"
            )
            for number, session_id, *row in connection.execute(query, part).fetchall():
                if session_id not in ciphers:
                    continue  # the same hash by chance
                message = message_from_row(row, SessionId(session_id), ciphers[session_id])
                if _stand_in(terms, message.content):
                    found[int(number)] = message
            if len(found) >= limit:
                break
        return found

    def _unseal(self, sessions: Iterable[tuple[str, bytes | None]]) -> dict[str, Cipher | None]:
        opened: dict[str, Cipher | None] = {}
        for session_id, key in sessions:
            try:
                opened[session_id] = self._keys.cipher(session_id, key)
            except RunKeyMissing:
                continue  # what cannot be read cannot be searched
        return opened

    def _candidates(
        self, connection: SqlConnection, terms: Sequence[str], ciphers: Mapping[str, Cipher | None]
    ) -> set[int]:
        """Return the messages that may have all words: beginnings of words are looked up by some of their letters.

        Each word is looked up only in sessions that have all words before it.
        """
        found: set[int] | None = None
        sessions: Collection[str] = ciphers.keys()
        for term in terms:
            owners = {each: session for session in sessions for each in hash_of_word(session, ciphers[session], term)}
            hashes, some, having = [*owners], set[int](), set[str]()
            for first in range(0, len(hashes), AT_ONCE):
                part = hashes[first : first + AT_ONCE]
                query = f"SELECT word, message FROM chat_words WHERE word IN ({marks(part)})"  # noqa: S608 - only marks
                for word, number in connection.execute(query, part):
                    some.add(int(number))
                    having.add(owners[bytes(word)])
            found, sessions = some if found is None else found & some, having
            if not found:
                return set()
        return found or set()


def _stand_in(terms: Sequence[str], text: str) -> bool:
    """Tell whether each term begins a word of a text."""
    plain = fold_text(text)
    if not all(term in plain for term in terms):  # nearly always, and much faster
        return False
    words = words_in(text)
    return all(any(word.startswith(term) for word in words) for term in terms)
