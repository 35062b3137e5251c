"""Sessions: lines of lists, messages, and what was found in them."""

from collections.abc import Sequence
from typing import NamedTuple

from agent_fabric.application.ports.chat import FoundMessage
from agent_fabric.domain.chat.sessions import ChatMessage, Session
from agent_fabric.domain.ids import RunId
from agent_fabric.wire.shape import Listing, Shape


class SentMessage(NamedTuple):
    """A message that was taken. It is durable."""

    run_id: RunId
    """The run that answers it, from the moment that its turn begins."""
    message_id: str
    queued: bool
    """Whether it waits for the turns before it; until then it can be changed and withdrawn."""


class MessageList(NamedTuple):
    """Some messages of a session, oldest first, and those that wait behind the newest."""

    messages: Sequence[ChatMessage]
    has_older: bool
    """Whether there are messages before the first of these."""
    session: Session
    """The session as it stands."""


class ForkedSession(NamedTuple):
    """A session that goes on from a message of another one."""

    session: Session
    draft: str
    """What the person had said behind it there, to be said anew; empty: nothing."""


SESSION = Shape(
    Session,
    "id=session_id title has_unread created_at updated_at owner visibility model_key pack node parent_session"
    " parent_message archived_at project turn last_run queued",
    name="Session",
    examples=[{"id": "6b1f…", "title": "Why is the disk full?", "has_unread": False}],
)
SESSION_LIST = Listing("sessions", SESSION, name="SessionList", about="Sessions, the newest words first.")
MESSAGE = Shape(ChatMessage, "id=message_id session_id role content metadata created_at", name="SessionMessage")
MESSAGE_LIST = Shape(MessageList, parts=[MESSAGE, SESSION])
SENT = Shape(SentMessage)
FORKED = Shape(ForkedSession, "*session draft", parts=[SESSION])
FOUND_MESSAGE = Shape(FoundMessage, "session message", name="FoundChatMessage", parts=[SESSION, MESSAGE])
FOUND_MESSAGES = Listing(
    "found", FOUND_MESSAGE, name="FoundChatMessages", about="Messages and titles with all words, the newest first."
)
