"""Hands out a whole session."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agent_fabric.application.ports.chat import MessageQueue, SessionMessages
from agent_fabric.application.ports.runs import RunRepository
from agent_fabric.domain.chat.sessions import ChatMessage, Session
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId

PAGE = 500


class SessionExport(NamedTuple):
    """Everything that was said and done in a session."""

    session: Session
    messages: Sequence[ChatMessage]
    turns: Mapping[RunId, Sequence[Event]]
    """The logs of its own turns; a fork has those of its parent only as messages."""


@dataclass(frozen=True, slots=True)
class ExportSession:
    """Use case: collect all messages of a session, what waits, and the logs of its turns."""

    messages: SessionMessages
    queue: MessageQueue
    runs: RunRepository

    async def __call__(self, session: Session) -> SessionExport:
        """Return all of it.

        Raises:
            RunKeyMissing: it is encrypted, and its key is not here.
        """
        page = await self.messages.page(session.session_id, limit=PAGE)
        said = [*page.messages]
        while page.has_older:
            page = await self.messages.page(session.session_id, before=said[0].message_id, limit=PAGE)
            said = [*page.messages, *said]
        waiting = [each.as_message() for each in await self.queue.list(session.session_id)]
        known = {each.message_id for each in said}
        turns = {run_id: await self.runs.read(run_id) for run_id in await self.messages.turns(session.session_id)}
        return SessionExport(session, [*said, *(each for each in waiting if each.message_id not in known)], turns)
