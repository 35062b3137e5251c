"""The sessions of a server, as commands look after them."""

from collections.abc import Sequence

from agent_fabric.application.ports.chat import FoundMessage
from agent_fabric.client import FabricClient
from agent_fabric.domain.chat.sessions import ChatMessage, Session
from agent_fabric.domain.errors import SessionNotFound

PAGE = 500


class ServerSessions:
    """The sessions of a server."""

    def __init__(self, client: FabricClient) -> None:
        self._sessions = client.sessions

    async def find(self, session_id: str | None) -> Session:
        if session_id is not None:
            return await self._sessions.show(session_id)
        found = await self._sessions.list(limit=1, own=True)
        if not found:
            raise SessionNotFound("You have no session at this server yet", hint="Start one: fabric chat")
        return found[0]

    async def list(self, *, limit: int, archived: bool) -> Sequence[Session]:
        return await self._sessions.list(limit=limit, archived=archived)

    async def messages(self, session: Session) -> Sequence[ChatMessage]:
        page = await self._sessions.messages(session.session_id, limit=PAGE)
        said = [*page.messages]
        while page.has_older:
            page = await self._sessions.messages(session.session_id, before=said[0].message_id, limit=PAGE)
            said = [*page.messages, *said]
        return said

    async def search(self, words: str, *, limit: int) -> Sequence[FoundMessage]:
        return await self._sessions.search(words, limit=limit)

    async def rename(self, session: Session, title: str) -> Session:
        return await self._sessions.change(session.session_id, title=title)

    async def fork(self, session: Session, message_id: str) -> tuple[Session, str]:
        return await self._sessions.fork(session.session_id, message_id)

    async def delete(self, session: Session) -> None:
        await self._sessions.delete(session.session_id)

    async def export(self, session: Session, *, as_json: bool) -> object:
        if as_json:
            return await self._sessions.export(session.session_id)
        return await self._sessions.export_markdown(session.session_id)
