"""Where `fabric sessions` finds sessions: in a folder on this machine, or at a server."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from agent_fabric.application.chat.manage_sessions import ManageSessions
from agent_fabric.application.ports.chat import FoundMessage, SessionQuery
from agent_fabric.bootstrap.chat import export_session, find_session, manage_sessions
from agent_fabric.bootstrap.records import Records, owner_here
from agent_fabric.domain.chat.sessions import ChatMessage, Session
from agent_fabric.domain.errors import SessionNotFound
from agent_fabric.domain.identity.ownership import LOCAL_OWNER
from agent_fabric.interfaces.cli.options import configuration
from agent_fabric.interfaces.cli.place import RunAccess
from agent_fabric.interfaces.cli.place_local import LocalRuns
from agent_fabric.interfaces.views.chat import json_export, markdown_export

if TYPE_CHECKING:
    from agent_fabric.interfaces.cli.chat.session_places_remote import ServerSessions

SessionAccess: TypeAlias = "LocalSessions | ServerSessions"
"""The sessions of a folder, or of a server. A command may call what both have."""


class LocalSessions:
    """The sessions of a fabric folder."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._find = find_session(records)
        self._by = owner_here()

    async def find(self, session_id: str | None) -> Session:
        """Return a session; None: the newest of this person."""
        if session_id is not None:
            return await self._find(session_id, by=self._by)
        found = await self._records.storage.sessions.list(SessionQuery(owner=LOCAL_OWNER, limit=1))
        if not found:
            raise SessionNotFound("There is no session here yet", hint="Start one: fabric chat")
        return found[0]

    async def list(self, *, limit: int, archived: bool) -> Sequence[Session]:
        return await self._records.storage.sessions.list(SessionQuery(limit=limit, archived=archived))

    async def messages(self, session: Session) -> Sequence[ChatMessage]:
        """Return all messages, oldest first, then those that wait."""
        return (await export_session(self._records)(session)).messages

    async def search(self, words: str, *, limit: int) -> Sequence[FoundMessage]:
        return await self._records.storage.messages.search(words, wanted=SessionQuery(limit=limit))

    async def rename(self, session: Session, title: str) -> Session:
        return await self._manage.change(session, {"title": title}, by=self._by)

    async def fork(self, session: Session, message_id: str) -> tuple[Session, str]:
        return await self._manage.fork(session, message_id, by=self._by)

    async def delete(self, session: Session) -> None:
        await self._manage.delete(session, by=self._by)

    async def export(self, session: Session, *, as_json: bool) -> object:
        """Return all of a session: an object, or Markdown."""
        whole = await export_session(self._records)(session)
        return json_export(whole) if as_json else markdown_export(whole)

    @property
    def _manage(self) -> ManageSessions:
        encrypts = configuration(self._records.layout.root).config.encryption != "off"
        return manage_sessions(self._records, encrypts=encrypts)


def sessions_at(place: RunAccess) -> "LocalSessions | ServerSessions":
    """Return the sessions of the place that a command works on."""
    if isinstance(place, LocalRuns):
        return LocalSessions(place.records)
    from agent_fabric.interfaces.cli.chat.session_places_remote import ServerSessions  # noqa: PLC0415 - aiohttp takes time

    return ServerSessions(place.client)
