"""Schedules as JSON, each with what it does next and what it did last."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from agent_fabric.application.automation.explain_schedule import upcoming
from agent_fabric.application.ports.automation import FiringOverview
from agent_fabric.domain.automation.schedule import Rule, Schedule
from agent_fabric.domain.automation.timing import next_after
from agent_fabric.infrastructure.automation.cronsim_walls import read_cron
from agent_fabric.wire.automation import ASKED_PERSON, FIRING, PLANNED, SCHEDULE

SHOWN_NEXT = 5
YEAR_S = 366 * 86_400.0


async def schedule_object(schedule: Schedule, overview: FiringOverview) -> dict[str, Any]:
    """Return everything about a schedule."""
    return (await schedule_objects([schedule], overview))[0]


async def schedule_objects(schedules: Sequence[Schedule], overview: FiringOverview) -> list[dict[str, Any]]:
    """Return everything about schedules; the store is asked once for all of them."""
    names = [each.name for each in schedules]
    newest, waiting, asked = (
        await overview.newest(names),
        await overview.waiting(names),
        await overview.open_questions(names),
    )
    return [
        {
            **SCHEDULE.dump(each),
            "next": next_firings(each),
            "last": FIRING.dump(newest[each.name]) if each.name in newest else None,
            "queued": waiting.get(each.name, 0),
            "waits": ASKED_PERSON.dump(asked[each.name]) if each.name in asked else None,
        }
        for each in schedules
    ]


def next_firings(schedule: Schedule, count: int = SHOWN_NEXT) -> list[Mapping[str, Any]]:
    """Return the next instants at which a schedule is due; none while it is paused."""
    if not schedule.is_active:
        return []
    return [PLANNED.dump(each) for each in upcoming(schedule.rule, read_cron, time.time(), count)]


def end_of_simulation(rule: Rule, start: float, until: float | None) -> float:
    """Return where a simulation ends that was not told: after a year, or the five next instants if they are later."""
    if until is not None:
        return until
    return max(start + YEAR_S, next_after(rule.timing(read_cron), start) or 0.0)
