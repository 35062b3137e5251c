"""Takes up a run where it stands."""

from collections.abc import Awaitable, Callable
from typing import Literal

from agent_fabric.application.ports.leases import Before
from agent_fabric.application.ports.packs import SpecialistRegistry
from agent_fabric.application.ports.runs import RunRepository, Workspaces
from agent_fabric.application.ports.workspace_archive import WorkspaceArchive
from agent_fabric.application.runs.claimed_run import ClaimedRun
from agent_fabric.application.runs.drive_run import DriveRun
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import RunUndrivable
from agent_fabric.domain.events import RunResumed
from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.domain.runs.state import RunState, result_of
from agent_fabric.domain.runs.task import Priority, RunResult, root_of


@dataclass(frozen=True, slots=True)
class ResumeRun:
    """Use case: go on with a run that stopped for whatever reason; a settled one just tells its result."""

    runs: RunRepository
    workspaces: Workspaces
    registry: SpecialistRegistry
    drive: DriveRun
    end_leftovers: Callable[[RunId, str], Awaitable[int]]
    """Ends processes that an earlier driver of a run left in its workspace."""
    driver: str
    """Who we are, for the log."""
    archive: WorkspaceArchive | None = None
    """Where files of runs are that other machines have driven."""

    async def __call__(self, run_id: RunId, *, by: Literal["person", "server"] = "person") -> RunResult:
        """Drive the run until it settles, waits or is interrupted.

        Raises:
            RunNotFound: there is no such run.
            RunHeld: a living process drives it.
            RunUndrivable: its workspace or its pack is not on this machine, or a newer program wrote its log.
        """
        taken = await self.take(run_id, by=by)
        if isinstance(taken, RunResult):
            return taken
        await self.drive(*taken)
        return result_of(taken.state)

    async def take(
        self, run_id: RunId, *, by: Literal["person", "server"], new: bool = False
    ) -> ClaimedRun | RunResult:
        """Hold the run, for a driver in its own time; a settled one just tells its result.

        A `new` one has been created by the caller a moment ago, so that no one takes anything over.

        Raises:
            RunNotFound, RunHeld, RunUndrivable: as above.
        """
        if by == "server" and not new:
            # A run that this process cannot drive is not touched: the next driver must see how the last one ended.
            found = await fold_log(run_id, await self.runs.read(run_id))
            self._require_drivable(found, with_folder=not self._has_no_folder_yet(found))
            if found.status.settled:
                return result_of(found)
        elif (await self.runs.status(run_id)).settled:
            return result_of(await fold_log(run_id, await self.runs.read(run_id)))
        held, events, before = await self.runs.take(run_id)
        try:
            state = await fold_log(run_id, events)
            if state.next_seq == 1:  # it may have no folder yet
                own = state.workspace == self.workspaces.workspace(run_id)
                await self.workspaces.prepare(run_id, at="" if own else state.workspace)
            self._require_drivable(state)
            if self.archive is not None and self._is_saved(state):
                state.workspace = await self.archive.restore(run_id, state.saved)
            # Only one: else a process that it kills at once would be started for ever.
            fresh = (new or before is Before.NOBODY) and state.next_seq == 1
            if not fresh:
                await self.end_leftovers(run_id, state.workspace)
        except BaseException:
            await held.release()
            raise
        if state.status.settled:
            await held.release()
            return result_of(state)
        assert state.task is not None
        handed_over = before is not Before.UNKNOWN
        resumed = RunResumed(by=by, driver=self.driver, root=root_of(state.task.parent), handed_over=handed_over)
        return ClaimedRun(held, state, () if fresh else (resumed,))

    def _has_no_folder_yet(self, state: RunState) -> bool:
        """Tell whether no one has begun a run: a trigger creates it without a folder, and may die before it has one.

        The folder of any other run, such as a turn of a session, may hold files, so it is waited for.
        """
        triggered = state.task is not None and state.task.priority is Priority.SCHEDULED and not state.task.session
        return triggered and state.next_seq == 1 and state.workspace == self.workspaces.workspace(state.run_id)

    def _is_saved(self, state: RunState) -> bool:
        """Tell whether its files are found on any machine."""
        return self.archive is not None and self.archive.covers(state) and not state.status.settled

    def _require_drivable(self, state: RunState, *, with_folder: bool = True) -> None:
        if state.unknown_kind:
            raise RunUndrivable(
                f"The log of run {state.run_id} holds {state.unknown_kind!r} events, which this version does not know",
                hint="A newer agent-fabric wrote it. Upgrade, then resume.",
                lacks=f"a version that knows {state.unknown_kind!r} events",
            )
        if state.status.settled:
            return
        if with_folder and not self._is_saved(state) and not self.workspaces.usable(state.workspace):
            raise RunUndrivable(
                f"The workspace of run {state.run_id} cannot be opened: {state.workspace}",
                hint="Resume on the machine that has it, or restore the folder.",
                lacks="the folder of the workspace",
            )
        agent = state.task.agent if state.task else None  # frozen in the run: its file may be gone
        named = state.specialist_ids or (state.task.specialist_ids if state.task else ())  # before anyone is recruited
        needed = named if agent is None else tuple(filter(None, [SpecialistId(agent.pack)]))
        missing = [who for who in needed if who not in self.registry.names()]
        if missing:
            raise RunUndrivable(
                f"Run {state.run_id} needs the pack {', '.join(map(repr, missing))}, which is not there",
                hint="Install or configure it, then resume.",
                lacks=f"the pack {', '.join(map(repr, missing))}",
            )
