"""Turns a task into a run and sees it through."""

from collections.abc import Awaitable, Callable, Sequence

from agent_fabric.application.packs.recruit import RecruitSpecialists
from agent_fabric.application.ports.clock import Clock, IdSource
from agent_fabric.application.ports.runs import RunRepository, Workspaces
from agent_fabric.application.runs.claimed_run import ClaimedRun
from agent_fabric.application.runs.drive_run import DriveRun
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, RunNotFound, StoreFull, StoreUnavailable
from agent_fabric.domain.events import TASK_FIELDS, Body, Event, RunCreated
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.policy.labels import WORKSPACE_FILES
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.state import result_of
from agent_fabric.domain.runs.task import RunResult, Task

TYPED_CHARS = 200
"""A shorter task at this machine was typed; a longer one, or one that came over the network, may hold pasted text."""


_NOT_STARTED = {
    True: "Free some space, then start it again. No run was created.",
    False: "Check the disk, then start it again. No run was created.",
}
"""What to do when the first event could not be kept, by whether the disk is full."""


@dataclass(frozen=True, slots=True)
class ExecuteTask:
    """Use case: create a run for a task, then drive it."""

    runs: RunRepository
    workspaces: Workspaces
    recruit: RecruitSpecialists
    drive: DriveRun
    clock: Clock
    ids: IdSource
    sandbox_level: str
    policy_version: str
    fabric_version: str
    policy_profile: str = ""
    injection_signals: Callable[[str], tuple[str, ...]] = lambda _: ()
    """Finds signs that a task holds someone else's instructions; a signal for the record, never the defence."""
    untrusted_files: Callable[[RunId, str], str] = lambda *_: ""
    """Says why what a project tells all agents is strangers' text; empty: it is not."""
    encrypts: Callable[[Task], bool] = lambda _: False
    """Tells whether the run of a task is encrypted although the task does not ask for it."""
    visibility: Visibility = Visibility.TEAM
    """Who sees the run of a task that does not say so."""
    started_by: str = ""
    """The run that this process works for, and so all that it starts; empty: none."""

    async def __call__(
        self,
        task: Task,
        *,
        then: Sequence[tuple[LaneId, Body]] = (),
        copy_of: str = "",
        on_created: Callable[[RunId], None] | None = None,
    ) -> RunResult:
        """Do the task and return what came of it; `on_created` learns the run's id as soon as it is durable.

        `then` are facts that the run begins with, such as what another run has done already, and `copy_of` is the
        workspace of that other run.

        Raises:
            RecruitError: the task names a pack that does not exist; no run is created.
        """
        taken = await self.create(task, then=then, copy_of=copy_of)
        if on_created is not None:
            on_created(taken.held.run_id)
        await self.drive(*taken)
        return result_of(taken.state)

    async def create(
        self,
        task: Task,
        *,
        then: Sequence[tuple[LaneId, Body]] = (),
        copy_of: str = "",
        run_id: RunId | None = None,
        fill: Callable[[str], Awaitable[None]] | None = None,
    ) -> ClaimedRun:
        """Make the run durable and hold it, for a driver in its own time.

        `run_id` is an id that was chosen before, so that a repeated request finds this run; there must be none yet.
        `fill` puts files into its workspace before there is a run, so that no run ever lacks them.

        Raises:
            RecruitError: as above.
            FabricError: the folder or the run cannot be made; nothing of either stays, unless there is such a run.
        """
        if task.workflow is None:
            self.recruit.require_known(task)
        run_id = run_id or self.ids.new_run_id()
        created = self.first_event(run_id, task)
        events = [created, *(Event(seq, created.ts, lane, "", body) for seq, (lane, body) in enumerate(then, start=1))]
        # Before there is a run: a folder that was made or copied in part must not be taken for the whole.
        made = await self._make_folder(run_id, task, copy_of)
        try:
            if fill is not None:
                await fill(task.workspace or self.workspaces.workspace(run_id))
            held = await self.runs.create(run_id, events)
        except FabricError as problem:
            if made:
                await discard_uncreated(run_id, self.runs, self.workspaces)
            if isinstance(problem, StoreUnavailable):  # there is no run that could be resumed
                problem.hint = _NOT_STARTED[isinstance(problem, StoreFull)]
            raise
        if self.drive.sink is not None:
            self.drive.sink.publish(run_id, events)
        return ClaimedRun(held, fold(run_id, events))

    async def _make_folder(self, run_id: RunId, task: Task, copy_of: str) -> bool:
        if copy_of:
            return await self.workspaces.copy(copy_of, run_id)
        return await self.workspaces.prepare(run_id, at=task.workspace)

    def _untrusted_text(self, run_id: RunId, task: Task) -> str:
        return self.untrusted_files(run_id, task.workspace) if task.workspace and task.project is not False else ""

    def first_event(self, run_id: RunId, task: Task) -> Event:
        """Return the event that a run begins with."""
        asked = {name: getattr(task, name) for name in TASK_FIELDS}
        asked["visibility"] = task.visibility or self.visibility
        asked["started_by"] = task.started_by or self.started_by
        asked["encrypted"] = task.encrypted or self.encrypts(task)
        if secrets := self.drive.secrets:
            asked |= {name: secrets.hide(asked[name]) for name in ("prompt", "agent", "workflow", "history", "quotes")}
        pasted = len(task.prompt) > TYPED_CHARS or task.requested_by
        created = RunCreated(
            **asked,
            specialist_id=task.specialist_ids[0] if task.specialist_ids else None,
            owner=task.owner,
            workspace=task.workspace or self.workspaces.workspace(run_id),
            project=_is_project(task),
            untrusted=tuple(filter(None, (self._untrusted_text(run_id, task),))),
            signals=self.injection_signals(task.prompt) if pasted else (),
            sandbox=self.sandbox_level,
            policy_version=self.policy_version,
            policy_profile=self.policy_profile,
            fabric_version=self.fabric_version,
        )
        return Event(seq=0, ts=self.clock.now(), lane=None, step="", body=created)


async def discard_uncreated(run_id: RunId, runs: RunRepository, workspaces: Workspaces) -> None:
    """Remove the folder of a run that did not become durable.

    It stays where another process has created the run meanwhile, and where that cannot be told.
    """
    try:
        await runs.status(run_id)
    except RunNotFound:
        await workspaces.discard(run_id)
    except StoreUnavailable:
        pass


def _is_project(task: Task) -> bool:
    if task.parent is not None:
        return WORKSPACE_FILES in task.parent.private
    return bool(task.workspace) if task.project is None else task.project
