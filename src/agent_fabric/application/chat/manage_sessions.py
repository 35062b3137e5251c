"""Makes sessions, changes them, forks them and deletes them."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any, NamedTuple

from agent_fabric.application.chat.choose_node import ChooseNode
from agent_fabric.application.chat.send_message import require_owner
from agent_fabric.application.ports.audit import RetentionStore
from agent_fabric.application.ports.chat import SessionMessages, SessionRepository
from agent_fabric.application.ports.clock import Clock, IdSource
from agent_fabric.domain.chat.sessions import TITLE_CHARS, ChatMessage, Session
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, Forbidden, MessageNotFound, RunUnsettled, SessionNotFound
from agent_fabric.domain.identity.ownership import Visibility, owner_of
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.ids import RunId, SessionId

PAGE = 200

_log = logging.getLogger(__name__)


class Fork(NamedTuple):
    """A session that goes on from a message of another one."""

    session: Session
    draft: str
    """What the person had said behind it there, to be said anew; empty: nothing."""


@dataclass(frozen=True, slots=True)
class ManageSessions:
    """Use case: everything about a session but what is said in it."""

    sessions: SessionRepository
    messages: SessionMessages
    retention: RetentionStore
    clock: Clock
    ids: IdSource
    encrypts: bool
    """Whether new sessions are encrypted."""
    check: Callable[[Session], object] = lambda _: None
    """Raises if a session names a model or a pack that does not exist."""
    choose_node: ChooseNode = field(default_factory=ChooseNode)
    """Finds the machine that a session is about."""
    forget: Callable[[SessionId], object] = lambda _: None
    """Told of a session that is gone, for those that have kept something of it."""

    async def create(
        self,
        *,
        by: Principal,
        title: str = "",
        visibility: Visibility = Visibility.PRIVATE,
        model_key: str = "",
        pack: str = "",
        node: str = "",
        project: str = "",
        session_id: SessionId | None = None,
    ) -> Session:
        """Make a session; `session_id` is an id that was chosen before, so that a repeated request finds this one.

        Raises:
            Forbidden: a run wants one.
            ConfigError, RecruitError: there is no such model or pack.
            Forbidden, NodeNotFound, NodeUnavailable: the machine is none that they may choose.
        """
        if by.run:
            raise Forbidden("A run cannot start a session", hint="A person does that themselves.")
        now = self.clock.now()
        session = Session(
            session_id=session_id or SessionId(self.ids.new_run_id()),
            title=title.strip()[: 4 * TITLE_CHARS],
            created_at=now,
            updated_at=now,
            owner=owner_of(by),
            visibility=visibility,
            model_key=model_key,
            pack=pack,
            node=await self.choose_node(node, by.scopes),
            project=project,
        )
        self.check(session)
        return await self._find_known(session_id) or await self.sessions.create(session, encrypted=self.encrypts)

    async def change(self, session: Session, values: Mapping[str, Any], *, by: Principal) -> Session:
        """Set what is given of title, visibility, model_key, pack, node and archived_at.

        Raises:
            Forbidden: it is someone else's, or they may not operate machines.
            ConfigError, RecruitError, NodeNotFound, NodeUnavailable: there is no such model, pack or machine.
        """
        require_owner(session, by)
        values = dict(values)
        if "title" in values:
            values["title"] = " ".join(str(values["title"]).split())[: 4 * TITLE_CHARS]
        if "node" in values:
            values["node"] = await self.choose_node(str(values["node"]), by.scopes)
        chosen = {key: values[key] for key in ("model_key", "pack", "node") if key in values}
        if chosen:
            self.check(replace(session, **chosen))
        return await self.sessions.change(session.session_id, **values)

    async def mark_read(self, session: Session, *, by: Principal) -> Session:
        """Note that its owner has seen all of it; others see it without a trace."""
        if owner_of(by) != session.owner or not session.has_unread:
            return session
        return await self.sessions.change(session.session_id, has_unread=False)

    async def fork(
        self, session: Session, message_id: str, *, by: Principal, session_id: SessionId | None = None
    ) -> Fork:
        """Make a session that shares all up to a message; one of the person is left out and given back as a draft.

        Raises:
            Forbidden: a run wants one.
            MessageNotFound: there is no such message.
        """
        if by.run:
            raise Forbidden("A run cannot fork a session", hint="A person does that themselves.")
        kept, draft = await self._up_to(session.session_id, message_id)
        now = self.clock.now()
        last = kept[-1] if kept else None
        forked = Session(
            session_id=session_id or SessionId(self.ids.new_run_id()),
            title=session.title,
            created_at=now,
            updated_at=now,
            owner=owner_of(by),
            model_key=session.model_key,
            pack=session.pack,
            node=session.node,
            parent_session=session.session_id if last is not None else None,
            parent_message=last.message_id if last is not None else "",
            project=session.project if owner_of(by) == session.owner else "",
            last_run=RunId(str(last.metadata["run_id"])) if last is not None else None,
        )
        known = await self._find_known(session_id)
        return Fork(
            known or await self.sessions.create(forked, encrypted=self.encrypts, upto=forked.parent_message), draft
        )

    async def _find_known(self, session_id: SessionId | None) -> Session | None:
        """Return a session that the same request has made before."""
        if session_id is None:
            return None
        try:
            return await self.sessions.find(session_id)
        except SessionNotFound:
            return None

    async def _up_to(self, session_id: SessionId, message_id: str) -> tuple[list[ChatMessage], str]:
        """Return the messages up to the last answer before a message, or the answer itself, and what is left out."""
        page = await self.messages.page(session_id, limit=PAGE)
        found = [*page.messages]
        while all(each.message_id != message_id for each in found) and page.has_older:
            page = await self.messages.page(session_id, before=found[0].message_id, limit=PAGE)
            found = [*page.messages, *found]
        ids = [each.message_id for each in found]
        if message_id and message_id not in ids:
            raise MessageNotFound(f"Session {session_id} has no message {message_id!r}", hint="Reload the session.")
        end = ids.index(message_id) if message_id else len(ids) - 1
        draft = found[end].content if found and found[end].role == "user" else ""
        while end >= 0 and found[end].role == "user":
            end -= 1
        if end < 0 and page.has_older:
            earlier = await self.messages.page(session_id, before=found[0].message_id, limit=PAGE)
            return [*earlier.messages], draft
        return found[: end + 1], draft

    async def delete(self, session: Session, *, by: Principal) -> None:
        """Remove a session, its messages and its turns; each turn leaves a tombstone in the audit chain.

        Raises:
            Forbidden: it is someone else's.
            RunUnsettled: a turn is under way.
        """
        require_owner(session, by)
        if session.turn is not None:
            raise RunUnsettled("A turn of this session is under way", hint="Stop it first.")
        turns = await self.sessions.remove(session.session_id)
        self.forget(session.session_id)
        for run_id in turns:
            try:
                await self.retention.remove(run_id, by=by.name, reason="its session was deleted")
            except FabricError as problem:  # another run goes on from it, say
                _log.warning("Turn %s of a deleted session stays: %s", run_id, problem.message)
