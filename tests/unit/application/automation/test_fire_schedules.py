"""What becomes of due instants: misfires, overlaps, failures, and several servers at once."""

import random

import pytest

from agent_fabric.application.automation.backfill_schedule import BackfillSchedule
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.automation.cronsim_walls import read_cron
from agent_fabric.testing.fakes import FrozenClock
from effort import effort, report
from unit.application.automation.simulated_servers import ADA, START, World


async def rows(world: World) -> list[tuple[float, str, str, int]]:
    found = await world.store.history.firings("job", limit=1_000)
    return [(each.due_at - START, each.status.value, each.reason.value, each.count) for each in reversed(found)]


@pytest.mark.proves("AU-6")
async def test_of_missed_instants_the_newest_is_made_up_for() -> None:
    world = World()
    await world.add(every=60)
    world.pass_time(300)
    await world.server().tick()
    assert await rows(world) == [(60, "skipped", "misfire", 4), (300, "fired", "", 1)]
    assert ("schedule_off_cadence", {"schedule": "job", "missed": 4, "reason": "misfire"}) in world.log.lines
    assert world.alerts == ["schedule_off_cadence"]


async def test_three_instants_in_a_row_that_are_skipped_are_told_once_and_alerts_last_as_long() -> None:
    world = World(run_s=100_000.0)
    await world.add(every=60)
    server = world.server()
    for _ in range(6):
        world.pass_time(60)
        await server.tick()
    told = [fields for event, fields in world.log.lines if event == "schedule_off_cadence"]
    assert told == [{"schedule": "job", "missed": 3, "reason": "overlap"}]
    assert len(world.alerts) == 3
    world.store.end(world.created[0], RunStatus.COMPLETED)
    world.pass_time(60)
    await server.tick()
    await world.change(is_active=False)
    world.pass_time(600)
    await server.tick()
    assert len(world.alerts) == 3


async def test_skip_makes_up_for_nothing_and_all_for_each_in_turn() -> None:
    world = World()
    await world.add(every=60, misfire="skip")
    world.pass_time(359)
    await world.server().tick()
    assert await rows(world) == [(60, "skipped", "misfire", 4), (300, "fired", "", 1)]
    other = World()
    await other.add(every=60, misfire="all", max_catch_up=3)
    other.pass_time(300)
    server = other.server()
    for _ in range(4):
        await server.tick()
    assert await rows(other) == [
        (60, "skipped", "catch_up_limit", 2),
        (180, "fired", "caught_up", 1),
        (240, "fired", "caught_up", 1),
        (300, "fired", "caught_up", 1),
    ]
    (letter,) = await other.store.letters.list(limit=5)
    assert "2 instants were missed" in letter.reason


async def test_years_of_missed_seconds_are_decided_about_in_no_time() -> None:
    world = World()
    await world.add(every=1, misfire="all")
    world.pass_time(3 * 366 * 86_400)
    await world.server().tick()
    assert world.created
    assert len(await world.store.history.fired_within("job", START, world.clock.time)) == 100


@pytest.mark.parametrize(("overlap", "second"), [("skip", "skipped"), ("queue", "queued"), ("cancel", "fired")])
async def test_a_run_under_way_is_waited_for_skipped_or_cancelled(overlap: str, second: str) -> None:
    world = World(run_s=100_000.0)
    await world.add(every=60, overlap=overlap)
    server = world.server()
    for _ in range(2):
        world.pass_time(60)
        await server.tick()
    assert [each[1] for each in await rows(world)] == ["fired", second]
    if overlap == "cancel":
        assert await world.runs.status(world.created[0]) is RunStatus.CANCELLED
    if overlap == "queue":
        for _ in range(12):
            world.pass_time(60)
            await server.tick()
        assert [each[2] for each in await rows(world)].count("queue_full") == 3
        world.store.end(world.created[0], RunStatus.COMPLETED)
        await server.tick()
        assert len(world.created) == 2


@pytest.mark.proves("AU-12")
async def test_failures_in_a_row_pause_a_schedule() -> None:
    world = World(ends_with=RunStatus.FAILED)
    await world.add(every=60, pause_after_failures=3)
    server = world.server()
    for _ in range(6):
        world.pass_time(60)
        await server.tick()
    assert [each[1:3] for each in await rows(world)] == [("fired", "")] * 3 + [("skipped", "paused")]
    paused = await world.store.schedules.find("job")
    assert (paused.is_active, paused.paused_by) == (False, "server: 3 failures in a row")
    found = await world.explain("job", str(START + 300))
    assert (found.answer, found.reason, found.by) == ("skipped", "paused", "server: 3 failures in a row")


