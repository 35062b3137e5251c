"""Where `fabric chat` talks: in a folder on this machine, or at a server."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from agent_fabric.application.chat.begin_turn import PASSING
from agent_fabric.application.chat.undo_turns import UndoTurns
from agent_fabric.application.chat.verify_session import VerifiedSession, VerifySession
from agent_fabric.application.ports.approvals import Answer, ApprovalCard
from agent_fabric.application.ports.chat import SessionQuery
from agent_fabric.application.ports.events import EventSink
from agent_fabric.application.ports.sandbox import OpenBuffers
from agent_fabric.bootstrap.chat import Chat, open_chat
from agent_fabric.bootstrap.local import LocalFabric, open_local
from agent_fabric.bootstrap.records import owner_here
from agent_fabric.config.loader import Loaded
from agent_fabric.domain.chat.sessions import ChatMessage, Session, question_id
from agent_fabric.domain.errors import (
    FabricError,
    MessageNotFound,
    MessageSent,
    RunHeld,
    RunNotFound,
    RunUndrivable,
    SessionNotFound,
)
from agent_fabric.domain.identity.ownership import LOCAL_OWNER
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.state import result_of
from agent_fabric.domain.runs.task import Quoted, RunResult, RunStatus
from agent_fabric.interfaces.cli.place_local import LocalRuns
from agent_fabric.wire.shape import Json

if TYPE_CHECKING:
    from agent_fabric.interfaces.cli.chat.chat_places_remote import ServerTalk

Talk: TypeAlias = "LocalTalk | ServerTalk"
"""A way to talk. `fabric chat` may call what both have."""
LOOK_EVERY_S = 0.2
TITLE_PATIENCE_S = 10.0
"""How long leaving waits for a title."""


class Start(NamedTuple):
    """Which session to talk in."""

    session: str = ""
    """The beginning of its id."""
    last: bool = False
    model_key: str | None = None
    """None, here and below: as the session has it."""
    pack: str | None = None
    node: str | None = None
    project: str = ""
    root: Path | None = None
    """The fabric folder whose commands can be said."""


def require_waiting(said: Sequence[ChatMessage], run_id: RunId) -> None:
    """Check that the message of a turn that has not begun can still become one.

    Raises:
        MessageNotFound: it was withdrawn.
        RunUndrivable: it cannot begin.
    """
    own = next((each for each in said if each.message_id == question_id(run_id)), None)
    if own is None:
        raise MessageNotFound("Your message was withdrawn before its turn", hint="Say it again.")
    if problem := own.metadata.get("problem"):
        raise RunUndrivable(str(problem), hint="It waits in the session, to be changed or withdrawn on the page.")


class LocalTalk:
    """Sessions of a fabric folder, whose turns this process drives unless another one was faster."""

    served = False

    def __init__(self, fabric: LocalFabric, chat: Chat, view: EventSink) -> None:
        self._fabric = fabric
        self._chat = chat
        self._view = view
        self._by = owner_here()
        self.runs = LocalRuns(fabric.records)
        self._naming: asyncio.Task[str] | None = None

    async def aclose(self) -> None:
        """Wait a little for the title that a model thinks of."""
        if self._naming is not None:
            await asyncio.wait([self._naming], timeout=TITLE_PATIENCE_S)
            self._naming.cancel()
            await asyncio.gather(self._naming, return_exceptions=True)

    async def open(self, start: Start) -> Session:
        """Return the session to talk in; a new one, if none is named."""
        if start.session:
            return await self._chat.find(start.session, by=self._by)
        if start.last:
            found = await self._chat.sessions.list(SessionQuery(owner=LOCAL_OWNER, limit=1))
            if not found:
                raise SessionNotFound("There is no session here yet", hint="Start one: fabric chat")
            return found[0]
        return await self._chat.manage.create(
            by=self._by,
            model_key=start.model_key or "",
            pack=start.pack or "",
            node=start.node or "",
            project=start.project,
        )

    async def session(self, session_id: str) -> Session:
        """Return a session as it stands."""
        return await self._chat.sessions.find(session_id)

    async def after(self, session: Session, message_id: str) -> Sequence[ChatMessage]:
        """Return what was said behind a message."""
        return await self._chat.messages.after(session.session_id, message_id)

    async def newest(self, limit: int) -> Sequence[Session]:
        """Return the newest sessions of the person, the one in which something was said last first."""
        return await self.list(limit=limit)

    async def list(self, *, before: float | None = None, limit: int) -> Sequence[Session]:
        """Return the sessions of the person at this terminal, the one in which something was said last first."""
        return await self._chat.sessions.list(SessionQuery(owner=LOCAL_OWNER, before=before, limit=limit))

    async def say(self, session: Session, text: str, *, quotes: Quoted | None = None, plan: bool = False) -> RunId:
        """Put a message into the session; return the run that answers it, which with `plan` only makes a plan."""
        return (await self._chat.send(session, text, by=self._by, quotes=quotes, plan=plan)).run_id

    async def answer(self, session: Session, run_id: RunId) -> RunResult:
        """Let a turn happen, with those before it, until it ends or waits for a person."""
        while True:
            standing = await self._chat.sessions.find(session.session_id)
            if standing.turn is None and not await self._exists(run_id):
                require_waiting(await self.after(session, ""), run_id)
                await self._begin_next(session)
                continue
            if standing.turn is not None and standing.turn != run_id:
                before = await self._see_through(standing.turn)
                if before.status is RunStatus.WAITING:
                    self._view.notice(run_id, "waiting for the answer before it, which needs an approval")
                    await asyncio.sleep(LOOK_EVERY_S)
                continue
            result = await self._see_through(run_id)
            if self._chat.title is not None and self._naming is None and result.status.settled:
                self._naming = asyncio.create_task(self._chat.title(session.session_id))
            return result

    async def _exists(self, run_id: RunId) -> bool:
        try:
            await self._fabric.records.runs.status(run_id)
        except RunNotFound:
            return False
        return True

    async def _begin_next(self, session: Session) -> None:
        begin = self._chat.begin
        try:
            turn = await begin.next(session.session_id)
            taken = None if turn is None else await begin.create(turn)
        except PASSING:  # another process was faster, such as a server of this folder
            taken = None
        except FabricError as problem:
            await begin.note_problem(session.session_id, problem)
            raise
        if taken is None:
            await asyncio.sleep(LOOK_EVERY_S)
        else:
            await self._fabric.execute_task.drive(*taken)

    async def _see_through(self, run_id: RunId) -> RunResult:
        """Return how a turn stands: one that no process drives is resumed, any other is watched."""
        from agent_fabric.application.runs.fold_log import fold_log  # noqa: PLC0415 - only here

        while True:
            events = await self._fabric.records.runs.read(run_id)
            self._view.publish(run_id, events)
            state = await fold_log(run_id, events)
            if state.status.settled or state.status is RunStatus.WAITING:
                return result_of(state)
            try:
                return await self._fabric.resume_run(run_id)
            except RunHeld:
                await asyncio.sleep(LOOK_EVERY_S)

    async def go_on(self, session: Session, run_id: RunId) -> RunResult:  # noqa: ARG002 - as at a server
        """Continue a turn whose questions have been answered."""
        return await self._see_through_answered(run_id)

    async def _see_through_answered(self, run_id: RunId) -> RunResult:
        try:
            return await self._fabric.resume_run(run_id)
        except RunHeld:
            return await self._see_through(run_id)

    async def stop(self, session: Session, run_id: RunId) -> None:
        """End a turn; what was said of it is kept. One that has not begun is withdrawn."""
        try:
            await self._chat.send.withdraw(session, question_id(run_id), by=self._by)
        except (MessageSent, MessageNotFound):
            await self._fabric.cancel_run(run_id, by=self._by.name, reason="stopped in the session")

    async def mark_seen(self, session: Session) -> None:
        """Note that all of a session was shown."""
        await self._chat.manage.mark_read(await self.session(session.session_id), by=self._by)

    async def change(self, session: Session, **values: str) -> Session:
        """Set the model, the pack, the machine or the title."""
        return await self._chat.manage.change(session, values, by=self._by)

    async def fork(self, session: Session, message_id: str) -> tuple[Session, str]:
        """Make a session that goes on from a message; return it and what was said behind it."""
        return await self._chat.manage.fork(session, message_id, by=self._by)

    async def remember(self, text: str) -> str:
        """Remember a fact; return its id."""
        from agent_fabric.application.memory.propose_fact import RememberFact  # noqa: PLC0415 - only here

        storage = self._fabric.records.storage
        return (await RememberFact(storage.memory.facts, storage.clock)(text, by=LOCAL_OWNER)).id

    async def take_back(self, session: Session, message_id: str) -> Json:
        """Take the files back to a message; return what was undone, and what cannot be."""
        from agent_fabric.bootstrap.runs import undo_run  # noqa: PLC0415 - one command needs it
        from agent_fabric.wire.turns import taken_back_object  # noqa: PLC0415 - as above

        records = self._fabric.records
        undo = UndoTurns(self._chat.messages, records.runs, undo_run(records))
        return taken_back_object(await undo(session, message_id, by=self._by))

    async def verify(self, session: Session) -> VerifiedSession:
        """Return whether the session is as it was recorded."""
        return await VerifySession(self._chat.messages, self._fabric.records.storage.logs)(session)

    async def question(self, approval_id: str) -> ApprovalCard:
        """Return what a turn asks."""
        return await self.runs.question(approval_id)

    async def decide(self, approval_id: str, answer: Answer) -> object:
        """Answer it, as the person at this terminal."""
        return await self._fabric.decide_approval(approval_id, answer, by=self._by)


def local_talk(
    root: Path, loaded: Loaded, view: EventSink, *, asks: bool, buffers: OpenBuffers | None = None
) -> "AbstractAsyncContextManager[LocalTalk]":
    """Open the sessions of a fabric folder; `buffers` are files that an editor has open."""

    @asynccontextmanager
    async def open_here() -> AsyncIterator[LocalTalk]:
        async with open_local(root, loaded, view, asks_here=asks, buffers=buffers) as fabric:
            talk = LocalTalk(fabric, open_chat(fabric, loaded.config), view)
            try:
                yield talk
            finally:
                await talk.aclose()

    return open_here()
