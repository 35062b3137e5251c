"""Rows of sessions and messages, and what an event of a turn makes of them.

Titles, messages and what waits are sealed with a key of the session, if it is encrypted. So that they can be searched
all the same, each message has its words in a table as keyed hashes, which tell nothing without the key.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.domain.chat.sessions import STOPPED, ChatMessage, Session, message_from, title_from
from agent_fabric.domain.errors import DriverConflict, RunKeyMissing, SessionNotFound
from agent_fabric.domain.identity.ownership import visibility_from
from agent_fabric.domain.ids import RunId, SessionId
from agent_fabric.infrastructure.persistence.secrets.sealing import RunKeys, sealed_json, unsealed_json
from agent_fabric.infrastructure.persistence.sql import SqlConnection, storable
from agent_fabric.wire.json_codec import dump_json, load_json

if TYPE_CHECKING:
    from agent_fabric.domain.events import Event, RunCreated

HASH_BYTES: Final = 8
PREFIXES: Final = (3, 5, 8)
"""Lengths of the beginnings of words that are looked up, so that an unfinished word is found."""
MAX_WORDS: Final = 2_000
"""Of one message that can be searched for."""
UNREADABLE: Final = "(encrypted; its key is not here)"

TITLE_PLACE: Final = "title"
"""Where a title belongs."""

_WORD = re.compile(r"\w+")

SESSION_COLUMNS: Final = (
    "chat_sessions.id, chat_sessions.title, chat_sessions.has_unread, chat_sessions.created_at,"
    " chat_sessions.updated_at, chat_sessions.owner, chat_sessions.visibility, chat_sessions.model_key,"
    " chat_sessions.pack, chat_sessions.node, chat_sessions.parent_session, chat_sessions.parent_message,"
    " chat_sessions.archived_at, chat_sessions.project, chat_sessions.turn, chat_sessions.last_run, chat_sessions.key,"
    " (SELECT count(*) FROM chat_queue WHERE chat_queue.session_id = chat_sessions.id)"
)


class SessionKeys:
    """The ciphers of sessions, for all who read them: opening one takes longer than reading a message with it."""

    def __init__(self, keys: RunKeys, *, most: int = 4_096) -> None:
        self._keys = keys
        self._most = most
        self._open: dict[tuple[str, bytes], Cipher] = {}
        self._titles: dict[tuple[str, str], str] = {}

    def title(self, session_id: str, sealed: bytes | None, stored: str) -> str:
        """Return the title of a session, which is looked at much more often than it changes.

        Raises:
            RunKeyMissing: its key cannot be opened.
            ValueError: it was changed.
        """
        if not stored or sealed is None:
            return stored
        known = self._titles.get((session_id, stored))
        if known is None:
            known = unseal(self.cipher(session_id, sealed), TITLE_PLACE, stored)
            if len(self._titles) >= self._most:
                self._titles.clear()
            self._titles[session_id, stored] = known
        return known

    def cipher(self, session_id: str, sealed: bytes | None) -> Cipher | None:
        """Return what reads and writes a session whose key is stored so; None if it is not encrypted.

        Raises:
            RunKeyMissing: its key cannot be opened.
        """
        if sealed is None:
            return None
        known = self._open.get((session_id, sealed))
        if known is None:
            known = self._keys.cipher(RunId(session_id), bytes(sealed))
            assert known is not None
            self.note(session_id, sealed, known)
        return known

    def cipher_of(self, connection: SqlConnection, session_id: str) -> Cipher | None:
        """Return what reads and writes a session; None if it is not encrypted.

        Raises:
            SessionNotFound: there is none.
            RunKeyMissing: its key cannot be opened.
        """
        row = connection.execute("SELECT key FROM chat_sessions WHERE id = ?", (session_id,)).fetchone()
        if row is None:
            raise SessionNotFound(f"There is no session {session_id!r}", hint="See `fabric sessions list`.")
        return self.cipher(session_id, row[0])

    def note(self, session_id: str, sealed: bytes, cipher: Cipher) -> None:
        """Keep the cipher of a session."""
        if len(self._open) >= self._most:
            self._open.clear()
        self._open[session_id, bytes(sealed)] = cipher


def seal(cipher: Cipher | None, place: str, text: str) -> str:
    """Return a text as it is stored."""
    text = storable(text)
    return text if cipher is None else sealed_json(cipher, place, text.encode()).decode()


def unseal(cipher: Cipher | None, place: str, stored: str) -> str:
    """Undo `seal`.

    Raises:
        ValueError: it was changed.
    """
    return stored if cipher is None else unsealed_json(cipher, place, stored.encode()).decode()


def message_place(message_id: str, column: str) -> str:
    """Return where a message belongs."""
    return f"message\0{message_id}\0{column}"


def session_from(row: Sequence[Any], keys: SessionKeys) -> Session:
    """Return the session of a row of `SESSION_COLUMNS`."""
    session_id, title, unread, created_at, updated_at, owner, visibility, model_key, pack, node, *rest = row
    parent, parent_message, archived_at, project, turn, last_run, key, queued = rest
    try:
        title = keys.title(session_id, key, title)
    except RunKeyMissing:
        title = UNREADABLE
    return Session(
        session_id=SessionId(session_id),
        title=title,
        has_unread=bool(unread),
        created_at=created_at,
        updated_at=updated_at,
        owner=owner,
        visibility=visibility_from(visibility),
        model_key=model_key,
        pack=pack,
        node=node,
        parent_session=None if parent is None else SessionId(parent),
        parent_message=parent_message or "",
        archived_at=archived_at,
        project=project,
        turn=None if turn is None else RunId(turn),
        last_run=None if last_run is None else RunId(last_run),
        queued=int(queued),
    )


def message_from_row(row: Sequence[Any], session_id: SessionId, cipher: Cipher | None) -> ChatMessage:
    """Return the message of a row `id, role, content, metadata_json, created_at`."""
    message_id, role, content, metadata, created_at = row
    return ChatMessage(
        message_id=message_id,
        session_id=session_id,
        role=role,
        content=unseal(cipher, message_place(message_id, "content"), content),
        metadata=load_json(unseal(cipher, message_place(message_id, "metadata"), metadata).encode()),
        created_at=created_at,
    )


def note_messages(
    connection: SqlConnection, keys: RunKeys, run_id: RunId, created: "RunCreated", events: "Iterable[Event]"
) -> None:
    """Write the messages that events of a turn make, and what follows for its session.

    Raises:
        DriverConflict: another turn of the session is under way, or the session is gone; nothing is written.
    """
    from agent_fabric.domain.events import RunCreated  # noqa: PLC0415 - lists of sessions and facts need no events

    for event in events:
        message = message_from(run_id, created, event)
        if message is None:
            continue
        begins = isinstance(event.body, RunCreated)
        row = _begin_turn(connection, run_id, event) if begins else _end_turn(connection, run_id, message)
        if row is None:
            continue
        key, title = row
        cipher = keys.cipher(RunId(message.session_id), None if key is None else bytes(key))
        if begins and not title:
            title = title_from(message.content)
            connection.execute(
                "UPDATE chat_sessions SET title = ? WHERE id = ?",
                (seal(cipher, TITLE_PLACE, title), message.session_id),
            )
        insert_message(connection, cipher, message)


def _begin_turn(connection: SqlConnection, run_id: RunId, event: "Event") -> tuple[bytes | None, str]:
    from agent_fabric.domain.events import RunCreated  # noqa: PLC0415 - as above

    assert isinstance(event.body, RunCreated)
    query = (
        "UPDATE chat_sessions SET turn = ?, last_run = ?, updated_at = ?, archived_at = NULL"
        " WHERE id = ? AND turn IS NULL RETURNING key, title"
    )
    row = connection.execute(query, (run_id, run_id, event.ts, event.body.session)).fetchone()
    if row is None:
        raise DriverConflict(
            f"Session {event.body.session} is gone, or another turn of it is under way", hint="Wait for its end."
        )
    connection.execute("DELETE FROM chat_queue WHERE run_id = ?", (run_id,))
    return row[0], row[1]


def _end_turn(connection: SqlConnection, run_id: RunId, message: ChatMessage) -> tuple[bytes | None, str] | None:
    unread = 0 if message.metadata.get("status") == STOPPED else 1
    query = (
        "UPDATE chat_sessions SET turn = NULL, updated_at = ?, has_unread = CASE WHEN ? = 1 THEN 1 ELSE has_unread END"
        " WHERE id = ? AND turn = ? RETURNING key, title"
    )
    row = connection.execute(query, (message.created_at, unread, message.session_id, run_id)).fetchone()
    return None if row is None else (row[0], row[1])  # None: the session was removed


def insert_message(connection: SqlConnection, cipher: Cipher | None, message: ChatMessage) -> None:
    """Write a message and its words."""
    query = (
        "INSERT INTO chat_messages (id, session_id, role, content, metadata_json, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING RETURNING number"
    )
    values = (
        message.message_id,
        message.session_id,
        message.role,
        seal(cipher, message_place(message.message_id, "content"), message.content),
        seal(cipher, message_place(message.message_id, "metadata"), dump_json(message.metadata).decode().strip()),
        message.created_at,
    )
    row = connection.execute(query, values).fetchone()
    if row is None:
        return
    hashes = hashes_of(message.session_id, cipher, message.content)
    connection.executemany(
        "INSERT INTO chat_words (word, message) VALUES (?, ?) ON CONFLICT DO NOTHING",
        [(each, row[0]) for each in hashes],
    )


def remove_messages(connection: SqlConnection, session_id: SessionId) -> None:
    """Remove the messages of a session and their words."""
    words = "DELETE FROM chat_words WHERE message IN (SELECT number FROM chat_messages WHERE session_id = ?)"
    connection.execute(words, (session_id,))
    connection.execute("DELETE FROM chat_messages WHERE session_id = ?", (session_id,))


def words_in(text: str) -> list[str]:
    """Return the words of a text as they are compared: without accents, in small letters."""
    return list(dict.fromkeys(_WORD.findall(fold_text(text))))


def fold_text(text: str) -> str:
    """Return a text without accents, in small letters."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(sign for sign in plain if not unicodedata.combining(sign))