async def test_a_day_has_as_many_runs_as_it_may_have() -> None:
    world = World()
    await world.add(every=60, daily_runs=2)
    server = world.server()
    for _ in range(4):
        world.pass_time(60)
        await server.tick()
    assert [each[1:3] for each in await rows(world)] == [("fired", "")] * 2 + [("skipped", "budget")] * 2


@pytest.mark.proves("FC-042", "AU-8")
async def test_a_required_model_is_waited_for_and_given_up_when_it_is_too_late() -> None:
    world = World(busy_models={"big"})
    await world.add(every=3600, required_model="big", max_late_s=120)
    server = world.server()
    world.pass_time(3600)
    await server.tick()
    assert (await rows(world))[0][1:3] == ("queued", "model_busy")
    world.pass_time(60)
    world.busy_models.clear()
    await server.tick()
    assert (await rows(world))[0][1] == "fired"
    world.busy_models.add("big")
    for _ in range(2):
        world.pass_time(3600)
        await server.tick()
    assert (await rows(world))[1][1:3] == ("skipped", "model_busy")


async def test_what_cannot_be_started_is_a_dead_letter_and_the_schedule_goes_on() -> None:
    world = World()
    await world.add(every=60)
    world.broken = True
    server = world.server()
    world.pass_time(60)
    await server.tick()
    world.broken = False
    world.pass_time(60)
    await server.tick()
    assert [each[1:3] for each in await rows(world)] == [("skipped", "start_failed"), ("fired", "")]
    (letter,) = await world.store.letters.list(limit=5)
    assert letter.payload == {"schedule": "job", "due_at": START + 60}


async def test_an_interval_keeps_its_phase_and_a_change_counts_from_now() -> None:
    world = World()
    first = await world.add(every=60)
    world.pass_time(90)
    changed = await world.change(every=600)
    assert (first.next_at, changed.next_at) == (START + 60, START + 600)
    assert (await world.change(misfire="all")).next_at == START + 600


async def test_jitter_delays_every_firing_alike_on_all_servers() -> None:
    world = World()
    await world.add(every=600, jitter_s=300)
    world.pass_time(600)
    await world.server().tick()
    before = len(world.created)
    world.pass_time(300)
    await world.server("two").tick()
    assert (before, len(world.created)) == (0, 1)
    assert (await rows(world))[0][0] == 600


async def test_a_backfill_asks_before_it_starts_hundreds_of_runs() -> None:
    world = World()
    schedule = await world.add(every=60)
    world.pass_time(86_400)
    backfill = BackfillSchedule(world.store, read_cron, world.clock)
    with pytest.raises(InvalidInputs, match="1441 runs"):
        await backfill(schedule, START, world.clock.time, by=ADA)
    done = await backfill(schedule, START, START + 600, by=ADA, at_once=2)
    assert len(done.queued) == 11
    await world.server().tick()
    assert len(await world.store.history.fired_within("job", START, START + 600)) == 11


@pytest.mark.proves("C21", "AU-5")
async def test_servers_that_are_killed_and_whose_clocks_are_wrong_fire_every_instant_once() -> None:
    ticks = effort(200, 1_000)
    chance = random.Random(7)
    world = World()
    await world.add(every=10, overlap="queue", misfire="all", max_catch_up=1_000)
    clocks = [FrozenClock(START) for _ in range(4)]
    servers = [world.server(f"server {nth}", clock) for nth, clock in enumerate(clocks)]
    while world.clock.time < START + ticks * 10:
        world.pass_time(2)
        for nth, clock in enumerate(clocks):
            clock.time = world.clock.time - (3_600 if chance.random() < 0.1 else 0)
            if chance.random() < 0.02:
                servers[nth] = world.server(f"server {nth} again", clock)
            if chance.random() < 0.5:
                await servers[nth].tick()
    for _ in range(ticks):
        await servers[0].tick()
    assert len(world.created) == len(set(world.created)) == ticks
    report("firings by four servers with kills and clock jumps", ticks)
