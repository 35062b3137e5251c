"""How seldom an idle server looks, and how precisely it fires nevertheless."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent_fabric.application.automation.fire_schedules import FireSchedules
from agent_fabric.application.ports.automation import DueLook
from agent_fabric.domain.automation.schedule import Schedule
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.runs.task import Task
from unit.application.automation.simulated_servers import START, World


@dataclass
class CountedQueue:
    """FiringQueue that counts looks, and may fail."""

    inner: Any
    looks: list[float] = field(default_factory=list)
    fails_until: float = 0.0

    async def due(self, now: float, *, limit: int) -> DueLook:
        self.looks.append(now)
        if now < self.fails_until:
            raise StoreUnavailable("gone")
        found: DueLook = await self.inner.due(now, limit=limit)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


async def live(world: World, seconds: float, *, server: FireSchedules | None = None) -> Sequence[float]:
    """Let a server live for a time that passes only while it sleeps; return when it looked."""
    counted = CountedQueue(world.store.queue)
    world.replace_queue(counted)
    server, end = server or world.server(), world.clock.time + seconds

    async def pause(pause_s: float) -> None:
        world.pass_time(pause_s)
        if world.clock.time >= end:
            raise asyncio.CancelledError
        await asyncio.sleep(0)

    server.pause = pause
    with pytest.raises(asyncio.CancelledError):
        await server()
    world.replace_queue(counted.inner)
    return counted.looks


@pytest.mark.proves("AU-14")
async def test_an_idle_server_looks_once_with_every_sign_of_life() -> None:
    world = World()
    await world.add(cron_expression="0 3 1 1 *")
    assert len(await live(world, 3_600)) <= 3_600 / 5 + 1


async def test_what_is_due_is_fired_at_its_instant() -> None:
    world = World()
    await world.add(every="7.3s")
    looks = await live(world, 730)
    fired = [each for each in await world.store.history.firings("job", limit=200) if each.run_id]
    assert len(fired) >= 99
    assert max(each.late_s for each in fired) < 0.02
    assert len(looks) <= 2 * 100 + 730 / 5 + 1


async def test_firings_that_wait_are_looked_at_often_and_only_while_they_wait() -> None:
    world = World(run_s=20.0)
    await world.add(every=600, overlap="queue")
    schedule = await world.store.schedules.find("job")
    assert schedule.next_at is not None
    world.clock.time = schedule.next_at + 1_250
    assert len(await live(world, 60)) < 60 / 0.5 + 20
    assert len(await live(world, 60)) <= 60 / 5 + 2


async def test_a_store_that_is_gone_is_tried_again_and_a_schedule_that_breaks_stops_no_other() -> None:
    world = World()
    await world.add(every=60)
    await world.add(name="broken", every=60)
    server = world.server()
    make_task = server.make_task

    async def breaks(schedule: Schedule) -> Task:
        if schedule.name == "broken":
            raise OSError("too many open files")
        return await make_task(schedule)

    server.make_task = breaks
    counted = CountedQueue(world.store.queue, fails_until=START + 10)
    world.replace_queue(counted)
    await live(world, 125, server=server)
    assert sum(look < START + 10 for look in counted.looks) >= 15
    history = world.store.history
    sound, broken = [[each.status for each in await history.firings(name, limit=9)] for name in ("job", "broken")]
    assert (sound, broken) == (["fired"] * 2, ["skipped"] * 2)
    assert [letter.source for letter in await world.store.letters.list(limit=9)] == ["broken"] * 2
    assert (await world.store.schedules.find("broken")).is_active