def hashes_of(session_id: str, cipher: Cipher | None, text: str) -> list[bytes]:
    """Return what stands in the table of words for a text."""
    found = dict[str, None]()
    for word in words_in(text)[:MAX_WORDS]:
        found[f"={word}"] = None
        for length in PREFIXES:
            if len(word) > length:
                found[word[:length]] = None
    return [_hash(session_id, cipher, each) for each in found]


def hash_of_word(session_id: str, cipher: Cipher | None, word: str) -> tuple[bytes, ...]:
    """Return what a word, or the beginning of one, is looked up by."""
    lengths = [length for length in PREFIXES if length <= len(word)]
    if not lengths:
        return (_hash(session_id, cipher, f"={word}"),)
    begins = _hash(session_id, cipher, word[: lengths[-1]])
    if len(word) > lengths[-1]:  # every word that begins so is longer than that, and is found by it
        return (begins,)
    return (_hash(session_id, cipher, f"={word}"), begins)


def _hash(session_id: str, cipher: Cipher | None, text: str) -> bytes:
    if cipher is None:
        return hashlib.sha256(f"{session_id}\0{text}".encode()).digest()[:HASH_BYTES]
    return cipher.address(b"word\0" + text.encode())[-HASH_BYTES:]


def plain(values: Mapping[str, Any]) -> str:
    """Return a mapping as it is stored."""
    return dump_json(dict(values)).decode().strip()
