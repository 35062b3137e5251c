"""Drives the run of a trial: creates it with the files of its case, or goes on with it after a crash."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.evals import CaseFolders
from agent_fabric.application.runs.claimed_run import ClaimedRun
from agent_fabric.application.runs.dispatch_runs import DispatchRuns, Take
from agent_fabric.application.runs.drive_run import DriveRun
from agent_fabric.application.runs.execute_task import ExecuteTask
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.application.runs.resume_run import ResumeRun
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import DriverConflict, RunHeld, RunNotFound, ServerStopping
from agent_fabric.domain.evals.definition import CaseFile
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.state import result_of
from agent_fabric.domain.runs.task import RunResult, Task

POLL_S = 0.5
"""Interval at which a run is looked at that another process drives."""

SeeThrough = Callable[[RunId, Take], Awaitable[RunResult]]
"""Takes a run and drives it to its end."""


@dataclass(frozen=True, slots=True)
class DriveTrial:
    """Use case: see the run of a trial through, wherever an earlier process left it."""

    execute_task: ExecuteTask
    resume_run: ResumeRun
    folders: CaseFolders
    clock: Clock
    see_through: SeeThrough

    async def __call__(self, run_id: RunId, task: Task, files: Mapping[str, CaseFile]) -> RunResult:
        """Return what came of the run.

        Raises:
            RecruitError, RunUndrivable, StoreUnavailable, ServerStopping: it cannot be created or driven here.
        """

        async def take() -> ClaimedRun | RunResult:
            try:
                return await self.resume_run.take(run_id, by="person")
            except RunNotFound:
                return await self._create(run_id, task, files)

        while True:
            try:
                return await self.see_through(run_id, take)
            except (RunHeld, DriverConflict):  # another process drives it: it is resumed, or its result read
                await self.clock.sleep(POLL_S)

    async def _create(self, run_id: RunId, task: Task, files: Mapping[str, CaseFile]) -> ClaimedRun:
        """Create the run with its files in place. A folder that is there is of an attempt that was killed."""
        await self.execute_task.workspaces.discard(run_id)
        start = await self.folders.stage(run_id, files)
        try:
            return await self.execute_task.create(task, copy_of=start, run_id=run_id)
        finally:
            await self.folders.remove(start)


def drive_here(drive: DriveRun) -> SeeThrough:
    """Return what drives runs in this very task."""

    async def see_through(_: RunId, take: Take) -> RunResult:
        taken = await take()
        if isinstance(taken, RunResult):
            return taken
        await drive(*taken)
        return result_of(taken.state)

    return see_through


def drive_in_turn(dispatch: DispatchRuns, resume_run: ResumeRun) -> SeeThrough:
    """Return what lets a server drive runs among its others."""

    async def see_through(run_id: RunId, take: Take) -> RunResult:
        await dispatch.when_free(run_id, take)
        driven = dispatch.find(run_id)
        if driven is None:  # it has ended
            return result_of(await fold_log(run_id, await resume_run.runs.read(run_id)))
        try:
            return await asyncio.shield(driven.outcome)
        except asyncio.CancelledError:
            if driven.outcome.cancelled():
                raise ServerStopping("The server stopped before the trial ended") from None
            raise

    return see_through
