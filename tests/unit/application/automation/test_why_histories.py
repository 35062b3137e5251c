"""Random histories of rules, pauses, crashes and slow runs: the explanation of every instant is what happened."""

import random
from dataclasses import dataclass
from itertools import pairwise

import pytest

from agent_fabric.domain.automation.firing import run_of_firing
from agent_fabric.domain.automation.schedule import Rule
from agent_fabric.domain.automation.timing import due_between
from agent_fabric.infrastructure.automation.cronsim_walls import read_cron
from effort import effort, report
from unit.application.automation.simulated_servers import ADA, START, World

TICK_S = 5.0
LENGTH_S = 2_400.0
RULES = (
    {"every": 30.0},
    {"every": 7.0},
    {"cron_expression": "* * * * *"},
    {"cron_expression": "*/2 * * * *"},
    {"every": "5m"},
)


@dataclass
class Told:
    """The rule from some time on, as the simulation knows it."""

    since: float
    rule: Rule
    active: bool


async def history(seed: int) -> tuple[World, list[Told], list[float]]:
    """Live through a history; return the rules that were in force and the moments at which a server looked."""
    chance = random.Random(seed)
    world = World(seed=seed, run_s=chance.choice((0.0, 20.0, 150.0)))
    schedule = await world.add(
        **chance.choice(RULES),
        misfire=chance.choice(("skip", "once", "all")),
        overlap=chance.choice(("skip", "queue")),
        max_late_s=chance.choice((30.0, 600.0, 86_400.0)),
        max_catch_up=chance.choice((1, 5, 100)),
        pause_after_failures=0,
    )
    told, looks = [Told(START, schedule.rule, True)], list[float]()
    server = world.server() if chance.random() < 0.9 else None
    while world.clock.time < START + LENGTH_S:
        world.pass_time(TICK_S)
        event = chance.random()
        if event < 0.02:
            server = None if server is not None else world.server(f"server {world.clock.time}")
        elif event < 0.03:
            active = not told[-1].active
            changed = await world.change(is_active=active)
            told.append(Told(world.clock.time, changed.rule, active))
        elif event < 0.04 and told[-1].active:
            changed = await world.change(**chance.choice(RULES))
            told.append(Told(world.clock.time, changed.rule, True))
        if server is not None:
            await server.beat()
            await server.tick()
            looks.append(world.clock.time)
    return world, told, looks


def expected(world: World, told: list[Told], looks: list[float], due: float) -> str:
    rule = [each for each in told if each.since <= due][-1]
    if run_of_firing("job", due) in world.runs.logs:
        return "fired"
    if not rule.active:
        return "skipped"
    return "skipped" if any(due <= look < due + TICK_S for look in looks) else "nobody_alive"


@pytest.mark.proves("A33-100", "AU-13")
async def test_every_due_instant_of_random_histories_is_explained_as_it_happened() -> None:
    asked = 0
    for seed in range(effort(30, 1_000)):
        world, told, looks = await history(seed)
        ends = [*(each.since for each in told[1:]), world.clock.time]
        last = world.clock.time - 20  # whether a server lives that was heard of a moment ago, nobody knows yet
        for rule, end in zip(told, ends, strict=True):
            until = min(end - 2 * TICK_S, last)
            instants = list(due_between(rule.rule.timing(read_cron), rule.since, until))
            for due in instants[:: max(1, len(instants) // 25)]:
                found = await world.explain("job", str(due))
                wanted = expected(world, told, looks, due)
                if found.reason == "queued":  # it waits for its turn still
                    continue
                if wanted == "nobody_alive" and found.reason in ("overlap", "queue_full", "paused") and found.server:
                    wanted = "skipped"  # it was to be made up for, and then something was in the way
                    assert found.fired_at is not None
                    assert found.fired_at >= due + TICK_S
                assert (found.answer, found.due_at) == (wanted, due), (seed, due - START, found)
                asked += 1
            for first, second in pairwise(instants[:3]):
                between = (first + second) / 2
                if second - first > 125:
                    found = await world.explain("job", str(between))
                    assert found.answer == "not_due", (seed, found)
                    assert (found.before, found.after) == (first, second)
    report("instants of random histories explained", asked)


async def test_a_removed_schedule_is_still_explained() -> None:
    world = World()
    await world.add(every=60)
    server = world.server()
    world.pass_time(61)
    await server.tick()
    await world.manage.remove(await world.store.schedules.find("job"), by=ADA)
    world.pass_time(600)
    assert (await world.explain("job", str(START + 60))).answer == "fired"
    gone = await world.explain("job", str(START + 300))
    assert (gone.answer, gone.reason, gone.by) == ("skipped", "removed", "ada")
