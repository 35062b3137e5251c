"""What a drill says about a cluster, with everything around it played."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from agent_fabric.application.cluster.drill_takeover import DrillTakeover
from agent_fabric.application.ports.cluster import ClusterStatus, Member
from agent_fabric.application.ports.runs import Progress
from agent_fabric.application.runs.cancel_run import CancelRun
from agent_fabric.domain.errors import WorkerNotFound
from agent_fabric.domain.events import Body, Event, RunResumed
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.domain.workflows.events import StepFinished, StepStarted, StepStatus
from agent_fabric.testing.fakes import FrozenClock, MemoryRuns

RUN = RunId("run-1")
HOME = "host:here"


def member(
    name: str, *, role: str = "worker", state: str = "active", home: str = HOME, pools: Sequence[str] = ("default",)
) -> Member:
    return Member(
        worker_id=name,
        name=name,
        role=role,
        state=state,
        home=home,
        slots=1,
        pools=pools,
        version="1",
        started_at=0.0,
        lease_until=9.0,
        running=0,
    )


def started(step: str) -> StepStarted:
    return StepStarted(step_id=step, action="wait", attempt=1, inputs={})


def finished(step: str) -> StepFinished:
    return StepFinished(step_id=step, attempt=1, status=StepStatus.SUCCESS)


@dataclass
class Played:
    """Cluster, DrillWorker and RunReader: a run that another worker takes up so long after the kill, or never."""

    clock: FrozenClock
    members: Sequence[Member]
    taken_after_s: float | None = 3.0
    afterwards: Sequence[Body] = (finished("killed"), started("after"), finished("after"))
    killed_at: float | None = None
    worker_id: str = "victim"
    pid: int = 4711
    run_id: RunId = RUN
    said: list[str] = field(default_factory=list)

    async def status_of_cluster(self) -> ClusterStatus:
        return ClusterStatus(now=0.0, home=HOME, members=self.members, queued=0, waiting=0)

    async def kill(self) -> None:
        self.killed_at = self.clock.time

    @property
    def taken(self) -> bool:
        return (
            self.killed_at is not None
            and self.taken_after_s is not None
            and self.clock.time >= self.killed_at + self.taken_after_s
        )

    async def page(self, run_id: RunId, *, after: int, limit: int, whole: bool = True) -> Sequence[Event]:
        bodies: list[Body] = [started("before"), finished("before"), started("killed")]
        if self.taken:
            bodies += [RunResumed(by="server", driver="heir"), *self.afterwards]
        return [Event(seq, 0.0, None, "", body) for seq, body in enumerate(bodies)]

    async def status(self, run_id: RunId) -> RunStatus:
        return RunStatus.COMPLETED if self.taken else RunStatus.CANCELLED

    async def progress(self, run_ids: Collection[RunId]) -> Mapping[RunId, Progress]:
        raise NotImplementedError

    async def newest(self, run_id: RunId) -> Event:
        return (await self.page(run_id, after=-1, limit=1))[-1]


class _Cluster:
    """Cluster of a played drill."""

    def __init__(self, played: Played) -> None:
        self._played = played
        self.worker_id, self.drains = "me", False

    async def status(self) -> ClusterStatus:
        return await self._played.status_of_cluster()

    async def drain(self, prefix: str) -> Member:
        raise AssertionError(prefix)

    async def refuse(self, run_id: RunId, reason: str) -> None:
        raise AssertionError(run_id, reason)


def drill(played: Played) -> DrillTakeover:
    @asynccontextmanager
    async def start() -> AsyncIterator[Played]:
        yield played

    return DrillTakeover(
        cluster=_Cluster(played),
        reader=played,
        cancel_run=CancelRun(MemoryRuns(), played.clock),
        clock=played.clock,
        start_worker=start,
        lease_ttl_s=2.0,
        sweep_s=1.0,
        pool="default",
        tell=played.said.append,
        pause=played.clock.sleep,
    )


async def test_it_tells_how_long_the_takeover_took_and_that_nothing_was_repeated() -> None:
    played = Played(FrozenClock(), [member("other")])
    report = await drill(played)()
    assert report.passed
    assert report.takeover_s == pytest.approx(3.0, abs=0.2)
    assert (report.taken_over_by, report.finished_before, report.finished, report.repeated) == ("heir", 1, 3, 0)
    assert report.expected_s == 5.0
    assert any("its lease lapses in" in each for each in played.said)


async def test_a_step_that_was_done_and_begins_again_fails_the_drill() -> None:
    played = Played(FrozenClock(), [member("other")], afterwards=(started("before"), finished("before")))
    report = await drill(played)()
    assert (report.repeated, report.passed) == (1, False)


@pytest.mark.parametrize(
    "members",
    [
        [],
        [member("door", role="door"), member("command", role="process")],
        [member("gone", state="gone"), member("drained", state="draining")],
        [member("elsewhere", home="host:there")],
        [member("special", pools=("gpu",))],
    ],
    ids=["nobody", "no taker", "no longer there", "other workspaces", "other pools"],
)
async def test_without_anybody_who_could_take_over_nothing_is_started(members: Sequence[Member]) -> None:
    played = Played(FrozenClock(), members)
    with pytest.raises(WorkerNotFound, match="No worker can take over runs of host:here") as problem:
        await drill(played)()
    assert "fabric worker" in problem.value.hint
    assert played.killed_at is None
