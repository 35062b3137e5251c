"""How every door starts a run: within the limits of its caller, and once, however often it is asked for."""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from agent_fabric.application.ports.automation import Begin
from agent_fabric.application.ports.limits import QuotaState
from agent_fabric.application.ports.runs import RunReader, RunRepository
from agent_fabric.application.runs.claimed_run import ClaimedRun
from agent_fabric.application.runs.dispatch_runs import DispatchRuns, Drive
from agent_fabric.application.runs.execute_task import ExecuteTask
from agent_fabric.application.runs.fold_log import fold_log
from agent_fabric.application.runs.limits import Limits
from agent_fabric.application.runs.resume_run import ResumeRun
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, RunHeld, RunNotFound
from agent_fabric.domain.events import Body
from agent_fabric.domain.identity.ownership import Visibility, owner_of
from agent_fabric.domain.identity.principals import Kind, Principal, known_scopes, narrow_scopes
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.runs.state import RunState, result_of
from agent_fabric.domain.runs.task import RunResult, RunStatus, Task

Commit = Callable[[], Awaitable[Sequence[RunId] | None]]
"""Makes something durable with the runs that follow from it; returns those that are new. None: it was there before."""


@dataclass(slots=True)
class StartRequest:
    """Who asks for a run, under which idempotency key, and what became of it."""

    by: Principal
    run_id: RunId | None = None
    """The id that the key stands for; None: the request has no key."""
    is_repeat: bool = False
    """Whether the same request has come before."""
    starts_left: QuotaState | None = None
    """How many runs the caller may still start; None: that is not limited, or was not counted."""
    is_attached: bool = False
    """Whether the run was started before, by the same request."""

    def nth(self, attempt: int) -> RunId | None:
        """Return the id of the run of an attempt, if the request may start several."""
        if self.run_id is None or not attempt:
            return self.run_id
        return RunId(str(uuid.uuid5(uuid.UUID(self.run_id), str(attempt))))


