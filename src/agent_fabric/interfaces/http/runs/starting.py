"""Gives a request to the use case that starts runs, and its answer the headers that follow from it."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager

from fastapi import Request

from agent_fabric.application.runs.dispatch_runs import Drive
from agent_fabric.application.runs.start_run import StartRequest, StartRun
from agent_fabric.domain.errors import FabricError, ServerStopping
from agent_fabric.domain.events import Body
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.task import RunResult, Task
from agent_fabric.interfaces.http.errors import AboutRun, InternalError
from agent_fabric.interfaces.http.locks import who_asks


@asynccontextmanager
async def start_request(request: Request, by: Principal | None = None) -> AsyncIterator[StartRequest]:
    """Give who asks and under which idempotency key; what became of it is noted for the middleware."""
    state = request.scope["state"]
    run_id = state.get("run_id")
    key = None if run_id is None else RunId(run_id)
    asked = StartRequest(by or who_asks(request), key, bool(state.get("is_repeat")))
    try:
        yield asked
    finally:
        if asked.is_attached:
            state["is_attached"] = True
        if asked.starts_left is not None:
            state["starts_left"] = asked.starts_left


async def start_for(
    start: StartRun,
    request: Request,
    task: Task,
    *,
    asked_steps: int | None = None,
    attempt: int = 0,
    then: Sequence[tuple[LaneId, Body]] = (),
    copy_of: str = "",
) -> Drive | RunResult:
    """Start a run for the caller of a request; see `StartRun`."""
    async with start_request(request) as asked:
        return await start(task, asked, asked_steps=asked_steps, attempt=attempt, then=then, copy_of=copy_of)


async def resume_for(start: StartRun, request: Request, run_id: RunId) -> Drive | RunResult:
    """Resume a run for the caller of a request; see `StartRun`."""
    async with start_request(request) as asked:
        return await start.resume(run_id, asked)


async def wait_for_result(drive: Drive) -> RunResult:
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
