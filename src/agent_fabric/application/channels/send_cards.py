"""Brings approvals to the people who may answer them, and tells them when someone has."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import field, fields, replace
from typing import NamedTuple

from agent_fabric.application.channels.manage_people import ManagePeople
from agent_fabric.application.channels.replies import plain_part
from agent_fabric.application.fleet.machine_calls import FindMachine, Machine, named_machines, unknown_machine
from agent_fabric.application.ports.approvals import ApprovalCard, ApprovalRepository, ApprovalStatus
from agent_fabric.application.ports.channels import Channel, ChannelStore
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.approvals.answers import Question
from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.channels.cards import (
    CARD_LIMITS,
    DEFAULT_CARD_LIMIT,
    CallShown,
    card_source,
    decided_text,
    make_card,
)
from agent_fabric.domain.channels.deliveries import DeliveryStatus, Part, PartKind, Settlement
from agent_fabric.domain.channels.notices import NoticeKind
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ApprovalNotFound
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.domain.policy.outside_plan import Outside

LOOK_BACK = 500
"""Cards that are looked at after a start, for those that were decided meanwhile."""
UNSURE_S = 3_600.0
"""How long a card that may have arrived is looked at: a report or a press tells later that it has."""


class _Places(NamedTuple):
    """Where a question is shown."""

    now: Sequence[Place]
    later: bool = False
    """Whether someone sleeps who is told when they wake up."""


@dataclass(slots=True)
class SendCards:
    """Use case: one card for every question in every chat where it can be answered; edited when it is decided."""

    store: ChannelStore
    people: ManagePeople
    approvals: ApprovalRepository
    new_nonce: Callable[[], str]
    clock: Clock
    machine: FindMachine = unknown_machine
    """Finds machines. On one that wants signatures, a question is answered there, and here only shown."""
    page_url: str = ""
    """Where people reach the page; empty: no one said, so cards name a command."""
    _sent: set[str] = field(default_factory=set)
    """Questions whose cards are in the outbox."""
    _open: set[str] | None = None
    """Questions that had no answer at the last look; None: this is the first one."""

    async def __call__(self, channel: Channel) -> None:
        """Look once.

        Raises:
            StoreUnavailable: the rest is done later.
        """
        pending = [each for each in await self.approvals.list(pending_only=True) if not each.damage]
        for each in pending:
            if each.approval_id not in self._sent and await self._send(channel, each):
                self._sent.add(each.approval_id)
        now_open = {each.approval_id for each in pending}
        before = await self._cards_sent(channel) if self._open is None else self._open
        unclosed = [each for each in before - now_open if not await self._close(channel, each)]
        self._open = now_open.union(unclosed)
        self._sent &= self._open

    async def _cards_sent(self, channel: Channel) -> set[str]:
        known = await self.store.deliveries.list(channel=channel.status.channel, limit=LOOK_BACK)
        cards = (each for each in known if each.kind is PartKind.CARD)
        return {str(each.facts.get("approval_id", "")) for each in cards} - {""}

    async def _send(self, channel: Channel, asked: ApprovalCard) -> bool:
        """Put the cards of a question into the outbox; False: someone is told later."""
        machines = [await self.machine(each) for each in named_machines(asked)]
        only_notifies = any(each.is_signed for each in machines)
        there = {each.place.key for each in await self.store.deliveries.of_source(card_source(asked.approval_id))}
        places = await self._places(channel, asked)
        parts = []
        for place in places.now:
            if place.key in there:
                continue  # its nonce is out already
            nonce, now = self.new_nonce(), self.clock.now()
            limit = CARD_LIMITS.get(place.channel, DEFAULT_CARD_LIMIT)
            card = make_card(
                shown_call(asked, machines),
                nonce,
                limit=limit,
                size=channel.rendering.literal_size,
                only_notifies=only_notifies,
                look=self.page_url,
            )
            facts = {"approval_id": asked.approval_id, "nonce": nonce, "args_hash": asked.args_hash}
            facts["binding"] = asked.binding
            part = plain_part(card_source(asked.approval_id), place, card.text, at=now)
            parts.append(replace(part, kind=PartKind.CARD, buttons=card.buttons, facts=facts))
        if parts:
            await self.store.outbox.put(parts)
        return not places.later

    async def _places(self, channel: Channel, asked: ApprovalCard) -> _Places:
        """Return where a question is shown: in the chat that it comes from, else to each person who may answer.

        Who has said where they want to be told is told only there, and not in their quiet hours, unless the question
        would expire by then.
        """
        account = (channel.status.channel, channel.status.account)
        turn = await self.store.turns.find(asked.run_id)
        if turn is not None:
            return _Places([turn.place] if (turn.place.channel, turn.place.account) == account else [])
        places, later = list[Place](), False
        for person in await self.store.people.list():
            if (person.place.channel, person.place.account) != account:
                continue
            by = await self.people.principal(person.sender)
            if by is None or not by.may(Scope.APPROVALS):
                continue
            try:
                await self.approvals.find(asked.approval_id, viewer=Viewer.of(by))
            except ApprovalNotFound:
                continue
            wanted = await self.store.notify.find(by.name)
            if not wanted.wants(NoticeKind.APPROVAL, person.place.channel):
                continue
            quiet = wanted.quiet_until(self.clock.now())
            if quiet is not None and quiet < asked.expires_at:
                later = True
                continue
            places.append(person.place)
        return _Places(places, later=later)

    async def _close(self, channel: Channel, approval_id: str) -> bool:
        """Edit the cards of a question that has its answer: who, when; False: one of them may still show up.

        A card that was not sent yet is not sent any more.
        """
        try:
            decided = await self.approvals.find(approval_id)
        except ApprovalNotFound:
            return True
        if decided.status is ApprovalStatus.PENDING:
            return True
        now = self.clock.now()
        parts = await self.store.deliveries.of_source(card_source(approval_id))
        edited = {each.edits for each in parts if each.kind is PartKind.EDIT}
        cards = [each for each in parts if each.kind is PartKind.CARD and each.place.channel == channel.status.channel]
        for each in cards:
            if each.status is DeliveryStatus.QUEUED:
                gone = Settlement(status=DeliveryStatus.EXPIRED, problem="it was answered before", counts=False)
                await self.store.outbox.settle(each, gone, now=now)
        arrived = [each for each in cards if each.status is DeliveryStatus.SENT and each.message_id not in edited]
        if arrived:
            await self.store.outbox.put([self._edit(channel, each, decided) for each in arrived])
        unsure = (each for each in cards if each.status in (DeliveryStatus.SENDING, DeliveryStatus.IN_DOUBT))
        return all(now - each.created_at > UNSURE_S for each in unsure)

    def _edit(self, channel: Channel, card: Part, decided: ApprovalCard) -> Part:
        now = self.clock.now()
        text = decided_text(
            card.plain,
            decision=decided.status.value,
            by=decided.decided_by,
            at=decided.decided_at if decided.decided_at is not None else now,
            limit=CARD_LIMITS.get(card.place.channel, DEFAULT_CARD_LIMIT),
            size=channel.rendering.literal_size,
            changed=decided.changed if decided.question is not Question.ANSWER else None,
        )
        edit = plain_part(card.source, card.place, text, at=now, seq=1)
        return replace(edit, kind=PartKind.EDIT, edits=card.message_id)


def shown_call(asked: ApprovalCard, machines: Sequence[Machine] = ()) -> CallShown:
    """Return what a card shows of an approval."""
    as_asked = {each.name: getattr(asked, each.name) for each in fields(CallShown) if each.name != "machines"}
    outside = "" if asked.outside is None else _outside(asked.outside)
    return CallShown(**as_asked | {"outside": outside}, machines=[each.name for each in machines])


def _outside(would_run: Outside) -> str:
    """Return all of what a person agrees to, word by word."""
    words = " ".join(shlex.quote(word) for word in would_run.words)
    lines = [f"{words} as {would_run.account}"]
    lines += [f"goes to {would_run.goes_to}"] if would_run.goes_to else []
    return "\n".join([*lines, *(f"carries {each}" for each in would_run.carries)])
