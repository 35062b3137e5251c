"""Working through trials: bounded, each once, stopped by a cancel, left resumable by everything else."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from agent_fabric.application.evals.check_trial import UntouchedChecks
from agent_fabric.application.evals.run_eval import RunEval
from agent_fabric.application.evals.run_trial import RunTrial
from agent_fabric.domain.errors import EvalHeld, StoreFull
from agent_fabric.domain.evals.trials import Grade, Trial, TrialOutcome, never_run, trial_run_id
from agent_fabric.domain.runs.task import RunStatus
from contract.evals_contract import ONE, started
from memory_storage import MemoryStorage

Before = Callable[[int], Awaitable[None]]


async def nothing(_: int) -> None:
    await asyncio.sleep(0)


@dataclass
class TriedTrials:
    """Stands for RunTrial: everything is right, and what was tried is remembered."""

    before: Before = nothing
    tried: list[tuple[Trial, int]] = field(default_factory=list)
    at_once: int = 0
    most: int = 0
    check: Any = None

    async def __call__(
        self, evaluation: Any, trial: Trial, *, retry: int = 0, untouched: UntouchedChecks
    ) -> TrialOutcome:
        assert untouched is not None
        self.tried.append((trial, retry))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await self.before(len(self.tried))
        finally:
            self.at_once -= 1
        outcome = never_run(trial, trial_run_id(evaluation.eval_id, trial, retry), "", retry=retry)
        return replace(outcome, grade=Grade.RIGHT)


@dataclass
class World:
    """The use case on stand-ins."""

    trying: TriedTrials
    storage: MemoryStorage = field(default_factory=MemoryStorage)

    def __post_init__(self) -> None:
        self.evals, self.trials, self.locks = self.storage.evals, self.storage.trials, self.storage.agent_locks

    def use_case(self) -> RunEval:
        return RunEval(self.evals, self.trials, self.locks, cast("RunTrial", self.trying))


async def world(before: Before = nothing) -> World:
    made = World(TriedTrials(before))
    await made.evals.create(started())
    return made


async def test_everything_is_tried_once_and_never_more_at_once_than_wanted() -> None:
    third = asyncio.Event()

    async def wait_for_the_third(nth: int) -> None:
        if nth >= 3:
            third.set()
        await asyncio.wait_for(third.wait(), timeout=10)

    here = await world(wait_for_the_third)
    evaluation = replace(started(), definition=replace(started().definition, at_once=3))
    seen: list[TrialOutcome] = []
    assert await here.use_case()(evaluation, on_outcome=seen.append) is RunStatus.COMPLETED
    assert (len(seen), len({trial for trial, _ in here.trying.tried}), here.trying.most) == (8, 8, 3)
    assert await here.use_case()(evaluation) is RunStatus.COMPLETED
    assert len(here.trying.tried) == 8
    assert not await here.locks.is_held(f"eval:{ONE}")


async def test_a_second_process_is_refused_and_the_lock_stays_with_the_first() -> None:
    here = await world()
    await here.locks.acquire(f"eval:{ONE}")
    with pytest.raises(EvalHeld):
        await here.use_case()(started())
    assert await here.locks.is_held(f"eval:{ONE}")
    assert here.trying.tried == []


async def test_a_full_disk_ends_it_and_it_goes_on_where_it_was() -> None:
    async def full(number: int) -> None:
        if number == 3:
            raise StoreFull("no room")

    here = await world(full)
    with pytest.raises(StoreFull):
        await here.use_case()(started())
    assert len(await here.trials.read(ONE)) == 2
    assert await here.use_case()(started()) is RunStatus.COMPLETED
    assert len(await here.trials.read(ONE)) == 8


async def test_being_stopped_leaves_it_interrupted() -> None:
    async def stuck(number: int) -> None:
        if number == 2:
            await asyncio.Event().wait()

    here = await world(stuck)
    work = asyncio.ensure_future(here.use_case()(started()))
    while len(here.trying.tried) < 2:
        await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert await here.evals.status(ONE) is RunStatus.INTERRUPTED
    assert not await here.locks.is_held(f"eval:{ONE}")


async def test_a_cancel_ends_it_and_the_trial_under_way_has_no_outcome() -> None:
    here: World

    async def cancelling(number: int) -> None:
        if number == 3:
            await here.evals.mark(ONE, RunStatus.CANCELLED)

    here = await world(cancelling)
    assert await here.use_case()(started()) is RunStatus.CANCELLED
    assert len(await here.trials.read(ONE)) == 2
    assert len(here.trying.tried) == 3


async def test_what_is_tried_again_has_another_run() -> None:
    here = await world()
    await here.use_case()(started())
    first = (await here.trials.read(ONE))[0].trial
    failed = "UPDATE eval_trials SET grade = ? WHERE case_id = ? AND model = ? AND pack = ? AND attempt = ?"
    values = (Grade.FAILED.value, first.case_id, *first.arm, first.attempt)
    here.storage.database.write_now(lambda connection: connection.execute(failed, values))
    assert await here.trials.retry_failed(ONE) == 1
    await here.use_case()(started())
    assert here.trying.tried[8:] == [(first, 1)]
