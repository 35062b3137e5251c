"""A schedule as JSON, with what it does next and what it did last."""

import time
from collections.abc import Mapping
from itertools import islice
from typing import Any

from agent_fabric.application.automation.explain_schedule import PlannedFiring, simulate
from agent_fabric.application.ports.automation import FiringHistory
from agent_fabric.domain.automation.schedule import Rule, Schedule
from agent_fabric.domain.automation.timing import next_after
from agent_fabric.infrastructure.automation.cronsim_walls import read_cron
from agent_fabric.wire.automation import FIRING, PLANNED, SCHEDULE

SHOWN_NEXT = 5
YEAR_S = 366 * 86_400.0


async def schedule_object(schedule: Schedule, history: FiringHistory) -> dict[str, Any]:
    """Return everything about a schedule."""
    last = await history.firings(schedule.name, limit=1)
    return {
        **SCHEDULE.dump(schedule),
        "next": next_firings(schedule),
        "last": FIRING.dump(last[0]) if last else None,
    }


def next_firings(schedule: Schedule, count: int = SHOWN_NEXT) -> list[Mapping[str, Any]]:
    """Return the next instants at which a schedule is due; none while it is paused."""
    if not schedule.is_active:
        return []
    return [PLANNED.dump(each) for each in upcoming(schedule.rule, time.time(), count)]


def upcoming(rule: Rule, start: float, count: int) -> list[PlannedFiring]:
    """Return the next instants of a rule.

    Raises:
        ConfigError: it cannot be read.
    """
    found: list[PlannedFiring] = []
    timing = rule.timing(read_cron)
    for at in islice(timing.after(start), count):
        found += simulate(rule, read_cron, at - 1e-3, at)
    return found


def end_of_simulation(rule: Rule, start: float, until: float | None) -> float:
    """Return where a simulation ends that was not told: after a year, or the five next instants if they are later."""
    if until is not None:
        return until
    return max(start + YEAR_S, next_after(rule.timing(read_cron), start) or 0.0)
