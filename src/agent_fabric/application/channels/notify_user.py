"""Tells users of things where they want to be told: on channels and over webhooks, but not in their quiet hours."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from agent_fabric.application.channels.replies import rendered_parts
from agent_fabric.application.ports.channels import ChannelStore
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.identity import UserRepository
from agent_fabric.application.ports.storage import Storage
from agent_fabric.application.ports.subscriptions import OutgoingQueue
from agent_fabric.domain.automation.outgoing import OutgoingMessage
from agent_fabric.domain.channels.deliveries import Part
from agent_fabric.domain.channels.notices import Notice, NoticeKind, NotifyPreference
from agent_fabric.domain.channels.pairing import Person, is_still
from agent_fabric.domain.channels.rendering import rendering_of
from agent_fabric.domain.errors import AccountNotFound, ChannelNotFound

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
        """Return the use case over a store."""
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
        now = self.clock.now()
        messages = [
            OutgoingMessage(
                id=f"{notice.source}>{name}",
                subscription=name,
                message_id=notice.source,
                subject=f"{SUBJECT}.{notice.kind}",
                payload={"user": wanted.user, "text": notice.text, **notice.facts},
                next_at=now,
                created_at=now,
            )
            for name in wanted.webhooks(notice.kind)
        ]
        if messages:
            await self.webhooks.put(messages)


def _goes_to(notice: Notice, wanted: NotifyPreference, person: Person) -> bool:
    if notice.channel:
        return person.sender.channel == notice.channel
    return wanted.wants(notice.kind, person.sender.channel)
