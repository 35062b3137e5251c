"""Where sessions, their messages and what waits to be said are kept."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from agent_fabric.domain.chat.sessions import ChatMessage, QueuedMessage, Session
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer
from agent_fabric.domain.ids import RunId, SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuery:
    """Which sessions are listed."""

    viewer: Viewer = EVERYTHING
    """Who asks; what they may not see is left out."""
    owner: str = ""
    """Only those of this owner; empty: all that the viewer may see."""
    archived: bool = False
    """Whether those that were put away are listed instead."""
    before: float | None = None
    """Only those in which something was last said before this time."""
    limit: int = 50


class MessagePage(NamedTuple):
    """Some messages of a session, oldest first."""

    messages: Sequence[ChatMessage]
    has_older: bool
    """Whether there are messages before the first of these."""


class FoundMessage(NamedTuple):
    """A message in which all words of a search stand."""

    session: Session
    message: ChatMessage | None
    """None: they stand in the title."""


class SessionRepository(Protocol):
    """All sessions of one fabric folder, shared by many processes."""

    async def create(self, session: Session, *, encrypted: bool, upto: str = "") -> Session:
        """Make a session durable. A fork gets copies of the messages of its parent, up to the message `upto`.

        Raises:
            MessageNotFound: the parent has no such message.
            StoreFull, StoreUnavailable: nothing was written.
        """
        ...

    async def find(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> Session:
        """Return the one session whose id begins so, of those that the viewer may see.

        Raises:
            SessionNotFound: none, or more than one, begins so.
        """
        ...

    async def list(self, wanted: SessionQuery) -> Sequence[Session]:
        """Return sessions, the one in which something was said last first."""
        ...

    async def change(self, session_id: SessionId, **values: Any) -> Session:
        """Set fields of a session: title, visibility, model_key, pack, node, has_unread, archived_at.

        Raises:
            SessionNotFound: there is none with this id.
        """
        ...

    async def remove(self, session_id: SessionId) -> Sequence[RunId]:
        """Remove a session with its messages; return its turns, newest first, which are still there.

        Raises:
            SessionNotFound: there is none with this id.
        """
        ...


class SessionMessages(Protocol):
    """What was said. A message is made of an event of its turn, in the same transaction."""

    async def page(self, session_id: SessionId, *, before: str = "", limit: int = 50) -> MessagePage:
        """Return the newest messages, or those before a message; without those that wait.

        Raises:
            MessageNotFound: there is no message `before`.
        """
        ...

    async def after(self, session_id: SessionId, message_id: str) -> Sequence[ChatMessage]:
        """Return what was said behind a message, queued messages included; the newest, if there is no such message."""
        ...

    async def search(self, words: str, *, wanted: SessionQuery) -> Sequence[FoundMessage]:
        """Return the newest messages with all words, each of which may be the beginning of a longer one."""
        ...

    async def turns(self, session_id: SessionId) -> Sequence[RunId]:
        """Return the runs of a session, oldest first."""
        ...


class MessageQueue(Protocol):
    """What waits to be said. A message leaves when its turn begins, in the same transaction."""

    async def add(self, message: QueuedMessage, *, after: str | None = None) -> None:
        """Make a message durable. One with the id of a run that is known is there already.

        Raises:
            SessionMoved: something was said behind the message `after`.
            StoreFull, StoreUnavailable: nothing was written.
        """
        ...

    async def list(self, session_id: SessionId) -> Sequence[QueuedMessage]:
        """Return what waits, in its order."""
        ...

    async def due(self) -> Sequence[SessionId]:
        """Return the sessions whose next message can begin."""
        ...

    async def change(self, session_id: SessionId, message_id: str, content: str | None, *, problem: str = "") -> None:
        """Change a message that waits, or note why it cannot begin.

        Raises:
            MessageSent: its turn has begun.
            MessageNotFound: there is none with this id.
        """
        ...

    async def withdraw(self, session_id: SessionId, message_id: str) -> None:
        """Remove a message that waits.

        Raises:
            MessageSent, MessageNotFound: as above.
        """
        ...
