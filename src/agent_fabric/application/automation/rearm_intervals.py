"""Lets intervals go on after the clock was set back."""

from collections.abc import Callable
from dataclasses import replace

from agent_fabric.application.ports.automation import AutomationStore, ReadCron
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.automation.schedule import SET_BACK, Schedule
from agent_fabric.domain.dataclass import dataclass

SLACK_S = 5.0
"""A clock that is corrected by less delays an interval by less."""
START_SLACK_S = 60.0
"""The same at the start, where the signs of life of other servers, whose clocks may differ, are all that is known."""
SET_BACK_EVENT = "clock_set_back"


@dataclass(slots=True)
class RearmIntervals:
    """Use case: notice that the clock was set back, and let intervals count from now.

    An interval is due at instants of the clock. When that goes back by an hour, the next one is an hour away, and those
    before it have been fired. A cron expression means times on the wall: these were fired, and are not fired again.
    """

    store: AutomationStore
    read_cron: ReadCron
    clock: Clock
    alert: Callable[[str, str], None] = lambda _kind, _about: None
    """Hears that the clock was set back."""
    _seen: tuple[float, float] | None = None
    """The clock, and the one that only goes forward, at the last look."""

    async def __call__(self) -> float:
        """Look at the clock; return by how many seconds it was set back since the last look, or 0."""
        now, passed = self.clock.now(), self.clock.monotonic()
        back_s = await self._back_since_start(now) if self._seen is None else self._back(now, passed, *self._seen)
        if back_s:
            await self._rearm(now, back_s)
            self.alert(SET_BACK_EVENT, f"The clock was set back by {back_s:.0f} s; intervals count from now")
        self._seen = (now, passed)
        return back_s

    @staticmethod
    def _back(now: float, passed: float, seen_now: float, seen_passed: float) -> float:
        back_s = seen_now + (passed - seen_passed) - now
        return back_s if back_s > SLACK_S else 0.0

    async def _back_since_start(self, now: float) -> float:
        """Return by how much the clock is behind the last sign of life of any process."""
        newest = max((life.until for life in await self.store.history.lives(now)), default=now)
        return newest - now if newest - now > START_SLACK_S else 0.0

    async def _rearm(self, now: float, back_s: float) -> None:
        for schedule in await self.store.schedules.list():
            if _is_out_of_place(schedule, now):
                rule = replace(schedule.rule, anchor=_fresh_anchor(schedule, now))
                changed = replace(schedule, rule=rule, revision=schedule.revision + 1)
                changed = changed.after_change(self.read_cron, now)
                # One that another server has changed meanwhile is in its place, or is found by that server.
                await self.store.schedules.change(schedule, changed, by=f"{SET_BACK} by {back_s:.0f} s", now=now)


def _is_out_of_place(schedule: Schedule, now: float) -> bool:
    """Tell whether an interval is due later than it can be by its own rule."""
    rule = schedule.rule
    if rule.every_s is None or schedule.next_at is None or (rule.starts_at or 0.0) > now:
        return False
    return schedule.next_at - now > rule.every_s


def _fresh_anchor(schedule: Schedule, now: float) -> float:
    """Return an anchor whose instants differ from those that were fired in the hour before: each is fired once."""
    assert schedule.rule.every_s is not None
    return now if (now - schedule.rule.anchor) % schedule.rule.every_s else now + 0.001
