"""Turns a task into a run and sees it through."""

from collections.abc import Callable
from dataclasses import dataclass

from agent_fabric.application.packs.recruit import RecruitSpecialists
from agent_fabric.application.ports.clock import Clock, IdSource
from agent_fabric.application.ports.runs import RunRepository, Workspaces
from agent_fabric.application.runs.drive_run import DriveRun
from agent_fabric.application.runs.taken import Taken
from agent_fabric.domain.events import Event, RunCreated
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import evolve
from agent_fabric.domain.runs.state import RunState, result_of
from agent_fabric.domain.runs.task import RunResult, Task

TYPED_CHARS = 200
"""A shorter task was typed by the person; in a longer one there may be text that they have only pasted."""


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
    signs_in: Callable[[str], tuple[str, ...]] = lambda _: ()
    """Finds signs that a task holds somebody else's instructions; a signal for the record, never the defence."""

    async def __call__(self, task: Task, *, on_created: Callable[[RunId], None] | None = None) -> RunResult:
        """Do the task and return what came of it; `on_created` learns the run's id as soon as it is durable.

        Raises:
            RecruitError: the task names a pack that does not exist; no run is created.
        """
        taken = await self.create(task)
        if on_created is not None:
            on_created(taken.held.run_id)
        await self.drive(*taken)
        return result_of(taken.state)

    async def create(self, task: Task) -> Taken:
        """Make the run durable and hold it, for whoever drives it in their own time.

        Raises:
            RecruitError: as above.
        """
        self.recruit.require_known(task)
        run_id = self.ids.new_run_id()
        secrets = self.drive.secrets
        created = Event(
            seq=0,
            ts=self.clock.now(),
            lane=None,
            step="",
            body=RunCreated(
                prompt=secrets.hide(task.prompt) if secrets else task.prompt,
                specialist_id=task.specialist_ids[0] if task.specialist_ids else None,
                specialist_ids=task.specialist_ids,
                task_force_mode=task.task_force_mode,
                model_key=task.model_key,
                network_allowed=task.network_allowed,
                profile=task.profile,
                budget=task.budget,
                priority=task.priority,
                workspace=task.workspace or self.workspaces.workspace(run_id),
                sandbox=self.sandbox_level,
                policy_version=self.policy_version,
                fabric_version=self.fabric_version,
                signals=self.signs_in(task.prompt) if len(task.prompt) > TYPED_CHARS else (),
            ),
        )
        held = await self.runs.create(
            run_id, (created,), first=lambda: self.workspaces.prepare(run_id, at=task.workspace)
        )
        if self.drive.sink is not None:
            self.drive.sink.publish(run_id, (created,))
        state = RunState(run_id)
        evolve(state, created)
        return Taken(held, state)
