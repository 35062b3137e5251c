"""Which session is held at a place, and how a new one begins."""

import logging

from agent_fabric.application.chat.manage_sessions import ManageSessions
from agent_fabric.application.ports.channels import ChannelStore, Conversation
from agent_fabric.application.ports.chat import SessionRepository
from agent_fabric.domain.channels.addresses import Place, Sender, run_of_message
from agent_fabric.domain.chat.sessions import Session
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import SessionNotFound
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.ids import SessionId

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Conversations:
    """Use case: find the session of a place, or begin one. Beginning it again, as after a crash, finds the same."""

    store: ChannelStore
    sessions: SessionRepository
    manage: ManageSessions

    async def find(self, place: Place) -> Session | None:
        """Return the session of a place; None: there is none, or it was deleted."""
        held = await self.store.conversations.find(place)
        if held is None:
            return None
        try:
            return await self.sessions.find(held.session_id)
        except SessionNotFound:
            _log.info("The session of %s was deleted", place.key)
            return None

    async def open(self, place: Place, sender: Sender, by: Principal, key: str, title: str) -> Session:
        """Return the session of a place, or a new one."""
        return await self.find(place) or await self.begin(place, sender, by, key, title)

    async def begin(self, place: Place, sender: Sender, by: Principal, key: str, title: str = "") -> Session:
        """Begin a session, whose id follows from the key of what begins it, and hold it at the place from now on."""
        session_id = SessionId(run_of_message(place.channel, place.account, f"session {key}"))
        session = await self.manage.create(by=by, title=title, session_id=session_id)
        await self.store.conversations.bind(Conversation(session.session_id, place, sender))
        return session
