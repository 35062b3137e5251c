"""Lets users say where they want to be told of approvals and alerts."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agent_fabric.application.ports.channels import ChannelStore
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.identity import UserRepository
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.channels.addresses import PLATFORMS
from agent_fabric.domain.channels.notices import ANY_CHANNEL, PAGE, WEBHOOK, NotifyPreference, read_preference
from agent_fabric.domain.errors import AccountNotFound, Forbidden, InvalidInputs
from agent_fabric.domain.identity.principals import Kind, Principal, Scope


@dataclass(frozen=True, slots=True)
class ManageNotify:
    """Use case: show and change a preference: one's own, or as an admin anyone's."""

    store: ChannelStore
    users: UserRepository
    clock: Clock

    async def find(self, user: str, *, by: Principal) -> NotifyPreference:
        """Return where a user wants to be told.

        Raises:
            Forbidden: it is someone else's.
            AccountNotFound: there is no such user.
        """
        await self._require(user, by)
        return await self.store.notify.find(user)

    async def save(
        self,
        user: str,
        *,
        by: Principal,
        approvals: Sequence[str] | None = None,
        alerts: Sequence[str] | None = None,
        quiet_hours: str | None = None,
        timezone: str | None = None,
    ) -> NotifyPreference:
        """Change what is given, and return the whole.

        Raises:
            Forbidden: it is someone else's, or a run asks.
            AccountNotFound: there is no such user.
            InvalidInputs, ConfigError: it cannot be so.
        """
        await self._require(user, by)
        now = await self.store.notify.find(user)
        changed = read_preference(
            user,
            approvals=now.approvals if approvals is None else approvals,
            alerts=now.alerts if alerts is None else alerts,
            quiet_hours=now.quiet_hours if quiet_hours is None else quiet_hours,
            timezone=now.timezone if timezone is None else timezone,
        )
        added = {*changed.approvals, *changed.alerts} - {*now.approvals, *now.alerts}
        if any(each.startswith(WEBHOOK) for each in added) and not by.may(Scope.ADMIN):
            raise Forbidden("Only an admin connects users with webhooks", hint="Ask one, or choose a channel.")
        await self._require_known(added)
        act = Act.of(by, Deed.CHANNEL_NOTIFY_SET, at=self.clock.now(), about=user)
        await self.store.notify.save(changed, act=act)
        return changed

    async def _require_known(self, routes: Collection[str]) -> None:
        """Refuse names of channels that are none: no one would be told, and no one would notice."""
        named = {
            each for each in routes if each not in (PAGE, ANY_CHANNEL, *PLATFORMS) and not each.startswith(WEBHOOK)
        }
        if unknown := named - {each.sender.channel for each in await self.store.people.list()}:
            raise InvalidInputs(
                f"There is no channel {min(unknown)!r}, and nobody is paired on one of that name",
                hint=f"Write page, channel, webhook:NAME, or one of: {', '.join(PLATFORMS)}.",
            )

    async def _require(self, user: str, by: Principal) -> None:
        own = by.kind is Kind.USER and by.name == user
        if by.run or not (own or by.may(Scope.ADMIN)):
            raise Forbidden(f"{by.name} may not decide where {user[:80]!r} is told: it needs the scope 'admin'")
        if await self.users.find(user) is None:
            raise AccountNotFound(f"There is no user {user[:80]!r}", hint="See `fabric users list`.")
