"""Sessions in memory, for tests."""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from agent_fabric.application.ports.chat import FoundMessage, MessagePage, SessionQuery
from agent_fabric.domain.chat.sessions import (
    STOPPED,
    ChatMessage,
    QueuedMessage,
    Session,
    copy_message,
    message_from,
    title_from,
)
from agent_fabric.domain.errors import DriverConflict, MessageNotFound, MessageSent, SessionMoved, SessionNotFound
from agent_fabric.domain.events import Event, RunCreated
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer
from agent_fabric.domain.ids import RunId, SessionId


class MemorySessions:
    """SessionRepository in memory, which follows the events of turns."""

    def __init__(self) -> None:
        self.sessions: dict[SessionId, Session] = {}
        self.said: dict[SessionId, list[ChatMessage]] = {}
        self.waiting: list[QueuedMessage] = []
        self.runs: dict[SessionId, list[RunId]] = {}

    def follow(self, run_id: RunId, created: RunCreated, events: Sequence[Event]) -> None:
        """Take in events of a turn, as the store does in their transaction."""
        for event in events:
            message = message_from(run_id, created, event)
            if message is None:
                continue
            session = self.sessions.get(message.session_id)
            if isinstance(event.body, RunCreated):
                if session is None or session.turn is not None:
                    raise DriverConflict("The session is gone, or another turn of it is under way")
                title = session.title or title_from(message.content)
                session = replace(session, title=title, turn=run_id, last_run=run_id, archived_at=None)
                self.waiting = [each for each in self.waiting if each.run_id != run_id]
                self.runs.setdefault(message.session_id, []).append(run_id)
            elif session is None or session.turn != run_id:
                continue
            else:
                unread = session.has_unread or message.metadata.get("status") != STOPPED
                session = replace(session, turn=None, has_unread=unread)
            self.sessions[message.session_id] = replace(session, updated_at=event.ts)
            self.said[message.session_id].append(message)

    async def create(self, session: Session, *, encrypted: bool, upto: str = "") -> Session:  # noqa: ARG002 - in memory
        shared: list[ChatMessage] = []
        if session.parent_session is not None:
            ids = [each.message_id for each in self.said.get(session.parent_session, ())]
            if upto not in ids:
                raise MessageNotFound(f"There is no message {upto!r}")
            shared = self.said[session.parent_session][: ids.index(upto) + 1]
        self.sessions[session.session_id] = session
        self.said[session.session_id] = [copy_message(each, session.session_id) for each in shared]
        return session

    async def find(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> Session:
        found = [
            each
            for each in self.sessions.values()
            if prefix and each.session_id.startswith(prefix) and viewer.sees(each.owner, each.visibility)
        ]
        if len(found) != 1:
            raise SessionNotFound(f"There is no session {prefix!r}")
        return self._shown(found[0])

    def _shown(self, session: Session) -> Session:
        return replace(session, queued=sum(each.session_id == session.session_id for each in self.waiting))

    async def list(self, wanted: SessionQuery) -> Sequence[Session]:
        found = [
            self._shown(each)
            for each in self.sessions.values()
            if wanted.viewer.sees(each.owner, each.visibility)
            and wanted.owner in ("", each.owner)
            and (each.archived_at is not None) == wanted.archived
            and (wanted.before is None or each.updated_at < wanted.before)
        ]
        return sorted(found, key=lambda each: (-each.updated_at, each.session_id))[: wanted.limit]

    async def change(self, session_id: SessionId, **values: Any) -> Session:
        if session_id not in self.sessions:
            raise SessionNotFound(f"There is no session {session_id!r}")
        self.sessions[session_id] = replace(self.sessions[session_id], **values)
        return self._shown(self.sessions[session_id])

    async def remove(self, session_id: SessionId) -> Sequence[RunId]:
        if self.sessions.pop(session_id, None) is None:
            raise SessionNotFound(f"There is no session {session_id!r}")
        self.said.pop(session_id)
        self.waiting = [each for each in self.waiting if each.session_id != session_id]
        return self.runs.pop(session_id, [])[::-1]


class MemoryMessages:
    """SessionMessages over MemorySessions."""

    def __init__(self, sessions: MemorySessions, log_of: Callable[[RunId], Sequence[Event]]) -> None:
        self._sessions = sessions
        self._log_of = log_of

    async def page(self, session_id: SessionId, *, before: str = "", limit: int = 50) -> MessagePage:
        said = self._sessions.said[session_id]
        if before:
            said = said[: _place(said, before)]
        return MessagePage(said[-limit:], len(said) > limit)

    async def after(self, session_id: SessionId, message_id: str) -> Sequence[ChatMessage]:
        waiting = [each.as_message() for each in self._sessions.waiting if each.session_id == session_id]
        said = [*self._sessions.said[session_id], *waiting]
        ids = [each.message_id for each in said]
        return said[ids.index(message_id) + 1 :] if message_id in ids else said[-50:]

    async def search(self, words: str, *, wanted: SessionQuery) -> Sequence[FoundMessage]:
        terms = _folded(words).split()
        sessions = await self._sessions.list(replace(wanted, limit=10_000)) if terms else ()
        titled = [FoundMessage(session, None) for session in sessions if _has(session.title, terms)]
        said = [(each, session) for session in sessions for each in self._sessions.said[session.session_id]]
        newest = sorted(said, key=lambda pair: pair[0].created_at, reverse=True)
        found = [FoundMessage(session, each) for each, session in newest if _has(each.content, terms)]
        return [*titled, *found][: wanted.limit]

    async def rebuild(self, session_id: SessionId) -> int:
        said = self._sessions.said[session_id]
        own = set(self._sessions.runs.get(session_id, ()))
        made = [each for each in said if each.metadata["run_id"] not in own]
        for run_id in self._sessions.runs.get(session_id, ()):
            log = self._log_of(run_id)
            created = log[0].body
            assert isinstance(created, RunCreated)
            made += [each for event in log if (each := message_from(run_id, created, event)) is not None]
        self._sessions.said[session_id] = made
        return len(made)

    async def turns(self, session_id: SessionId) -> Sequence[RunId]:
        return self._sessions.runs.get(session_id, [])


class MemoryMessageQueue:
    """MessageQueue over MemorySessions."""

    def __init__(self, sessions: MemorySessions) -> None:
        self._sessions = sessions

    async def add(self, message: QueuedMessage, *, after: str | None = None) -> None:
        known = {each.run_id for each in self._sessions.waiting}
        known |= {run_id for runs in self._sessions.runs.values() for run_id in runs}
        if message.run_id in known:
            return
        waiting = [each.message_id for each in self._sessions.waiting if each.session_id == message.session_id]
        ids = [*(each.message_id for each in self._sessions.said[message.session_id]), *waiting]
        if after is not None and after != (ids[-1] if ids else ""):
            raise SessionMoved("More was said in this session")
        self._sessions.waiting.append(message)

    async def list(self, session_id: SessionId) -> Sequence[QueuedMessage]:
        return [each for each in self._sessions.waiting if each.session_id == session_id]

    async def due(self) -> Sequence[SessionId]:
        found = {each.session_id for each in self._sessions.waiting if not each.problem}
        return [each for each in found if self._sessions.sessions[each].turn is None]

    async def change(self, session_id: SessionId, message_id: str, content: str | None, *, problem: str = "") -> None:
        index = self._index(session_id, message_id)
        old = self._sessions.waiting[index]
        new = replace(old, content=old.content if content is None else content, problem=problem)
        self._sessions.waiting[index] = new

    async def withdraw(self, session_id: SessionId, message_id: str) -> None:
        del self._sessions.waiting[self._index(session_id, message_id)]

    def _index(self, session_id: SessionId, message_id: str) -> int:
        for index, each in enumerate(self._sessions.waiting):
            if (each.session_id, each.message_id) == (session_id, message_id):
                return index
        if any(each.message_id == message_id for each in self._sessions.said.get(session_id, ())):
            raise MessageSent("Its turn has begun")
        raise MessageNotFound(f"There is no message {message_id!r}")


def _place(said: Sequence[ChatMessage], message_id: str) -> int:
    for index, each in enumerate(said):
        if each.message_id == message_id:
            return index
    raise MessageNotFound(f"There is no message {message_id!r}")


def _folded(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(sign if sign.isalnum() else " " for sign in plain if not unicodedata.combining(sign))


def _has(text: str, terms: Sequence[str]) -> bool:
    words = _folded(text).split()
    return all(any(word.startswith(term) for word in words) for term in terms)