@dataclass(frozen=True, slots=True)
class StartRun:
    """Use case: start a run for a principal, or find the one that the same request has started before."""

    limits: Limits
    execute_task: ExecuteTask
    resume_run: ResumeRun
    dispatch: DispatchRuns
    runs: RunRepository
    reader: RunReader
    require_store: Callable[[], None]
    """Raises StoreUnavailable if what is written now would not be found again."""

    async def __call__(
        self,
        task: Task,
        request: StartRequest,
        *,
        asked_steps: int | None = None,
        attempt: int = 0,
        then: Sequence[tuple[LaneId, Body]] = (),
        copy_of: str = "",
    ) -> Drive | RunResult:
        """Start it.

        Args:
            task: What is to be done.
            request: Who asks.
            asked_steps: How many steps the request names.
            attempt: Which run it is, if the request may start several.
            then: See `ExecuteTask`.
            copy_of: See `ExecuteTask`.

        Returns:
            The run's drive; or its result, if it was started before and is not driven here.

        Raises:
            InvalidInputs: the request asks for more than the caller may have.
            TooManyRequests: the caller has started too many runs, or has too many under way.
            ServerBusy, ServerStopping, StoreUnavailable: nothing was started.
        """
        by = request.by
        if by.run:
            task = await self._within_run(task, by)
        if self.limits.hold_for(by):
            self.limits.caps.require(max_steps=asked_steps)
            task = replace(task, budget=self.limits.caps.lower(task.budget))
        run_id = request.nth(attempt)
        if run_id is not None and (attempt or request.is_repeat):
            found = await self.find(run_id)
            if found is not None:
                request.is_attached = True
                return found
        self.require_store()
        await self.admit(request)
        create = partial(self.execute_task.create, task, then=then, copy_of=copy_of, run_id=run_id)
        try:
            return await self._within_quota(by, lambda: self.dispatch(create))
        except FabricError:
            # Another server in the same folder may have been faster.
            found = None if run_id is None else await self.find(run_id)
            if found is None:
                raise
            return found

    async def admit(self, request: StartRequest) -> None:
        """Count one more start of the caller, where callers are limited.

        Raises:
            TooManyRequests: the caller has started too many runs.
        """
        if self.limits.hold_for(request.by):
            request.starts_left = await self.limits.count_start(request.by.id)

    async def resume(self, run_id: RunId, request: StartRequest) -> Drive | RunResult:
        """Resume a run; one that has settled just tells its result.

        Raises:
            TooManyRequests: the caller has started too many runs, or has too many under way.
            FabricError: it cannot be driven.
        """
        resume = partial(self.dispatch.resume, run_id, partial(self.resume_run.take, run_id, by="person"))
        if self.dispatch.find(run_id) is not None:
            return await resume()  # what is driven already is not one more
        await self.admit(request)
        return await self._within_quota(request.by, resume)

    async def committed(self, owner: str, commit: Commit, begin: Begin) -> bool:
        """Commit what came from outside, and drive the first run that follows from it; `begin` gets the others.

        `owner` is whose starts and runs are counted. Without a start left nothing is written.

        Returns:
            False: it had come before.

        Raises:
            ServerBusy, ServerStopping, TooManyRequests: nothing was written.
        """
        await self.limits.count_start(owner)
        committed = _Committed(commit, self.resume_run)
        quota = self.limits.runs
        try:
            await (self.dispatch(committed) if quota is None else quota(owner, lambda: self.dispatch(committed)))
        except _NothingToDrive:
            return committed.created is not None
        except FabricError:
            if committed.created is None:
                raise
            # It is durable, which is what the sender wants to know; the run is taken up in its turn.
            begin(committed.created)
            return True
        assert committed.created is not None
        begin(committed.created[1:])
        return True

    async def find(self, run_id: RunId) -> Drive | RunResult | None:
        """Return a run that may exist: its drive, or its result if it is not driven here; None if there is none."""
        drive = self.dispatch.find(run_id)
        if drive is not None:
            return drive
        try:
            if run_id in self.dispatch:  # the server before this one left it, and it would be taken up soon
                return await self.dispatch.resume(run_id, partial(self.resume_run.take, run_id, by="server"))
            return await self._result(run_id)
        except RunNotFound:
            return None
        except RunHeld:
            return await self._result(run_id)

    async def _result(self, run_id: RunId) -> RunResult:
        state = await self._state(run_id)
        if state.status.settled:
            return result_of(state)
        status = await self.reader.status(run_id)
        if status.settled:  # it has ended since its log was read
            return result_of(await self._state(run_id))
        waits_here = status is RunStatus.INTERRUPTED and run_id in self.dispatch
        return replace(result_of(state), status=RunStatus.RUNNING if waits_here else status)

    async def _state(self, run_id: RunId) -> RunState:
        return await fold_log(run_id, await self.runs.read(run_id))

    async def _within_quota(
        self, by: Principal, start: Callable[[], Awaitable[Drive | RunResult]]
    ) -> Drive | RunResult:
        quota = self.limits.runs if self.limits.hold_for(by) else None
        return await (start() if quota is None else quota(by.id, start))

    async def _within_run(self, task: Task, by: Principal) -> Task:
        """Return the task of a run that another run starts: it may do no more than that one.

        It is the same owner's if the caller could act as that owner anyway. Any caller can name any run, so that to
        name one must never give a right.
        """
        try:
            above = (await self._state(RunId(by.run))).task
        except RunNotFound:  # a run of another server
            return task
        assert above is not None  # a run is created together with its first event
        task = replace(task, encrypted=task.encrypted or above.encrypted)
        if by.kind is Kind.LOCAL or owner_of(by) == above.owner:
            seen = task.visibility if task.visibility is Visibility.PRIVATE else above.visibility
            task = replace(task, requested_by=above.requested_by, owner=above.owner, visibility=seen)
        if not above.user_scopes:
            return task
        scopes = narrow_scopes(known_scopes(task.user_scopes), known_scopes(above.user_scopes))
        return replace(task, user_scopes=tuple(sorted(scopes)))


class _NothingToDrive(Exception):
    """It had come before, or its run is there already."""


@dataclass(slots=True)
class _Committed:
    """Makes something durable, and takes the first of its runs."""

    commit: Commit
    resume_run: ResumeRun
    created: Sequence[RunId] | None = None

    async def __call__(self) -> ClaimedRun | RunResult:
        self.created = await self.commit()
        if not self.created:
            raise _NothingToDrive
        return await self.resume_run.take(self.created[0], by="server", new=True)
