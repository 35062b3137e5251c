"""A server goes on with runs whose questions were answered, and does not insist where that is impossible."""

import asyncio
from collections.abc import Iterable, Sequence

from agent_fabric.application.runs.take_up_runs import LOOK_EVERY_S, TRY_AGAIN_AFTER_S, WakeAnsweredRuns
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.testing.fakes import FrozenClock

GOOD, BROKEN = RunId("good"), RunId("broken")


class World:
    """A book in which the same runs are always answered, and a server that can take up only one of them."""

    def __init__(self) -> None:
        self.clock = FrozenClock()
        self.tried: list[tuple[float, RunId]] = []
        self.looks = 0

    async def due(self) -> Sequence[RunId]:
        self.looks += 1
        if self.looks == 1:
            raise StoreUnavailable("the disk has gone")
        return [GOOD, BROKEN]

    def expect(self, run_ids: Iterable[RunId]) -> None:
        pass

    def __contains__(self, run_id: object) -> bool:
        return False

    async def take_up(self, run_ids: Iterable[RunId]) -> Sequence[RunId]:
        tried = list(run_ids)
        self.tried += [(self.clock.time, run_id) for run_id in tried]
        return [run_id for run_id in tried if run_id == BROKEN]

    async def watch(self, looks: int) -> None:
        wake = WakeAnsweredRuns(self, self, self.take_up, self.clock)  # type: ignore[arg-type]  # as much as is used
        watching = asyncio.create_task(wake())
        while self.looks < looks:
            await asyncio.sleep(0)
        watching.cancel()


async def test_a_run_that_cannot_be_taken_up_is_tried_again_but_not_at_every_look() -> None:
    world = World()
    looks = int(2 * TRY_AGAIN_AFTER_S / LOOK_EVERY_S)
    await world.watch(looks)
    good, broken = ([at for at, run_id in world.tried if run_id == wanted] for wanted in (GOOD, BROKEN))
    assert len(good) >= looks - 2
    assert len(broken) == 2
    assert broken[1] - broken[0] >= TRY_AGAIN_AFTER_S
