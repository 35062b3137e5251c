"""What routes that drive runs share: wait for what becomes of one, and tell errors apart that are about one."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from agent_fabric.application.runs.dispatch_runs import Drive
from agent_fabric.domain.errors import FabricError, ServerStopping
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunResult
from agent_fabric.interfaces.http.errors import AboutRun, InternalError


async def awaited(drive: Drive) -> RunResult:
    """Wait for a run; it continues if we are told to stop waiting.

    Raises:
        AboutRun: the server stops, or the run cannot be driven.
    """
    try:
        return await asyncio.shield(drive.outcome)
    except asyncio.CancelledError:
        if not drive.outcome.cancelled():
            raise
        stopping = ServerStopping("The server stopped before the run ended", hint="The next server resumes it.")
        raise AboutRun(stopping, drive.run_id) from None
    except Exception as problem:  # it has been logged where the run is driven
        known = problem if isinstance(problem, FabricError) else InternalError()
        raise AboutRun(known, drive.run_id) from problem


@contextmanager
def about(run_id: RunId) -> Iterator[None]:
    """Let an error tell which run it is about."""
    try:
        yield
    except FabricError as problem:
        raise AboutRun(problem, run_id) from problem
