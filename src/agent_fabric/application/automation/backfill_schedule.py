"""Makes up for the instants of a period, one after another."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from agent_fabric.application.automation.manage_schedules import require_own
from agent_fabric.application.ports.automation import AutomationStore, ReadCron
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.automation.firing import Firing, FiringStatus, Reason
from agent_fabric.domain.automation.schedule import Schedule
from agent_fabric.domain.automation.timing import due_between
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.identity.principals import Principal

UNASKED = 100
"""Instants that are made up for without being asked again."""
MAX_INSTANTS = 10_000
IN_ONE_WRITE = 500
"""Instants that are queued in one transaction, so that others can write in between."""
_AT_ONCE = "at once: "


class Withdrawn(NamedTuple):
    """What was taken back of a backfill."""

    name: str
    withdrawn: int
    """Instants that waited, and are not made up for. Runs that were started go on."""


class Backfilled(NamedTuple):
    """What a backfill makes up for."""

    queued: Sequence[float]
    """Instants that are fired now, one after another."""
    already: Sequence[float]
    """Instants of the period that had been fired before."""
    dry_run: bool


@dataclass(frozen=True, slots=True)
class BackfillSchedule:
    """Use case: queue every instant of a period that was not fired. What is queued survives any crash."""

    store: AutomationStore
    read_cron: ReadCron
    clock: Clock
    queued: Callable[[], None] = lambda: None
    """Called after instants were queued."""

    async def __call__(
        self,
        schedule: Schedule,
        start: float,
        end: float,
        *,
        by: Principal,
        dry_run: bool = False,
        at_once: int = 1,
        confirmed: bool = False,
    ) -> Backfilled:
        """Queue the instants, or only tell which they are.

        Raises:
            InvalidInputs: there are more than 100 and no one confirmed it, or the period is none.
            Forbidden: it is someone else's schedule.
        """
        require_own(schedule, by)
        now = self.clock.now()
        if not start < end or end > now:
            raise InvalidInputs(
                "A backfill is about a period of the past", hint="Give --from and --to, both before now."
            )
        instants = list(islice(due_between(schedule.rule.timing(self.read_cron), start - 1e-6, end), MAX_INSTANTS + 1))
        already = set(await self.store.history.fired_within(schedule.name, start, end))
        wanted = [each for each in instants if each not in already]
        done = Backfilled(wanted, sorted(already), dry_run)
        if dry_run:
            return done
        if len(wanted) > MAX_INSTANTS:
            raise InvalidInputs(f"A backfill has at most {MAX_INSTANTS:,} instants", hint="Choose a shorter period.")
        if len(wanted) > UNASKED and not confirmed:
            raise InvalidInputs(f"This would start {len(wanted)} runs", hint="Look with --dry-run; confirm with --yes.")
        about = f"{_AT_ONCE}{at_once}" if at_once > 1 else ""
        status, reason = FiringStatus.QUEUED, Reason.BACKFILL
        queued = (Firing.of(schedule, each, status, reason, at=now, server=by.name) for each in wanted)
        firings = [replace(each, about=about) for each in queued]
        for first in range(0, len(firings), IN_ONE_WRITE):
            await self.store.backlog.add(firings[first : first + IN_ONE_WRITE])
        self.queued()
        return done

    async def withdraw(self, schedule: Schedule, *, by: Principal) -> Withdrawn:
        """Take back what waits to be made up for.

        Raises:
            Forbidden: it is someone else's schedule.
        """
        require_own(schedule, by)
        count = await self.store.backlog.withdraw(schedule.name, by=by.name, now=self.clock.now())
        return Withdrawn(schedule.name, count)


def runs_at_once(firing: Firing) -> int:
    """Return how many runs of a trigger may be under way beside a queued firing."""
    if firing.reason is not Reason.BACKFILL or not firing.about.startswith(_AT_ONCE):
        return 1
    return int(firing.about.removeprefix(_AT_ONCE))
