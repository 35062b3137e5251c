"""The line before a model server: its limit, its order, and that nobody and no slot is ever lost in it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fabric.application.ports.llm import Notice
from agent_fabric.domain.runs.task import Priority
from agent_fabric.infrastructure.models.queue import Queues, ServerQueue
from agent_fabric.testing.fakes import FrozenClock

INTERACTIVE, SCHEDULED, BATCH = Priority.INTERACTIVE, Priority.SCHEDULED, Priority.BATCH
AGEING_S = 10.0


class Broken(Exception):
    """What a request dies of in these tests."""


@contextlib.asynccontextmanager
async def slot_of(queue: ServerQueue, priority: Priority, notice: Notice) -> AsyncIterator[None]:
    """Have a slot for the time of a block."""
    await queue.enter(priority, notice)
    try:
        yield
    finally:
        queue.leave()


async def settle() -> None:
    """Let everything happen that can happen without us."""
    for _ in range(10):
        await asyncio.sleep(0)


@dataclass(eq=False)
class Request:
    """Somebody in the line."""

    name: str
    priority: Priority
    task: "asyncio.Task[None]" = field(init=False)
    notices: list[str] = field(default_factory=list)
    ending: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Counter:
    """A server that looks at what happens to it, through a line."""

    def __init__(self, slots: int | None, clock: FrozenClock | None = None) -> None:
        self.clock = FrozenClock() if clock is None else clock
        self.queue = ServerQueue(slots, self.clock, ageing_s=AGEING_S)
        self.requests: list[Request] = []
        self.served: list[str] = []
        """Everybody who ever got in, in that order."""
        self.inside: list[Request] = []
        self.most_inside = 0

    def arrive(self, name: str, priority: Priority = INTERACTIVE) -> Request:
        request = Request(name, priority)
        request.task = asyncio.create_task(self._serve(request))
        self.requests.append(request)
        return request

    async def _serve(self, request: Request) -> None:
        async with slot_of(self.queue, request.priority, request.notices.append):
            self.inside.append(request)
            self.served.append(request.name)
            self.most_inside = max(self.most_inside, len(self.inside))
            try:
                await request.ending
            finally:
                self.inside.remove(request)

    async def arrived(self, *requests: tuple[str, Priority]) -> list[Request]:
        """Let several arrive one after another, and all find their place."""
        made = [self.arrive(*each) for each in requests]
        await settle()
        return made

    async def finish_one(self) -> None:
        """Let the one who was let in first end."""
        self.inside[0].ending.set_result(None)
        await settle()

    async def finish_all(self) -> None:
        while self.inside:
            await self.finish_one()
        await asyncio.gather(*(request.task for request in self.requests), return_exceptions=True)


async def test_no_more_than_the_slots_are_served_at_once_and_all_in_the_end() -> None:
    counter = Counter(2)
    await counter.arrived(*((str(number), INTERACTIVE) for number in range(7)))
    assert (counter.queue.running, counter.queue.waiting) == (2, 5)
    await counter.finish_all()
    assert counter.most_inside == 2
    assert counter.served == [str(number) for number in range(7)]
    assert (counter.queue.running, counter.queue.waiting) == (0, 0)


async def test_interactive_goes_before_scheduled_and_that_before_batch() -> None:
    counter = Counter(1)
    await counter.arrived(
        ("first", BATCH), ("b1", BATCH), ("s1", SCHEDULED), ("i1", INTERACTIVE), ("b2", BATCH), ("i2", INTERACTIVE)
    )
    await counter.finish_all()
    assert counter.served == ["first", "i1", "i2", "s1", "b1", "b2"]


async def test_who_waits_long_enough_moves_up_and_is_not_overtaken_any_more() -> None:
    counter = Counter(1)
    await counter.arrived(("first", INTERACTIVE), ("batch", BATCH))
    counter.clock.time += AGEING_S
    await counter.arrived(("late scheduled", SCHEDULED), ("soon interactive", INTERACTIVE))
    await counter.finish_one()
    assert counter.served[-1] == "soon interactive"
    counter.clock.time += AGEING_S
    await counter.arrived(("new interactive", INTERACTIVE))
    await counter.finish_all()
    assert counter.served == ["first", "soon interactive", "batch", "late scheduled", "new interactive"]


async def test_batch_is_served_in_the_end_although_interactive_requests_never_stop_coming() -> None:
    counter = Counter(1)
    await counter.arrived(("i", INTERACTIVE), ("batch", BATCH))
    for _ in range(100):
        await counter.arrived(("i", INTERACTIVE))
        counter.clock.time += 1.0
        await counter.finish_one()
    assert counter.served.index("batch") == 2 * AGEING_S
    await counter.finish_all()


async def test_who_waits_hears_how_many_are_ahead_whenever_that_changes() -> None:
    counter = Counter(1)
    first, second, third = await counter.arrived(("1", BATCH), ("2", BATCH), ("3", BATCH))
    assert (first.notices, second.notices, third.notices) == ([], ["queued behind 1"], ["queued behind 2"])
    (urgent,) = await counter.arrived(("4", INTERACTIVE))
    assert urgent.notices == ["queued behind 1"]
    assert third.notices == ["queued behind 2", "queued behind 3"]
    urgent.task.cancel()
    await settle()
    await counter.finish_one()
    assert third.notices == ["queued behind 2", "queued behind 3", "queued behind 2", "queued behind 1"]
    await counter.finish_all()


async def test_a_long_line_is_told_only_of_changes_that_matter() -> None:
    counter = Counter(1)
    *_, last = await counter.arrived(*((str(number), INTERACTIVE) for number in range(501)))
    await counter.finish_all()
    heard = [int(text.rsplit(" ", 1)[-1]) for text in last.notices]
    assert (heard[0], heard[-3:]) == (500, [3, 2, 1])
    assert len(heard) < 100


async def test_view_that_fails_costs_nobody_a_turn() -> None:
    queue = ServerQueue(1, FrozenClock())

    def broken(_: str) -> None:
        raise Broken

    async def one() -> None:
        async with slot_of(queue, INTERACTIVE, broken):
            await asyncio.sleep(0)

    async with asyncio.timeout(60):
        await asyncio.gather(*(one() for _ in range(5)))
    assert (queue.running, queue.waiting) == (0, 0)


async def test_cancelled_waiter_leaves_no_trace() -> None:
    counter = Counter(1)
    _, second, third = await counter.arrived(("1", INTERACTIVE), ("2", INTERACTIVE), ("3", INTERACTIVE))
    second.task.cancel()
    await settle()
    assert counter.queue.waiting == 1
    assert third.notices[-1] == "queued behind 1"
    await counter.finish_all()
    assert counter.served == ["1", "3"]


async def test_slot_of_somebody_cancelled_in_the_moment_of_admission_goes_to_the_next() -> None:
    queue = ServerQueue(1, FrozenClock())
    await queue.enter(INTERACTIVE, print)
    unlucky = asyncio.create_task(queue.enter(INTERACTIVE, lambda _: None))
    lucky = asyncio.create_task(queue.enter(INTERACTIVE, lambda _: None))
    await settle()
    queue.leave()
    unlucky.cancel()  # it has been let in, but has not run since
    await asyncio.wait({unlucky, lucky}, timeout=5)
    assert unlucky.cancelled()
    assert lucky.done()
    assert (queue.running, queue.waiting) == (1, 0)


async def test_failing_request_gives_its_slot_back() -> None:
    counter = Counter(1)
    first, _ = await counter.arrived(("1", INTERACTIVE), ("2", INTERACTIVE))
    first.ending.set_exception(Broken())
    await settle()
    assert counter.served == ["1", "2"]
    await counter.finish_all()
    with pytest.raises(Broken):
        await first.task


async def test_without_slots_nobody_waits() -> None:
    counter = Counter(None)
    requests = await counter.arrived(*((str(number), BATCH) for number in range(300)))
    assert (counter.queue.running, counter.queue.waiting) == (300, 0)
    assert not any(request.notices for request in requests)
    await counter.finish_all()


@pytest.mark.proves("C44")
@pytest.mark.parametrize("slots", [1, 3, None])
async def test_nobody_begins_while_the_server_is_changed_and_who_is_served_goes_on(slots: int | None) -> None:
    counter = Counter(slots)
    await counter.arrived(("before", INTERACTIVE))
    counter.queue.pause()
    (late,) = await counter.arrived(("after", INTERACTIVE))
    assert late.notices == ["queued behind 1"]
    await counter.finish_one()
    assert late.notices == ["queued behind 1", "waiting for the model server"]
    assert (counter.served, counter.queue.running) == (["before"], 0)
    counter.queue.resume()
    await settle()
    assert counter.served == ["before", "after"]
    await counter.finish_all()


async def test_two_changes_at_once_both_count() -> None:
    queue = ServerQueue(1, FrozenClock())
    queue.pause()
    queue.pause()
    queue.resume()
    waiting = asyncio.create_task(queue.enter(BATCH, lambda _: None))
    await settle()
    assert queue.waiting == 1
    queue.resume()
    async with asyncio.timeout(60):
        await waiting
    with pytest.raises(ValueError, match="not paused"):
        queue.resume()


def test_every_server_has_one_line_however_it_is_addressed() -> None:
    queues = Queues(FrozenClock())
    ollama = queues.for_server("http://localhost:11434/v1", 1)
    assert queues.for_server("http://127.0.0.1:11434/", 1) is ollama
    assert queues.for_server("http://[::1]:11434/api", 1) is ollama
    assert queues.for_server("http://localhost:8080/v1", 1) is not ollama
    assert queues.for_server("https://models.example/v1", 1) is queues.for_server("https://MODELS.example:443", 1)
    assert queues.for_server("embedded", 1) is queues.for_server("embedded", 1)
    assert queues.for_server("http://[broken", 1) is queues.for_server("http://[broken", 1)


async def test_limit_of_a_server_holds_for_those_who_do_not_know_it() -> None:
    queues = Queues(FrozenClock())
    unlimited = queues.for_server("http://localhost:1/v1", None)
    await unlimited.enter(INTERACTIVE, print)
    limited = queues.for_server("http://localhost:1/v1", 1)
    waiting = asyncio.create_task(queues.for_server("http://localhost:1/v1", None).enter(INTERACTIVE, lambda _: None))
    await settle()
    assert (unlimited is limited, limited.running, limited.waiting) == (True, 1, 1)
    limited.leave()
    async with asyncio.timeout(60):
        await waiting


async def test_server_that_gets_more_slots_serves_more_at_once() -> None:
    counter = Counter(1)
    await counter.arrived(*((str(number), INTERACTIVE) for number in range(4)))
    counter.queue.resize(3)
    await settle()
    assert (counter.queue.running, counter.queue.waiting) == (3, 1)
    counter.queue.resize(1)
    await counter.finish_one()
    assert (counter.queue.running, counter.queue.waiting) == (2, 1)
    await counter.finish_all()
    assert counter.served == ["0", "1", "2", "3"]


# ── anything may happen ───────────────────────────────────────────────────────────────────────────────────────────────

Step = tuple[str, int]
"""What happens, and to whom."""
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["arrive", "arrive", "arrive", "finish", "fail", "cancel", "time", "pause", "resume", "settle"]
        ),
        st.integers(0, 30),
    ),
    max_size=60,
)
PRIORITIES = list(Priority)


def do(counter: Counter, what: str, number: int) -> None:
    """Make one thing happen, without letting anybody react to it."""
    match what:
        case "arrive":
            counter.arrive(str(len(counter.requests)), PRIORITIES[number % 3])
        case "finish" | "fail":
            inside = [request for request in counter.inside if not request.ending.done()]
            if inside:
                ending = inside[number % len(inside)].ending
                ending.set_result(None) if what == "finish" else ending.set_exception(Broken())
        case "cancel":
            if counter.requests:
                counter.requests[number % len(counter.requests)].task.cancel()
        case "time":
            counter.clock.time += number
        case "pause":
            counter.queue.pause()
        case "resume":
            with contextlib.suppress(ValueError):
                counter.queue.resume()
        case _:
            pass


@settings(deadline=None)
@given(slots=st.integers(1, 4), steps=STEPS, hurried=st.booleans())
def test_whatever_happens_the_limit_holds_and_neither_slots_nor_requests_are_lost(
    slots: int, steps: list[Step], hurried: bool
) -> None:
    async def story() -> None:
        counter = Counter(slots)
        for what, number in steps:
            do(counter, what, number)
            if what == "settle" or not hurried:
                await settle()
                alive = [request for request in counter.requests if not request.task.done()]
                assert counter.queue.running == len(counter.inside)
                assert counter.queue.waiting == len(alive) - len(counter.inside)
        for _ in steps:
            with contextlib.suppress(ValueError):
                counter.queue.resume()
        await settle()
        alive = [request for request in counter.requests if not request.task.done()]
        assert len(counter.inside) == min(slots, len(alive)), "no slot stays empty while somebody waits"
        async with asyncio.timeout(60):
            for request in counter.requests:
                if not request.ending.done():
                    request.ending.set_result(None)
            await asyncio.gather(*(request.task for request in counter.requests), return_exceptions=True)
        assert counter.most_inside <= slots
        assert (counter.queue.running, counter.queue.waiting) == (0, 0)
        assert len(set(counter.served)) == len(counter.served)
        kept = {request.name for request in counter.requests if not request.task.cancelled()}
        assert kept <= set(counter.served)

    asyncio.run(story())


@settings(deadline=None)
@given(slots=st.integers(1, 3), steps=STEPS)
def test_whatever_happens_the_next_one_is_always_the_most_entitled(slots: int, steps: list[Step]) -> None:
    def standing(request: Request, arrived: float, now: float) -> tuple[int, int]:
        aged = int((now - arrived) // AGEING_S)
        return max(PRIORITIES.index(request.priority) - aged, 0), int(request.name)

    async def story() -> None:
        counter = Counter(slots)
        arrivals: dict[Request, float] = {}
        for what, number in steps:
            waiting = [request for request in arrivals if not request.task.done() and request not in counter.inside]
            served = len(counter.served)
            do(counter, what, number)
            arrivals.update({request: counter.clock.time for request in counter.requests if request not in arrivals})
            await settle()
            line = sorted(
                (request for request in waiting if not request.task.cancelled()),
                key=lambda request: standing(request, arrivals[request], counter.clock.time),
            )
            admitted = [name for name in counter.served[served:] if name in {request.name for request in line}]
            assert admitted == [request.name for request in line[: len(admitted)]]
        for request in counter.requests:
            request.task.cancel()
        await asyncio.gather(*(request.task for request in counter.requests), return_exceptions=True)

    asyncio.run(story())
