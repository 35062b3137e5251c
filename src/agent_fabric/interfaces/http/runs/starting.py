"""How every door starts a run: within the limits of the caller, and once, however often they ask."""

import uuid
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from fastapi import Request

from agent_fabric.application.runs.dispatch_runs import Drive
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.errors import FabricError, RunHeld, RunNotFound
from agent_fabric.domain.events import Body
from agent_fabric.domain.identity.ownership import Visibility, owner_of
from agent_fabric.domain.identity.principals import Kind, Principal, known_scopes, narrow_scopes
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.task import RunResult, Task
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.views import look_at


async def begun(
    fabric: ServerFabric,
    request: Request,
    task: Task,
    *,
    asked_steps: int | None = None,
    attempt: int = 0,
    then: Sequence[tuple[LaneId, Body]] = (),
    copy_of: str = "",
) -> Drive | RunResult:
    """Start a run for the caller, or find the one that the same request has started before.

    Args:
        fabric: The server.
        request: What was sent.
        task: What is to be done.
        asked_steps: How many steps they asked for in so many words.
        attempt: Which run it is, if the request may start several.
        then: See `ExecuteTask`.
        copy_of: See `ExecuteTask`.

    Returns:
        The run's drive; or, if it was started before and is not driven here, how it stands.

    Raises:
        InvalidInputs: they asked for more than they may.
        TooManyRequests: they have started too many runs, or have too many under way.
        ServerBusy, ServerStopping, StoreUnavailable: nothing was started.
    """
    principal = who_asks(request)
    if principal.run:
        task = await _within_run(fabric, task, principal)
    limits = fabric.limits if fabric.limits.hold_for(principal) else None
    if limits is not None:
        limits.caps.require(max_steps=asked_steps)
        task = replace(task, budget=limits.caps.lowered(task.budget))
    state = request.scope["state"]
    run_id = _run_id(state.get("run_id"), attempt)
    if run_id is not None and (attempt or state["is_repeat"]):
        found = await existing(fabric, run_id)
        if found is not None:
            state["is_attached"] = True
            return found
    fabric.require_store()
    if limits is not None:
        state["starts_left"] = await limits.count_start(principal.id)
    create = partial(fabric.execute_task.create, task, then=then, copy_of=copy_of, run_id=run_id)
    try:
        if limits is None or limits.runs is None:
            return await fabric.dispatch(create)
        return await limits.runs(principal.id, lambda: fabric.dispatch(create))
    except FabricError:
        # Another process may have been faster: another server in the same folder.
        found = None if run_id is None else await existing(fabric, run_id)
        if found is None:
            raise
        return found


async def resumed(fabric: ServerFabric, request: Request, run_id: RunId) -> Drive | RunResult:
    """Resume a run for the caller; one that has settled just tells its result.

    Raises:
        TooManyRequests: they have started too many runs, or have too many under way.
        FabricError: it cannot be driven.
    """
    principal = who_asks(request)
    resume = partial(fabric.dispatch.resume, run_id, partial(fabric.resume_run.take, run_id, by="person"))
    if not fabric.limits.hold_for(principal) or fabric.dispatch.find(run_id) is not None:
        return await resume()  # what is driven already is not one more
    request.scope["state"]["starts_left"] = await fabric.limits.count_start(principal.id)
    quota = fabric.limits.runs
    return await (resume() if quota is None else quota(principal.id, resume))


async def existing(fabric: ServerFabric, run_id: RunId) -> Drive | RunResult | None:
    """Return a run that may exist: its drive, or how it stands if it is not driven here; None if there is none."""
    drive = fabric.dispatch.find(run_id)
    if drive is not None:
        return drive
    try:
        if run_id in fabric.dispatch:  # the server before us left it, and it would be taken up soon
            return await fabric.dispatch.resume(run_id, partial(fabric.resume_run.take, run_id, by="server"))
        return (await look_at(fabric, run_id)).result
    except RunNotFound:
        return None
    except RunHeld:
        return (await look_at(fabric, run_id)).result


async def _within_run(fabric: ServerFabric, task: Task, principal: Principal) -> Task:
    """Return the task of a run that another run starts: it may do no more than that one.

    It is the same owner's if the caller could act as that owner anyway. Any caller can name any run, so that to name
    one must never give a right.
    """
    try:
        above = (await look_at(fabric, RunId(principal.run))).task
    except RunNotFound:  # a run of another server
        return task
    task = replace(task, encrypted=task.encrypted or above.encrypted)
    if principal.kind is Kind.LOCAL or owner_of(principal) == above.owner:
        seen = task.visibility if task.visibility is Visibility.PRIVATE else above.visibility
        task = replace(task, requested_by=above.requested_by, owner=above.owner, visibility=seen)
    if not above.user_scopes:
        return task
    scopes = narrow_scopes(known_scopes(task.user_scopes), known_scopes(above.user_scopes))
    return replace(task, user_scopes=tuple(sorted(scopes)))


def _run_id(chosen: str | None, attempt: int) -> RunId | None:
    if chosen is None or not attempt:
        return None if chosen is None else RunId(chosen)
    return RunId(str(uuid.uuid5(uuid.UUID(chosen), str(attempt))))
