"""Resumes runs that have no driver."""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from agent_fabric.application.ports.events import LogMirrors
from agent_fabric.application.ports.runs import RunListing
from agent_fabric.application.runs.dispatch_runs import DispatchRuns
from agent_fabric.application.runs.resume_run import ResumeRun
from agent_fabric.domain.errors import FabricError, FolderHeld, RunHeld, ServerStopping, StoreUnavailable
from agent_fabric.domain.ids import RunId

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ResumeUnfinishedRuns:
    """Use case: drive runs that an earlier server, or a process that died, left unfinished."""

    resume_run: ResumeRun
    dispatch: DispatchRuns
    take_later: Callable[[RunId], None] | None = None
    """Takes up a run whose folder another one has, when that may be free."""
    on_store_lost: Callable[[RunId], None] | None = None
    """Called with a run that could not be taken up because the store could not be written."""

    async def __call__(self, run_ids: Iterable[RunId]) -> Sequence[RunId]:
        """Resume the runs one after another, each in its turn; return those that cannot be resumed."""
        left: list[RunId] = []
        for run_id in run_ids:
            try:
                await self.dispatch.when_free(run_id, partial(self.resume_run.take, run_id, by="server"))
            except ServerStopping:
                break
            except RunHeld:
                continue  # someone was faster, or is just letting go of it: the next look finds it again if need be
            except FolderHeld as problem:
                if self.take_later is None:
                    _log.warning("Run %s was not resumed: %s", run_id, problem.message)
                    left.append(run_id)
                else:
                    self.take_later(run_id)
            except FabricError as problem:
                if isinstance(problem, StoreUnavailable) and self.on_store_lost is not None:
                    self.on_store_lost(run_id)
                _log.warning("Run %s was not resumed: %s", run_id, problem.message)
                left.append(run_id)
            except Exception:  # noqa: BLE001 - one that fails must not keep the others from being resumed
                _log.exception("Run %s was not resumed", run_id)
                left.append(run_id)
        return left


@dataclass(frozen=True, slots=True)
class RecoverRuns:
    """Use case: what a server does first. Log files of dead drivers, then unfinished runs, then the search index."""

    mirrors: LogMirrors
    resume_unfinished_runs: ResumeUnfinishedRuns
    catalogue: RunListing

    async def __call__(self, run_ids: Sequence[RunId]) -> None:
        """Recover; what fails is logged, and the next server tries again."""
        try:
            await self.mirrors.catch_up()
        except FabricError as problem:
            _log.warning("The log files of some runs are not up to date: %s", problem.message)
        await self.resume_unfinished_runs(run_ids)
        try:
            await self.catalogue.update_index()
        except FabricError as problem:
            _log.warning("The search index is not up to date: %s", problem.message)
