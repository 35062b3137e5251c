"""Schedules as JSON, each with what it does next and what it did last."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_fabric.application.automation.explain_schedule import ExplainSchedule
from agent_fabric.domain.automation.schedule import Schedule
from agent_fabric.wire.automation import ASKED_PERSON, FIRING, PLANNED, SCHEDULE

SHOWN_NEXT = 5


async def schedule_object(schedule: Schedule, explain: ExplainSchedule) -> dict[str, Any]:
    """Return everything about a schedule."""
    return (await schedule_objects([schedule], explain))[0]


async def schedule_objects(schedules: Sequence[Schedule], explain: ExplainSchedule) -> list[dict[str, Any]]:
    """Return everything about schedules; the store is asked once for all of them."""
    names, overview = [each.name for each in schedules], explain.overview
    newest, waiting, asked = (
        await overview.newest(names),
        await overview.waiting(names),
        await overview.open_questions(names),
    )
    return [
        {
            **SCHEDULE.dump(each),
            "next": _next_firings(each, explain),
            "last": FIRING.dump(newest[each.name]) if each.name in newest else None,
            "queued": waiting.get(each.name, 0),
            "waits": ASKED_PERSON.dump(asked[each.name]) if each.name in asked else None,
        }
        for each in schedules
    ]


def _next_firings(schedule: Schedule, explain: ExplainSchedule) -> list[Mapping[str, Any]]:
    """Return the next instants at which a schedule is due; none while it is paused."""
    if not schedule.is_active:
        return []
    return [PLANNED.dump(each) for each in explain.upcoming(schedule.rule, explain.clock.now(), SHOWN_NEXT)]
