"""Years of all zones, with servers that crash, are away, or have wrong clocks: fired is what brute force says."""

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import pytest

from agent_fabric.application.automation.fire_schedules import FireSchedules
from agent_fabric.application.ports.automation import Turn
from agent_fabric.domain.automation.firing import run_of_firing
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.testing.fakes import FrozenClock
from effort import SOAK, effort, report
from unit.application.automation.simulated_servers import World
from unit.domain.automation.test_timing import brute_force, transitions
from unit.domain.automation.zone_transitions import DAY_S

EXPRESSIONS = ("*/15 2 * * *", "30 2 * * *", "0 * * * *", "5,35 0-4 * * *", "15 */3 * * *", "0 9 1 * 1")
YEARS = (2026, 2027) if SOAK else (2026,)


class Killed(Exception):
    """The process is gone."""


class MortalQueue:
    """FiringQueue of a process that may be killed before or after what it writes is durable."""

    def __init__(self, inner: Any, chance: random.Random) -> None:
        self.inner, self.chance = inner, chance

    async def commit(self, turns: Sequence[Turn]) -> Sequence[bool]:
        dies = self.chance.random()
        if dies < 0.05:
            raise Killed
        done: Sequence[bool] = await self.inner.commit(turns)
        if dies > 0.95:
            raise Killed
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def clocks(year: int) -> Iterator[str]:
    """Return each zone whose clock goes differently in a year than those before it."""
    seen: set[tuple[Any, ...]] = set()
    start = datetime(year, 1, 1, tzinfo=UTC)
    zones = sorted(available_timezones()) if SOAK else ["Australia/Lord_Howe", "Africa/Casablanca", "Europe/Berlin"]
    for zone in zones:
        offset = start.astimezone(ZoneInfo(zone)).utcoffset()
        assert offset is not None
        seconds = offset.total_seconds()
        clock = (seconds, transitions(zone, year, year))
        if clock not in seen and seconds % 60 == 0:
            seen.add(clock)
            yield zone


async def live(zone: str, expression: str, start: float, days: int, seed: str) -> tuple[World, set[float], int]:
    """Live through a time with two servers; return what has to have been fired, and how many of them were killed."""
    chance = random.Random(seed)
    oracle = brute_force(expression, ZoneInfo(zone), int(start), int(start) + (days + 4) * DAY_S)
    world = World(clock=FrozenClock(start))
    await world.add(cron_expression=expression, timezone=zone, max_late_s=30 * DAY_S, pause_after_failures=0)
    world.replace_queue(MortalQueue(world.store.queue, chance))
    own = [FrozenClock(start), FrozenClock(start)]
    servers: list[FireSchedules | None] = [world.server(f"server {nth}", clock) for nth, clock in enumerate(own)]
    expected, decided, kills, ended = set[float](), start, 0, 0
    while world.clock.time < start + (days - 1) * DAY_S:
        away = chance.random() < 0.05
        world.pass_time(chance.uniform(0, 3 * DAY_S) if away else chance.uniform(1, 2 * 3_600))
        for nth, clock in enumerate(own):
            for run_id in islice(reversed(world.runs.logs), len(world.runs.logs) - ended):
                world.store.end(run_id, RunStatus.COMPLETED)  # also those whose server died before it could begin them
            ended = len(world.runs.logs)
            jump = chance.random()
            clock.time = world.clock.time + (3_600 if jump > 0.95 else -3_600 if jump < 0.1 else 0)
            server = servers[nth]
            if server is None or chance.random() < 0.3:
                servers[nth] = server or world.server(f"server {nth} again", clock)
                continue
            due = oracle[bisect_right(oracle, decided) : bisect_right(oracle, clock.time)]
            before = (await world.store.schedules.find("job")).next_at
            try:
                await server.beat()
                await server.tick()
            except Killed:
                servers[nth], kills = None, kills + 1
            after = (await world.store.schedules.find("job")).next_at
            assert (after != before) <= bool(due), (zone, expression, seed)
            if due and after != before:
                expected.add(due[-1])
                decided = clock.time
    return world, expected, kills


@pytest.mark.proves("AU-5", "AU-7", "C21")
async def test_whole_years_of_zones_with_crashes_downtime_and_clock_jumps_are_as_brute_force_says() -> None:
    days, lives, killed, instants = effort(45, 366), 0, 0, 0
    for year in YEARS:
        start = datetime(year, 1 if SOAK else 3, 1, tzinfo=UTC).timestamp()
        for nth, zone in enumerate(clocks(year)):
            expression = EXPRESSIONS[nth % len(EXPRESSIONS)]
            world, expected, kills = await live(zone, expression, start, days, f"{year} {zone}")
            rows = await world.store.history.firings("job", limit=100_000)
            fired = [each for each in rows if each.run_id is not None]
            assert {each.due_at for each in fired} == expected, (zone, expression)
            assert {each.run_id for each in fired} == {run_of_firing("job", due) for due in expected}
            assert set(world.runs.logs) == {each.run_id for each in fired}
            lives, killed, instants = lives + 1, killed + kills, instants + len(fired)
    report("years of zones with two servers", lives)
    report("servers killed in them", killed)
    report("instants fired in them", instants)
