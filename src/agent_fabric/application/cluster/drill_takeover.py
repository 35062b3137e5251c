"""Shows that the runs of a worker that dies go on elsewhere."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Final, NamedTuple

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.cluster import Cluster, DrillWorker, Member
from agent_fabric.application.ports.runs import RunReader
from agent_fabric.application.runs.cancel_run import CancelRun
from agent_fabric.domain.cluster.roles import Role
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, WorkerNotFound
from agent_fabric.domain.events import Event, RunResumed
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.domain.workflows.events import StepFinished, StepStarted

LOOK_S: Final = 0.1
MAX_EVENTS: Final = 1_000
"""More than the run of a drill ever has."""
START_TIMEOUT_S: Final = 60.0
"""How long the first step of the drill's run may take."""
SPARE_S: Final = 2.0
"""What a takeover may take beyond the lease and a sweep, on a machine with other work to do."""
PATIENCE_S: Final = 30.0
"""How much longer than that is waited before the drill has failed."""
TAKERS: Final = frozenset({Role.SERVER, Role.WORKER})


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillReport:
    """What came of a drill."""

    run_id: RunId
    worker_id: str
    """The worker that was killed."""
    lease_ttl_s: float
    expected_s: float
    """How long a takeover should take at most."""
    takeover_s: float | None
    """From the kill to the first event of the next driver; None: no process took the run over."""
    taken_over_by: str
    status: RunStatus
    finished_before: int
    """Steps that were done when the worker was killed."""
    finished: int
    repeated: int
    """Steps that began again although they were done."""

    @property
    def passed(self) -> bool:
        """Whether another process went on, came to the end, and repeated nothing."""
        return self.takeover_s is not None and self.status is RunStatus.COMPLETED and self.repeated == 0


class _Steps(NamedTuple):
    finished: int
    repeated: int


@dataclass(frozen=True, slots=True)
class DrillTakeover:
    """Use case: start a worker with a run of its own, kill it, and watch who goes on with the run.

    Nothing else is touched: the worker belongs to the drill and has no room for other runs, and the run only waits.
    """

    cluster: Cluster
    reader: RunReader
    cancel_run: CancelRun
    clock: Clock
    start_worker: Callable[[], AbstractAsyncContextManager[DrillWorker]]
    lease_ttl_s: float
    sweep_s: float
    pool: str
    """The pool of the drill's run."""
    tell: Callable[[str], None]
    """Learns what happens, in sentences."""
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def __call__(self) -> DrillReport:
        """Return how it went.

        Raises:
            WorkerNotFound: no other process could take over.
            FabricError: the drill's worker does not start, or its run does not begin.
        """
        others = await self._require_others()
        self.tell(f"{len(others)} can take over: {', '.join(each.name for each in others)}")
        async with self.start_worker() as worker:
            self.tell(f"worker {worker.worker_id[:8]} (process {worker.pid}) drives run {worker.run_id}")
            before = await self._until_begun(worker.run_id)
            await worker.kill()
            killed_at = self.clock.monotonic()
            self.tell(f"killed it (SIGKILL) after {before} of its steps; its lease lasts {self.lease_ttl_s:g} s")
            resumed = await self._until_resumed(worker.run_id, killed_at)
            took = None if resumed is None else self.clock.monotonic() - killed_at
            if took is None:
                self.tell("nobody has taken the run over; it is cancelled")
                await self.cancel_run(worker.run_id, by="drill", reason="nobody has taken it over")
            else:
                assert resumed is not None
                self.tell(f"{resumed.driver} went on after {took:.1f} s")
            status = await self._until_settled(worker.run_id)
            steps = _steps(await self._events(worker.run_id))
            return DrillReport(
                run_id=worker.run_id,
                worker_id=worker.worker_id,
                lease_ttl_s=self.lease_ttl_s,
                expected_s=self._expected_s,
                takeover_s=took,
                taken_over_by="" if resumed is None else resumed.driver,
                status=status,
                finished_before=before,
                finished=steps.finished,
                repeated=steps.repeated,
            )

    @property
    def _expected_s(self) -> float:
        return self.lease_ttl_s + self.sweep_s + SPARE_S

    async def _require_others(self) -> Sequence[Member]:
        found = await self.cluster.status()
        living = [each for each in found.members if each.state == "active" and each.role in TAKERS]
        others = [each for each in living if each.home == found.home and self.pool in each.pools]
        if not others:
            where = ", ".join(sorted({f"{each.home} (pool {', '.join(each.pools)})" for each in living}))
            seen = f"; those that live have workspaces of {where}" if where else ""
            raise WorkerNotFound(
                f"No worker can take over runs of {found.home} and pool {self.pool!r}{seen}",
                hint="Start one here: fabric worker. Machines that share a disk have the same `cluster.home`.",
            )
        return others

    async def _until_begun(self, run_id: RunId) -> int:
        """Wait until a step is done, and return how many are."""
        deadline = self.clock.monotonic() + START_TIMEOUT_S
        while not (done := _steps(await self._events(run_id)).finished):
            if self.clock.monotonic() > deadline:
                raise FabricError(
                    f"The drill's worker did not begin with run {run_id}", hint=f"Look with: fabric logs show {run_id}"
                )
            await self.pause(LOOK_S)
        return done

    async def _until_resumed(self, run_id: RunId, killed_at: float) -> RunResumed | None:
        deadline, told = killed_at + self._expected_s + PATIENCE_S, 0
        while self.clock.monotonic() < deadline:
            for event in await self._events(run_id):
                if isinstance(event.body, RunResumed):
                    return event.body
            passed = int(self.clock.monotonic() - killed_at)
            if passed > told:
                told = passed
                self.tell(f"{passed} s: {self._lease(passed)}")
            await self.pause(LOOK_S)
        return None

    def _lease(self, passed: int) -> str:
        left = self.lease_ttl_s - passed
        return f"its lease lapses in {left:.0f} s or less" if left > 0 else "its lease has lapsed"

    async def _until_settled(self, run_id: RunId) -> RunStatus:
        deadline = self.clock.monotonic() + PATIENCE_S
        while not (status := await self.reader.status(run_id)).settled and self.clock.monotonic() < deadline:
            await self.pause(LOOK_S)
        return status

    async def _events(self, run_id: RunId) -> Sequence[Event]:
        return await self.reader.page(run_id, after=-1, limit=MAX_EVENTS)


def _steps(events: Sequence[Event]) -> _Steps:
    finished: set[str] = set()
    repeated = 0
    for event in events:
        match event.body:
            case StepStarted(step_id=step) if step in finished:
                repeated += 1
            case StepFinished(step_id=step):
                finished.add(step)
            case _:
                pass
    return _Steps(len(finished), repeated)
