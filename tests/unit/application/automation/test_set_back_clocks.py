"""A clock that is set back: intervals go on, each instant is fired once, and `why` says so."""

from dataclasses import dataclass

import pytest

from agent_fabric.application.automation.rearm_intervals import SET_BACK_EVENT, RearmIntervals
from agent_fabric.domain.automation.timing import shown_instant
from agent_fabric.infrastructure.automation.cronsim_walls import read_cron
from agent_fabric.testing.fakes import FrozenClock
from unit.application.automation.simulated_servers import START, World

pytestmark = pytest.mark.proves("WB-13")
HOUR_S = 3_600.0


@dataclass(slots=True)
class SettableClock(FrozenClock):
    """Clock that can be set, beside one that only goes forward."""

    passed: float = 50.0

    def monotonic(self) -> float:
        return self.passed

    def let_pass(self, seconds: float) -> None:
        self.time += seconds
        self.passed += seconds


def world_with(alerts: list[str]) -> tuple[World, SettableClock, RearmIntervals]:
    clock = SettableClock(START)
    world = World(clock=clock)
    return world, clock, RearmIntervals(world.store, read_cron, clock, lambda kind, _: alerts.append(kind))


async def live(world: World, clock: SettableClock, rearm: RearmIntervals, seconds: int) -> int:
    """Live through some seconds; return how many runs were started."""
    server, before = world.server(), len(world.created)
    for _ in range(seconds):
        clock.let_pass(1.0)
        await rearm()
        await server.tick()
    return len(world.created) - before


@pytest.mark.parametrize("back_s", [HOUR_S, HOUR_S + 3.7, 6.0, 86_400.0])
async def test_an_interval_goes_on_after_the_clock_was_set_back_and_nothing_is_fired_twice(back_s: float) -> None:
    alerts: list[str] = []
    world, clock, rearm = world_with(alerts)
    await world.add(every=10)
    assert await live(world, clock, rearm, 100) == 10
    clock.time -= back_s
    assert await live(world, clock, rearm, 100) in {9, 10}
    assert len(world.created) == len(set(world.created))
    assert alerts == [SET_BACK_EVENT]


async def test_why_says_that_the_clock_was_set_back() -> None:
    world, clock, rearm = world_with([])
    await world.add(every=10)
    await live(world, clock, rearm, 100)
    clock.time -= HOUR_S
    set_at = clock.time + 1.0
    await live(world, clock, rearm, 30)
    (newest, *_) = await world.store.history.firings("job", limit=100)
    last = max((each for each in await world.store.history.firings("job", limit=100)), key=lambda each: each.fired_at)
    assert newest.due_at > clock.time
    told = await world.explain("job", str(clock.time))
    assert (
        f"The clock was set back by 3600 s at {shown_instant(set_at, 'UTC')}, and the interval counts from then."
        in told.text
    )
    assert last.fired_at >= set_at


async def test_small_corrections_and_clocks_that_go_forward_change_nothing() -> None:
    alerts: list[str] = []
    world, clock, rearm = world_with(alerts)
    made = await world.add(every=60)
    for step_s in (-4.0, 4.9, HOUR_S, -3.0):
        await live(world, clock, rearm, 5)
        clock.time += step_s
    await live(world, clock, rearm, 5)
    found = await world.store.schedules.find("job")
    assert (found.rule, found.revision, alerts) == (made.rule, made.revision, [])


async def test_times_on_the_wall_and_what_begins_later_stay_as_they_are() -> None:
    world, clock, rearm = world_with([])
    cron = await world.add(name="cron", cron_expression="0 * * * *")
    later = await world.add(name="later", every=10, starts_at=START + 500)
    paused = await world.add(name="paused", every=10, is_active=False)
    await live(world, clock, rearm, 1)
    clock.time -= HOUR_S
    await live(world, clock, rearm, 1)
    for made in (cron, later, paused):
        assert await world.store.schedules.find(made.name) == made


async def test_a_server_that_starts_with_an_older_clock_than_was_seen_before_lets_intervals_count_from_now() -> None:
    alerts: list[str] = []
    world, clock, rearm = world_with(alerts)
    await world.add(every=10)
    await world.store.heartbeats.beat("before", "one", START, clock.now())
    await live(world, clock, rearm, 20)
    await world.store.heartbeats.beat("before", "one", START, clock.now())
    clock.time -= HOUR_S
    restarted = RearmIntervals(world.store, read_cron, clock, lambda kind, _: alerts.append(kind))
    assert await live(world, clock, restarted, 20) in {1, 2}
    assert alerts == [SET_BACK_EVENT]
