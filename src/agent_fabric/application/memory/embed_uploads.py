"""Runs that make the vectors of documents which were uploaded: the upload does not wait for them.

A document is found by its words as soon as the request ends. Its vectors take long, so a run makes them, which goes on
after the server was killed. One such run makes the vectors of all documents that have none, so that a hundred uploads
need no hundred runs. What is left without one, `FindMissingVectors` finds.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from agent_fabric.application.runs.dispatch_runs import DispatchRuns, Drive
from agent_fabric.application.runs.execute_task import ExecuteTask
from agent_fabric.domain.errors import FabricError
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunResult, Task

_log = logging.getLogger(__name__)


class EmbedUploads:
    """Use case: start a run for uploaded documents, unless one of this server is under way."""

    def __init__(self, execute_task: ExecuteTask, dispatch: DispatchRuns, task: Callable[[], Task]) -> None:
        self._execute_task, self._dispatch, self._task = execute_task, dispatch, task
        self._drive: Drive | None = None
        self._again: Principal | None = None
        """Who has uploaded something while a run was under way: it may have looked before that."""
        self._starting: set[asyncio.Task[None]] = set()

    async def __call__(self, by: Principal) -> RunId:
        """Return the run that makes the vectors of what was just added.

        Raises:
            ServerBusy, ServerStopping, StoreUnavailable: none could be started; the document is found by its words.
        """
        if self._drive is not None and not self._drive.outcome.done():
            self._again = by
            return self._drive.run_id
        return await self._start(by)

    async def _start(self, by: Principal) -> RunId:
        self._again = None
        drive = await self._dispatch(partial(self._execute_task.create, self._task().asked_by(by)))
        if isinstance(drive, RunResult):
            return drive.run_id
        self._drive = drive
        drive.outcome.add_done_callback(self._go_on)
        return drive.run_id

    def _go_on(self, outcome: "asyncio.Future[RunResult]") -> None:
        by = self._again
        if by is not None and not outcome.cancelled():  # cancelled: the server stops, and the next one takes the run up
            task = asyncio.ensure_future(self._start_again(by))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)

    async def _start_again(self, by: Principal) -> None:
        try:
            await self._start(by)
        except FabricError as problem:
            _log.warning("The vectors of uploaded documents wait for a while: %s", problem.message)
