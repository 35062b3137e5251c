"""Sessions at a server: start them, talk in them, stop an answer, fork, search, export and delete them."""

from collections.abc import Sequence
from typing import Any

from agent_fabric.application.chat.verify_session import VerifiedSession
from agent_fabric.application.ports.chat import FoundMessage
from agent_fabric.client.transport import Named, Resource, segment
from agent_fabric.client.wire import json_from
from agent_fabric.domain.chat.sessions import ChatMessage, Session
from agent_fabric.domain.errors import MessageNotFound, SessionNotFound
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.wire.chat import (
    FOUND_MESSAGES,
    MESSAGE,
    MESSAGE_LIST,
    SENT,
    SESSION,
    SESSION_LIST,
    ForkedSession,
    MessageList,
    SentMessage,
)
from agent_fabric.wire.shape import Json
from agent_fabric.wire.turns import VERIFIED_SESSION

_BASE = "/api/v1/sessions"
_path = Named(_BASE, SessionNotFound, "There is no session {!r}", "See them with `fabric sessions list`.")
_PAGE = 500
"""Messages in one answer."""


class Sessions(Resource):
    """The sessions of a server. Wherever one is named, the beginning of its id is enough if only one begins so."""

    async def create(
        self,
        *,
        title: str = "",
        model_key: str = "",
        pack: str = "",
        node: str = "",
        visibility: Visibility = Visibility.PRIVATE,
    ) -> Session:
        """Start a session; nothing is said in it yet.

        Raises:
            ConfigError, RecruitError: the server has no such model or pack.
            Forbidden, NodeNotFound, NodeUnavailable: it has no such machine, or none for us.
        """
        body = {"title": title, "model_key": model_key, "pack": pack, "node": node, "visibility": visibility.value}
        return await self._post(SESSION.load, _BASE, body)

    async def list(self, *, limit: int = 50, own: bool = False, archived: bool = False) -> Sequence[Session]:
        """Return sessions, the one in which something was said last first."""
        query = {"limit": min(limit, 1_000), "own": own or None, "archived": archived or None}
        return await self._get(SESSION_LIST.load, _BASE, query)

    async def show(self, session_id: str) -> Session:
        """Return a session as it stands.

        Raises:
            SessionNotFound: there is none, or more than one begins so.
        """
        return await self._get(SESSION.load, _path(session_id))

    async def messages(self, session_id: str, *, before: str = "", limit: int = 50) -> MessageList:
        """Return the newest messages, or those before one; oldest first, then those that wait."""
        query = {"before": before or None, "limit": limit}
        return await self._get(MESSAGE_LIST.load, _path(session_id, "/messages"), query)

    async def all_messages(self, session_id: str) -> Sequence[ChatMessage]:
        """Return all messages, oldest first, then those that wait."""
        page = await self.messages(session_id, limit=_PAGE)
        found = [*page.messages]
        while page.has_older:
            page = await self.messages(session_id, before=found[0].message_id, limit=_PAGE)
            found = [*page.messages, *found]
        return found

    async def say(self, session_id: str, content: str, *, after: str | None = None, plan: bool = False) -> SentMessage:
        """Say something; the answer is the run `run_id`, which can be followed. With `plan` it is only a plan.

        Raises:
            SessionMoved: more was said than `after`, the newest message that we have seen.
        """
        body: dict[str, Any] = {"content": content} | ({} if after is None else {"after": after})
        body |= {"plan": True} if plan else {}
        return await self._post(SENT.load, _path(session_id, "/messages"), body)

    async def reword(self, session_id: str, message_id: str, content: str) -> ChatMessage:
        """Change a message that waits for its turn.

        Raises:
            MessageSent: its turn has begun.
        """
        path = _path(session_id, f"/messages/{_message(message_id)}")
        return await self._post(MESSAGE.load, path, {"content": content}, method="PATCH")

    async def withdraw(self, session_id: str, message_id: str) -> None:
        """Take back a message that waits for its turn.

        Raises:
            MessageSent: its turn has begun.
        """
        await self._transport.post(_path(session_id, f"/messages/{_message(message_id)}"), method="DELETE")

    async def stop(self, session_id: str) -> Session:
        """Stop the answer that is being given; what was said of it is kept."""
        return await self._post(SESSION.load, _path(session_id, "/stop"), {})

    async def change(self, session_id: str, **values: Any) -> Session:
        """Set title, model_key, pack, node, visibility or archived."""
        return await self._post(SESSION.load, _path(session_id), values, method="PATCH")

    async def mark_read(self, session_id: str) -> Session:
        """Note that all of it was seen."""
        return await self._post(SESSION.load, _path(session_id, "/read"), {})

    async def fork(self, session_id: str, message_id: str = "") -> ForkedSession:
        """Make a session that goes on from a message; from the end, if none is named."""
        return await self._post(_forked_from, _path(session_id, "/fork"), {"message_id": message_id})

    async def search(self, words: str, *, limit: int = 50) -> Sequence[FoundMessage]:
        """Return the newest messages and titles with all words."""
        return await self._get(FOUND_MESSAGES.load, f"{_BASE}/search", {"q": words, "limit": min(limit, 200)})

    async def export(self, session_id: str) -> Json:
        """Return everything that was said and done in a session."""
        return await self._get(json_from("session", "messages"), _path(session_id, "/export"), {"format": "json"})

    async def export_markdown(self, session_id: str) -> str:
        """Return the same to be read."""
        async with self._transport.content(_path(session_id, "/export"), "text/markdown") as stream:
            return (await stream.read()).decode()

    async def changes(self, session_id: str, message_id: str) -> Json:
        """Return what later turns changed, and what of it cannot be taken back."""
        path = _path(session_id, f"/messages/{_message(message_id)}/changes")
        return await self._get(json_from("runs", "cannot_be_taken_back"), path)

    async def take_back(self, session_id: str, message_id: str, *, dry: bool = False, force: bool = False) -> Json:
        """Take the files back to a message; return what was undone, and what cannot be."""
        path = _path(session_id, f"/messages/{_message(message_id)}/undo")
        return await self._post(json_from("runs", "cannot_be_taken_back"), path, {"dry_run": dry, "force": force})

    async def verify(self, session_id: str) -> VerifiedSession:
        """Return whether the hash chain of a conversation holds."""
        return await self._get(VERIFIED_SESSION.load, _path(session_id, "/verify"))

    async def delete(self, session_id: str) -> None:
        """Delete a session with its runs."""
        await self._transport.post(_path(session_id), method="DELETE")


def _forked_from(shown: Json) -> ForkedSession:
    return ForkedSession(SESSION.load(shown), str(shown["draft"]))


def _message(message_id: str) -> str:
    return segment(message_id, MessageNotFound(f"There is no message {message_id!r}"))
