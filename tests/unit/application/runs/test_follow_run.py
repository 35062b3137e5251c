"""Who waits for runs that other processes drive: one look for all of them."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from agent_fabric.application.ports.runs import Progress
from agent_fabric.application.ports.wake_ups import log_topic
from agent_fabric.application.runs.follow_run import FollowRun
from agent_fabric.domain.errors import RunNotFound, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.cluster.wake_ups.in_process import InProcessWakeUps
from agent_fabric.testing.fakes import FrozenClock
from contract.run_repository_contract import CREATED, completed, log

RUNS = [RunId(f"run-{number}") for number in range(50)]
GOING_ON = dict.fromkeys(RUNS, Progress(RunStatus.RUNNING, 0))
DONE = dict.fromkeys(RUNS, Progress(RunStatus.COMPLETED, 1))


class Runs:
    """As much of a repository and a reader as is used."""

    def __init__(self, *looks: Mapping[RunId, Progress] | Exception) -> None:
        self.looks = list(looks)
        self.asked: list[int] = []

    async def progress(self, run_ids: Collection[RunId]) -> Mapping[RunId, Progress]:
        self.asked.append(len(run_ids))
        look = self.looks.pop(0)
        if isinstance(look, Exception):
            raise look
        return {run_id: look[run_id] for run_id in run_ids if run_id in look}

    async def read(self, run_id: RunId) -> Any:
        return [*CREATED, *log(completed(run_id), first=1)]


def following(runs: Any, *, pause_s: float = 0.0, patience_s: float = 5.0) -> FollowRun:
    async def pause(_: float) -> None:
        await asyncio.sleep(pause_s)

    return FollowRun(runs, runs, FrozenClock(tick=1.0), patience_s, InProcessWakeUps(), pause)


async def test_one_look_serves_all_who_wait() -> None:
    runs = Runs(GOING_ON, StoreUnavailable("gone"), DONE)
    results = await asyncio.gather(*map(following(runs), RUNS))
    assert {result.status for result in results} == {RunStatus.COMPLETED}
    assert runs.asked == [50, 50, 50]


async def test_a_hint_is_not_waited_for_until_the_next_look() -> None:
    runs = Runs(DONE)
    follow = following(runs, pause_s=600.0)
    waiting = asyncio.create_task(follow(RUNS[0]))
    await asyncio.sleep(0)
    follow.wake_ups.poke(log_topic(RUNS[0]), {"seq": 1})
    async with asyncio.timeout(60):
        assert (await waiting).status is RunStatus.COMPLETED


async def test_one_that_nobody_drives_is_given_some_time() -> None:
    left = {RUNS[0]: Progress(RunStatus.INTERRUPTED, 0)}
    runs = Runs(left, GOING_ON, *[left] * 10)
    assert (await following(runs)(RUNS[0])).status is RunStatus.INTERRUPTED
    assert len(runs.asked) == 2 + 5


async def test_one_that_does_not_exist_is_an_error_of_who_asks_for_it() -> None:
    runs = Runs(DONE)
    follow = following(runs)
    nobody, somebody = await asyncio.gather(follow(RunId("nobody")), follow(RUNS[0]), return_exceptions=True)
    assert isinstance(nobody, RunNotFound)
    assert not isinstance(somebody, BaseException)
    broken = following(Runs(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        await broken(RUNS[0])
