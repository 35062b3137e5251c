"""Finds schedules for callers: what a caller may not see does not exist for it."""

from collections.abc import Sequence

from agent_fabric.application.ports.automation import ScheduleQuery, ScheduleRepository
from agent_fabric.domain.automation.schedule import Schedule
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ScheduleNotFound
from agent_fabric.domain.identity.ownership import Viewer, Visibility
from agent_fabric.domain.identity.principals import Principal


@dataclass(frozen=True, slots=True)
class FindSchedule:
    """Use case: find one's own schedules and, where runs are shared with the team, those of others."""

    schedules: ScheduleRepository
    visibility: Visibility

    async def __call__(self, name: str, *, by: Principal) -> Schedule:
        """Return the schedule of this name or id.

        Raises:
            ScheduleNotFound: there is none, or it is not for them.
        """
        found = await self.schedules.find(name)
        if not Viewer.of(by).sees(found.owner, self.visibility):
            raise ScheduleNotFound(f"There is no schedule {name!r}", hint="See them with `fabric schedules list`.")
        return found

    async def find_name(self, name: str, *, by: Principal) -> str:
        """Return the name of a schedule; those who see all may also name one that was removed.

        Raises:
            ScheduleNotFound: there is none, or it is not for them.
        """
        try:
            return (await self(name, by=by)).name
        except ScheduleNotFound:
            if not Viewer.of(by).sees_all:
                raise
            return name

    async def list(self, *, by: Principal, words: str, after: str, limit: int) -> Sequence[Schedule]:
        """Return schedules by name."""
        viewer = Viewer.of(by)
        owners = None if viewer.sees("", self.visibility) else viewer.owners
        return await self.schedules.list(ScheduleQuery(owners=owners, words=words, after=after, limit=limit))
