"""One look wakes all who have something to do."""

import asyncio
from collections.abc import Collection
from contextlib import suppress

from agent_fabric.application.cluster.watch_pending_work import WatchPendingWork
from agent_fabric.application.ports.pending_work import ANSWERS, OUTBOX, RUNS
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.testing.fakes import FrozenClock


class Looks:
    """PendingWork that counts, and says what it is told to say."""

    def __init__(self, *answers: Collection[str] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[set[str]] = []

    async def __call__(self, kinds: Collection[str]) -> Collection[str]:
        self.asked.append(set(kinds))
        answer = self.answers.pop(0) if self.answers else ()
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_one_look_wakes_those_who_have_something_to_do() -> None:
    looks, woken = Looks([RUNS], [], [RUNS, OUTBOX]), list[str]()
    watch = WatchPendingWork(looks, FrozenClock(), 1.0)
    for kind in (RUNS, ANSWERS, OUTBOX):
        watch.listen(kind, lambda kind=kind: woken.append(kind))  # type: ignore[misc]
    for _ in range(3):
        await watch.look()
    assert (looks.asked, woken) == ([{RUNS, ANSWERS, OUTBOX}] * 3, [RUNS, RUNS, OUTBOX])


async def test_a_store_that_is_gone_ends_no_watch() -> None:
    clock, woken = FrozenClock(), asyncio.Event()
    looks = Looks(StoreUnavailable("gone"), RuntimeError("a bug"), [RUNS])
    watch = WatchPendingWork(looks, clock, 1.0)
    watch.listen(RUNS, woken.set)
    watching = asyncio.create_task(watch())
    async with asyncio.timeout(60):
        await woken.wait()
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    assert clock.time >= 1_000_003.0
