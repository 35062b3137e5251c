"""Says something in a session."""

from collections.abc import Callable, Sequence
from dataclasses import field, replace

from agent_fabric.application.chat.choose_node import ChooseNode
from agent_fabric.application.ports.chat import MessageQueue, SessionMessages, SessionRepository
from agent_fabric.application.ports.clock import Clock, IdSource
from agent_fabric.domain.chat.sessions import ChatMessage, QueuedMessage, Session, question_id
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import Forbidden, InvalidInputs, SessionMoved
from agent_fabric.domain.identity.ownership import owner_of
from agent_fabric.domain.identity.principals import Principal, known_scopes, narrow_scopes
from agent_fabric.domain.ids import RunId, SessionId
from agent_fabric.domain.runs.task import Quoted

TAIL = 50
"""Messages that are shown to a client that has missed some."""


class MissedMessages(SessionMoved):
    """SessionMoved with what was said."""

    def __init__(self, moved: SessionMoved, tail: Sequence[ChatMessage]) -> None:
        super().__init__(moved.message, hint=moved.hint)
        self.tail = tail
        """The messages that they have not seen; the newest, if they are many."""


@dataclass(frozen=True, slots=True)
class SendMessage:
    """Use case: put a message into a session. It is durable when this returns; its turn begins when it can."""

    sessions: SessionRepository
    messages: SessionMessages
    queue: MessageQueue
    clock: Clock
    ids: IdSource
    check: Callable[[Session], object] = lambda _: None
    """Raises what would keep the turn from beginning, such as a model that does not exist."""
    choose_node: ChooseNode = field(default_factory=ChooseNode)
    """Finds the machine that the session is about."""

    async def __call__(  # noqa: PLR0913 - each is something else that a message brings along
        self,
        session: Session,
        content: str,
        *,
        by: Principal,
        after: str | None = None,
        run_id: RunId | None = None,
        limited: bool = False,
        quotes: Quoted | None = None,
        has_files: bool = False,
        by_itself: bool = False,
        plan: bool = False,
    ) -> QueuedMessage:
        """Return the message with the run that answers it.

        Args:
            session: Where it is said.
            content: What is said.
            by: Who says it.
            after: The newest message that they have seen; None: whatever was said before.
            run_id: The run, if it was chosen before, so that a repeated message comes to the same one.
            limited: Whether the per-caller limits hold for its turn.
            quotes: Which of it are their own words, and where the rest came from; None: all of it is theirs.
            has_files: Whether files came with it that belong into the workspace.
            by_itself: Whether a schedule says it, and no one watches the turn.
            plan: Whether the turn only makes a plan, and changes nothing.

        Raises:
            Forbidden: it is someone else's session, or a run wants to say it.
            MissedMessages: more was said than they have seen.
            ConfigError, RecruitError: the session names a model or a pack that does not exist.
            Forbidden, NodeNotFound, NodeUnavailable: it is about a machine that they may not operate, or that is gone
                or offline.
            StoreFull, StoreUnavailable: nothing was written.
        """
        require_owner(session, by)
        if not content.strip():
            raise InvalidInputs("The message is empty", hint="Say something.")
        self.check(session)
        await self.choose_node(session.node, by.scopes, now=True)
        run_id = run_id or self.ids.new_run_id()
        message = QueuedMessage(
            message_id=question_id(run_id),
            session_id=session.session_id,
            run_id=run_id,
            content=content,
            asked={
                "by": "" if owner_of(by) == "local" else by.name,
                "who": by.id,
                "owner": owner_of(by),
                "scopes": sorted(by.scopes),
                "limited": limited,
                **({"quotes": _quote_fields(quotes)} if quotes else {}),
                **({"has_files": True} if has_files else {}),
                "by_itself": by_itself,
                **({"plan": True} if plan else {}),
            },
            created_at=self.clock.now(),
        )
        try:
            await self.queue.add(message, after=after)
        except SessionMoved as moved:
            tail = (await self.messages.after(session.session_id, after or ""))[-TAIL:]
            raise MissedMessages(moved, tail) from None
        return message

    async def change(self, session: Session, message_id: str, content: str, *, by: Principal) -> QueuedMessage:
        """Change a message that waits for its turn. It is done with the rights that it was sent with.

        Raises:
            Forbidden: those are more than the caller has.
            MessageSent: its turn has begun.
            MessageNotFound: there is none with this id.
        """
        require_owner(session, by)
        if not content.strip():
            raise InvalidInputs("The message is empty", hint="Withdraw it instead.")
        waiting = {each.message_id: each for each in await self.queue.list(session.session_id)}
        sent_with = known_scopes(waiting[message_id].asked["scopes"]) if message_id in waiting else frozenset()
        if narrow_scopes(sent_with, by.scopes) != sent_with:
            raise Forbidden(
                "The message was sent with more rights than you show now", hint="Withdraw it, and send yours."
            )
        await self.queue.change(session.session_id, message_id, content)
        return replace(waiting[message_id], content=content, problem="")

    async def withdraw(self, session: Session, message_id: str, *, by: Principal) -> None:
        """Take back a message that waits for its turn.

        Raises:
            MessageSent, MessageNotFound: as above.
        """
        require_owner(session, by)
        await self.queue.withdraw(SessionId(session.session_id), message_id)


def _quote_fields(quotes: Quoted) -> dict[str, object]:
    """Return which words of a message are its owner's, as the queue keeps it."""
    private = {"private": list(quotes.private)} if quotes.private else {}
    return {"own_words": quotes.own_words, "untrusted": list(quotes.untrusted), **private}


def require_owner(session: Session, by: Principal) -> None:
    """Check that someone may write into a session, and change it.

    Raises:
        Forbidden: they may not.
    """
    if by.run:
        raise Forbidden("A run cannot write into a session", hint="A person does that themselves.")
    if owner_of(by) != session.owner:
        raise Forbidden(f"This is a session of {session.owner}", hint="Fork it: the fork is yours.")
