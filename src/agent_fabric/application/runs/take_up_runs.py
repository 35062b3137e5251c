"""Goes on with what was left unfinished."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from agent_fabric.application.runs.dispatch_runs import DispatchRuns
from agent_fabric.application.runs.resume_run import ResumeRun
from agent_fabric.domain.errors import FabricError, ServerStopping
from agent_fabric.domain.ids import RunId

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TakeUpRuns:
    """Use case: drive runs that the server before us, or a process that died, has left unfinished."""

    resume_run: ResumeRun
    dispatch: DispatchRuns

    async def __call__(self, run_ids: Iterable[RunId]) -> Sequence[RunId]:
        """Take the runs up one after another, each when it is its turn; return those that cannot be taken."""
        left: list[RunId] = []
        for run_id in run_ids:
            try:
                await self.dispatch.when_free(run_id, partial(self.resume_run.take, run_id, by="server"))
            except ServerStopping:
                break
            except FabricError as problem:
                _log.warning("Run %s was not taken up: %s", run_id, problem.message)
                left.append(run_id)
            except Exception:  # noqa: BLE001 - one that we choke on must not keep the others from going on
                _log.exception("Run %s was not taken up", run_id)
                left.append(run_id)
        return left
