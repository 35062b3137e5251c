"""Turns the next message of a session into a run."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from typing import NamedTuple, Protocol

from agent_fabric.application.chat.choose_node import ChooseNode
from agent_fabric.application.ports.chat import MessageQueue, SessionRepository
from agent_fabric.application.ports.runs import RunRepository, Workspaces
from agent_fabric.application.ports.turn_contexts import TurnContexts
from agent_fabric.application.runs.claimed_run import ClaimedRun
from agent_fabric.application.runs.continue_run import quoted_labels
from agent_fabric.application.runs.execute_task import ExecuteTask
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.domain.chat.sessions import QueuedMessage, Session
from agent_fabric.domain.chat.turn_context import TurnContext, context_after
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.deserialize import reader_of
from agent_fabric.domain.errors import (
    DriverConflict,
    FabricError,
    FolderHeld,
    MessageNotFound,
    MessageSent,
    RunHeld,
    RunUndrivable,
    StoreUnavailable,
)
from agent_fabric.domain.events import RunCreated
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.domain.ids import RunId, SessionId
from agent_fabric.domain.runs.task import Budget, Priority, Quoted, Task

PASSING = (DriverConflict, FolderHeld, RunHeld, StoreUnavailable)
"""What keeps a turn from beginning now, but not later."""


class Attach(Protocol):
    """Files that came with messages."""

    async def place(self, run_id: RunId, workspace: str) -> None:
        """Put the files of a turn into its workspace; doing it again changes nothing.

        Raises:
            StoreUnavailable: it is not possible now.
            RunUndrivable: something of the workspace is in their place.
        """
        ...

    async def forget(self, run_id: RunId) -> None:
        """Keep the files of a turn no longer: they are in the workspace."""
        ...


class NextTurn(NamedTuple):
    """A turn that can begin."""

    message: QueuedMessage
    task: Task
    copy_of: str
    """The workspace that it begins with a copy of; empty: none."""


@dataclass(frozen=True, slots=True)
class BeginTurn:
    """Use case: make a task of what was said, with the conversation before it, and create its run."""

    sessions: SessionRepository
    queue: MessageQueue
    runs: RunRepository
    workspaces: Workspaces
    execute_task: ExecuteTask
    new_task: Callable[[Session, str], Task]
    """Makes the task of a turn, as the configuration says."""
    lowered: Callable[[Budget], Budget] = lambda budget: budget
    """Lowers a budget to what a caller with limits may use."""
    choose_node: ChooseNode = field(default_factory=ChooseNode)
    """Finds the machine that a session is about."""
    contexts: TurnContexts | None = None
    """Where what turns have left may be found faster than in their logs."""
    attach: Attach | None = None
    """Puts files that came with a message into the workspace; None: no message has any."""

    async def next(self, session_id: SessionId) -> NextTurn | None:
        """Return the turn that can begin; None: another one is under way, or nothing waits.

        Raises:
            SessionNotFound: the session is gone.
            FabricError: the turn cannot begin; it is noted with its message unless this can change by itself.
        """
        session = await self.sessions.find(session_id)
        if session.turn is not None:
            return None
        message = next((each for each in await self.queue.list(session_id) if not each.problem), None)
        return None if message is None else await self._turn(session, message)

    async def note_problem(self, session_id: SessionId, problem: FabricError) -> None:
        """Note why the next message cannot begin, so that those behind it can."""
        waiting = [each for each in await self.queue.list(session_id) if not each.problem]
        if waiting:
            text = " ".join(filter(None, (problem.message, problem.hint)))
            with suppress(MessageNotFound, MessageSent):
                await self.queue.change(session_id, waiting[0].message_id, None, problem=text)

    async def create(self, turn: NextTurn) -> ClaimedRun:
        """Make the run durable and hold it.

        Raises:
            DriverConflict: another process was faster.
            FabricError: as for a run.
        """
        run_id = turn.message.run_id
        if self.attach is None or not turn.message.asked.get("has_files"):
            return await self.execute_task.create(turn.task, copy_of=turn.copy_of, run_id=run_id)
        created = await self.execute_task.create(
            turn.task, copy_of=turn.copy_of, run_id=run_id, fill=partial(self.attach.place, run_id)
        )
        await self.attach.forget(run_id)
        return created

    async def _turn(self, session: Session, message: QueuedMessage) -> NextTurn:
        asked = message.asked
        task = self.new_task(session, message.content)
        task = replace(
            task,
            session=session.session_id,
            conversation=session.session_id,
            visibility=Visibility.PRIVATE,
            requested_by=str(asked["by"]),
            owner=str(asked["owner"]),
            user_scopes=tuple(asked["scopes"]),
            node=await self.choose_node(session.node, asked["scopes"], now=True),
            workspace=session.project,
            project=bool(session.project),
            budget=self.lowered(task.budget) if asked["limited"] else task.budget,
            quotes=reader_of(Quoted)(asked["quotes"]) if asked.get("quotes") else None,
            plan=bool(asked.get("plan")),
            priority=Priority.SCHEDULED if asked.get("by_itself") else task.priority,
        )
        if session.last_run is None:
            return NextTurn(message, task, "")
        return await self._after(session, session.last_run, message, task)

    async def _after(self, session: Session, run_id: RunId, message: QueuedMessage, task: Task) -> NextTurn:
        """Return a turn that goes on from another one: its conversation, its workspace, its labels."""
        before = await self._context(session.session_id, run_id)
        forked = before.session != session.session_id
        others = before.project and before.owner != task.owner  # a fork has no right to another owner's project
        own_folder = not before.project
        if own_folder and not self.workspaces.usable(before.workspace):
            raise RunUndrivable(
                f"The workspace of this session is gone: {before.workspace}", hint="Start a new session instead."
            )
        copies = forked and own_folder
        task = replace(
            task,
            history=before.history,
            quotes=quoted_labels(run_id, before.labels, before.owner, task),
            specialist_ids=task.specialist_ids or (() if task.node else before.specialist_ids),
            encrypted=task.encrypted or before.encrypted,
            workspace="" if copies or others else before.workspace,
            project=before.project and not others,
            continues=None if forked else run_id,
        )
        return NextTurn(message, task, before.workspace if copies else "")

    async def _context(self, session_id: SessionId, run_id: RunId) -> TurnContext:
        """Return what a turn has left: from the cache, if that is about the whole log, else from the log itself."""
        cached = None if self.contexts is None else await self.contexts.get(session_id, run_id)
        if cached is not None and not await self.runs.read(run_id, after=cached.events - 1):
            return cached
        events = await self.runs.read(run_id)
        state = await fold_log(run_id, events)
        if not isinstance(events[0].body, RunCreated) or state.task is None:
            raise RunUndrivable(f"The start of run {run_id} cannot be read", hint=f"See: fabric verify {run_id}")
        return context_after(state)
