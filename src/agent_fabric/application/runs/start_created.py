"""Takes up runs that exist already: those that triggers have created, and those whose folder was held."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from agent_fabric.application.runs.dispatch_runs import DispatchRuns
from agent_fabric.application.runs.resume_run import ResumeRun
from agent_fabric.domain.errors import FabricError, FolderHeld, RunHeld, ServerStopping, StoreUnavailable
from agent_fabric.domain.ids import RunId

FOLDER_RETRY_S: Final = 1.0
"""How long a run waits before it tries again to work in a folder that another run has."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class StartCreatedRuns:
    """Use case: take up runs that triggers have created, one after another, when there is room."""

    dispatch: DispatchRuns
    resume_run: ResumeRun
    retry_s: float = FOLDER_RETRY_S
    _waiting: "asyncio.Queue[tuple[RunId, bool]]" = field(default_factory=asyncio.Queue)
    """Runs to be taken up, each with whether it is new."""

    def __call__(self, run_ids: Sequence[RunId]) -> None:
        """Take runs over that were just created; no caller waits for them."""
        self.dispatch.expect(run_ids)
        for run_id in run_ids:
            self._waiting.put_nowait((run_id, True))

    def take_later(self, run_id: RunId, *, new: bool = False) -> None:
        """Take a run up when its folder may be free: another run works there."""
        self.dispatch.expect([run_id])
        asyncio.get_running_loop().call_later(self.retry_s, self._waiting.put_nowait, (run_id, new))

    async def drive(self) -> None:
        """Drive until cancelled; what is left then is found by the next server."""
        while True:
            run_id, new = await self._waiting.get()
            try:
                await self.dispatch.when_free(run_id, partial(self.resume_run.take, run_id, by="server", new=new))
            except ServerStopping:
                return
            except RunHeld:
                continue  # another process was faster
            except FolderHeld:
                self.take_later(run_id, new=new)
            except FabricError as problem:
                if isinstance(problem, StoreUnavailable) and self.dispatch.on_store_lost is not None:
                    self.dispatch.on_store_lost(run_id)
                _log.warning("Run %s was not started: %s", run_id, problem.message)
            except Exception:  # noqa: BLE001 - one that fails must not keep the others from being started
                _log.exception("Run %s was not started", run_id)
