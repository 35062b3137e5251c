"""What the owner of a schedule may still have done."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.identity import ApiKeyRepository, UserRepository
from agent_fabric.domain.automation.schedule import Schedule
from agent_fabric.domain.errors import Forbidden
from agent_fabric.domain.identity.principals import AnyScope, Kind, known_scopes, narrow_scopes, widen

OwnerRights = Callable[[Schedule], Awaitable[Schedule]]
"""Returns a schedule with the rights that its owner has now.

Raises:
    Forbidden: they have none any more.
"""


@dataclass(frozen=True, slots=True)
class NarrowToOwner:
    """Use case: carry out a schedule with the rights that its owner showed for it, as far as they still have them."""

    users: UserRepository
    keys: ApiKeyRepository
    clock: Clock

    async def __call__(self, schedule: Schedule) -> Schedule:
        """Return the schedule with the rights that count now.

        Raises:
            Forbidden: its owner is disabled or removed, or is a key that is revoked or has expired.
        """
        kind, _, name = schedule.owner.partition(":")
        if kind not in {Kind.USER, Kind.KEY}:
            return schedule
        has = await (self._of_user(name) if kind == Kind.USER else self._of_key(name))
        if has is None:
            raise Forbidden(
                f"{schedule.owner}, whose schedule it is, may do nothing here any more",
                hint="Remove the schedule, or let someone else make it.",
            )
        rights = narrow_scopes(known_scopes(schedule.user_scopes), has)
        return replace(schedule, user_scopes=tuple(sorted(rights)))

    async def _of_user(self, name: str) -> frozenset[AnyScope] | None:
        user = await self.users.find(name)
        return None if user is None or user.disabled else user.scopes

    async def _of_key(self, name: str) -> frozenset[AnyScope] | None:
        now = self.clock.now()
        live = [key for key in await self.keys.list() if key.name == name and key.is_live(now)]
        return widen(live[0].scopes) if live else None
