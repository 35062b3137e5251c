"""Turns a task into a run and sees it through."""

from collections.abc import Callable
from dataclasses import dataclass

from agent_fabric.application.packs.recruit import recruit_specialist
from agent_fabric.application.ports.clock import Clock, IdSource
from agent_fabric.application.ports.packs import SpecialistRegistry
from agent_fabric.application.ports.runs import RunRepository, Workspaces
from agent_fabric.application.runs.drive_run import DriveRun
from agent_fabric.domain.events import Event, RunCreated
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import evolve
from agent_fabric.domain.runs.state import RunState, result_of
from agent_fabric.domain.runs.task import RunResult, Task


@dataclass(frozen=True, slots=True)
class ExecuteTask:
    """Use case: create a run for a task, then drive it."""

    runs: RunRepository
    workspaces: Workspaces
    registry: SpecialistRegistry
    drive: DriveRun
    clock: Clock
    ids: IdSource
    sandbox_level: str
    policy_version: str
    fabric_version: str

    async def __call__(self, task: Task, *, on_created: Callable[[RunId], None] | None = None) -> RunResult:
        """Do the task and return what came of it; `on_created` learns the run's id as soon as it is durable.

        Raises:
            RecruitError: the task names a pack that does not exist; no run is created.
        """
        if task.specialist_id is not None:
            recruit_specialist(task, self.registry.names())
        run_id = self.ids.new_run_id()
        created = Event(
            seq=0,
            ts=self.clock.now(),
            lane=None,
            step="",
            body=RunCreated(
                prompt=task.prompt,
                specialist_id=task.specialist_id,
                model_key=task.model_key,
                network_allowed=task.network_allowed,
                profile=task.profile,
                budget=task.budget,
                workspace=self.workspaces.prepare(run_id),
                sandbox=self.sandbox_level,
                policy_version=self.policy_version,
                fabric_version=self.fabric_version,
            ),
        )
        held = await self.runs.create(run_id, (created,))
        if on_created is not None:
            on_created(run_id)
        if self.drive.sink is not None:
            self.drive.sink.publish(run_id, (created,))
        state = RunState(run_id)
        evolve(state, created)
        await self.drive(held, state)
        return result_of(state)
