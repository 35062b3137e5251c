"""Tells users of things where they want to be told: on channels and over webhooks, but not in their quiet hours."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any, Self

from agent_fabric.application.channels.replies import rendered_parts
from agent_fabric.application.ports.alerts import AlertPost
from agent_fabric.application.ports.approvals import ApprovalRepository
from agent_fabric.application.ports.automation import FiringOverview, OutgoingQueue, ScheduleRepository
from agent_fabric.application.ports.channels import ChannelStore
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.identity import UserRepository
from agent_fabric.application.ports.storage import Storage
from agent_fabric.domain.approvals.answers import Question
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.automation.firing import AskedPerson
from agent_fabric.domain.automation.outgoing import message_for
from agent_fabric.domain.channels.addresses import PLATFORMS
from agent_fabric.domain.channels.deliveries import Part
from agent_fabric.domain.channels.notices import (
    ANY_CHANNEL,
    PAGE,
    WEBHOOK,
    Notice,
    NoticeKind,
    NotifyPreference,
    read_preference,
)
from agent_fabric.domain.channels.pairing import Person, is_still
from agent_fabric.domain.channels.rendering import rendering_of
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import (
    AccountNotFound,
    ApprovalNotFound,
    ChannelNotFound,
    FabricError,
    Forbidden,
    InvalidInputs,
    ScheduleNotFound,
)
from agent_fabric.domain.fleet.plans import Plan
from agent_fabric.domain.identity.principals import Kind, Principal, Scope
from agent_fabric.domain.observability.alerts import USER, Severity

SUBJECT = "agent33.notify"


@dataclass(frozen=True, slots=True)
class NotifyUser:
    """Use case: put a notice into the outbox for every place that its user wants; telling it again changes nothing.

    What is not urgent waits for the end of the quiet hours. A server sends it, this process or another one.
    """

    store: ChannelStore
    users: UserRepository
    webhooks: OutgoingQueue
    clock: Clock

    @classmethod
    def of(cls, storage: Storage) -> Self:
        return cls(storage.channels, storage.users, storage.automation.outgoing, storage.clock)

    async def __call__(self, user: str, notice: Notice) -> Sequence[Part]:
        """Tell a user; return what goes out on channels.

        Raises:
            AccountNotFound: there is no such user, or they are disabled.
            ChannelNotFound: a message was to go to a channel, and they are paired on none that fits.
        """
        known = await self.users.find(user)
        if known is None or known.disabled:
            raise AccountNotFound(f"There is no user {user[:80]!r} who can be told", hint="See `fabric users list`.")
        wanted = await self.store.notify.find(user)
        people = [each for each in await self.store.people.list() if is_still(each, known)]
        people = [each for each in people if _goes_to(notice, wanted, each)]
        if notice.kind is NoticeKind.MESSAGE and not people:
            where = f"on {notice.channel}" if notice.channel else "on any channel"
            raise ChannelNotFound(f"{user!r} is not paired {where}", hint="See `fabric channels people`.")
        parts = [part for each in people for part in self._parts(notice, wanted, each)]
        if parts:
            await self.store.outbox.put(parts)
        await self.post(notice, wanted)
        return parts

    def _parts(self, notice: Notice, wanted: NotifyPreference, person: Person) -> list[Part]:
        now = self.clock.now()
        quiet = None if notice.is_urgent else wanted.quiet_until(now)
        parts = rendered_parts(rendering_of(person.place.channel), notice.source, person.place, notice.text, at=now)
        if quiet is None:
            return parts
        return [replace(part, next_at=quiet, is_held=True) for part in parts]

    async def post(self, notice: Notice, wanted: NotifyPreference) -> None:
        """Hand a notice to the webhooks of a user; they have no quiet hours."""
        now, payload = self.clock.now(), {"user": wanted.user, "text": notice.text, **notice.facts}
        messages = [
            message_for(name, notice.source, f"{SUBJECT}.{notice.kind}", payload, now)
            for name in wanted.webhooks(notice.kind)
        ]
        if messages:
            await self.webhooks.put(messages)


def _goes_to(notice: Notice, wanted: NotifyPreference, person: Person) -> bool:
    if notice.channel:
        return person.sender.channel == notice.channel
    return wanted.wants(notice.kind, person.sender.channel)


@dataclass(frozen=True, slots=True)
class TellPlanOwner:
    """Use case: tell the owner of a plan how it stands, where they want to be told; the same standing once."""

    notify: NotifyUser

    async def __call__(self, plan: Plan) -> None:
        notice = Notice(
            source=f"plan:{plan.id}:{plan.status}:{plan.updated_at:.3f}",
            kind=NoticeKind.ALERT,
            text=f"Plan **{plan.name}** is {plan.status}: {plan.note}\n\n`fabric fleet show {plan.id}`",
            facts={"plan_id": plan.id, "status": plan.status.value, "note": plan.note, "skipped": list(plan.skipped)},
        )
        with suppress(AccountNotFound):  # made with a key, or on this machine: the alert tells the others
            await self.notify(plan.created_by, notice)


@dataclass(slots=True)
class AlertUsers:
    """AlertPost that knows users, before another one that knows addresses."""

    inner: AlertPost
    notify: NotifyUser | None = None
    """None until the store is open; nothing is posted before."""

    async def post(self, address: str, message: Mapping[str, Any]) -> None:
        if not address.startswith(USER):
            await self.inner.post(address, message)
            return
        assert self.notify is not None, "nothing is sent before the server runs"
        try:
            await self.notify(address.removeprefix(USER), _notice(message))
        except AccountNotFound as problem:
            raise ValueError(problem.message) from None
        except FabricError as problem:
            raise ConnectionError(problem.message) from None


def _notice(message: Mapping[str, Any]) -> Notice:
    name, status = message["alert"], message["status"]
    value = message.get("value")
    told = f"{message['when']}" + (f", it is {value:g}" if isinstance(value, int | float) else "")
    about = f"\n\n{message['about']}" if "about" in message else ""
    run = f"\n\nRun {message['run_id']}" if "run_id" in message else ""
    return Notice(
        source=f"alert:{name}:{status}:{message['at']:.3f}",
        kind=NoticeKind.ALERT,
        text=f"**{name}** is {status} ({message['severity']}): {told}{about}{run}",
        is_urgent=message["severity"] == Severity.CRITICAL,
        facts=dict(message),
    )


WAITS_EVENT = "schedule_waits"


@dataclass(slots=True)
class TellWaiting:
    """Use case: say once of each run that a crash has cut off that its schedule waits for a person.

    What a run asks in the course of its work needs no more than its card. This is a question that no one expects.
    """

    overview: FiringOverview
    approvals: ApprovalRepository
    schedules: ScheduleRepository
    notify: NotifyUser
    alert: Callable[[str, str], None]
    _told: set[str] = field(default_factory=set)
    """Questions that this process has told of, as long as they are open."""

    async def __call__(self) -> None:
        asked = await self.overview.open_questions()
        self._told.intersection_update(each.approval_id for each in asked.values())
        for name, each in asked.items():
            if each.approval_id not in self._told:
                await self._tell(name, each)
                self._told.add(each.approval_id)

    async def _tell(self, name: str, asked: AskedPerson) -> None:
        try:
            card = await self.approvals.find(asked.approval_id)
            schedule = await self.schedules.find(name)
        except (ApprovalNotFound, ScheduleNotFound):  # gone since
            return
        if card.question is not Question.DID_IT_HAPPEN:
            return
        answer = f"fabric approvals show {asked.approval_id}"
        self.alert(WAITS_EVENT, f"{name} waits for a person: its run was cut off in the middle of a step ({answer})")
        notice = Notice(
            source=f"schedule:{name}:{asked.approval_id}",
            kind=NoticeKind.ALERT,
            text=f"The schedule **{name}** waits for you: the server was stopped in the middle of a step of its run "
            f"{asked.run_id}, and only a person can tell whether it has happened.\n\n`{answer}`",
            facts={"schedule": name, "run_id": asked.run_id, "approval_id": asked.approval_id, "since": asked.since},
        )
        with suppress(AccountNotFound):  # made on this machine, or with a key: the alert tells the others
            await self.notify(schedule.requested_by, notice)


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
