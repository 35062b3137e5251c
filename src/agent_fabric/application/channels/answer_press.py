"""Lets a pressed button answer an approval, if it is the right person's thumb."""

from typing import assert_never

from agent_fabric.application.approvals.decide_approval import DecideApproval
from agent_fabric.application.channels.manage_people import ManagePeople
from agent_fabric.application.fleet.machine_calls import named_machines
from agent_fabric.application.ports.approvals import Answer, ApprovalCard, ApprovalRepository, ApprovalStatus
from agent_fabric.application.ports.audit import ActLog
from agent_fabric.application.ports.channels import Channel, ChannelStore
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.channels.cards import PressedButton, PressVerdict, card_source, judge_press, read_press
from agent_fabric.domain.channels.deliveries import DeliveryStatus, Part, Settlement
from agent_fabric.domain.channels.inbound import ButtonPress
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ApprovalNotFound, ApprovalRefused, ApprovalSettled, Forbidden
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.identity.principals import Principal, Scope

NOT_YOURS = "Sorry, this is not yours to answer. Someone with the right to approve it has to."


@dataclass(frozen=True, slots=True)
class AnswerPress:
    """Use case: sender, right, chat and message, nonce, hash, single use; in this order, and then the answer.

    The card itself is changed by the watcher of approvals, in every chat that it stands in.
    """

    people: ManagePeople
    store: ChannelStore
    approvals: ApprovalRepository
    decide: DecideApproval
    acts: ActLog
    clock: Clock

    async def __call__(self, channel: Channel, press: ButtonPress) -> str:
        """Answer the press to the one who pressed; return what came of it."""
        pressed = read_press(press.data)
        if pressed is None:
            await channel.answer(press, "This button means nothing any more.")
            return "unknown"
        by = await self.people.principal(press.sender)
        asked = await self._find_asked(pressed, by)
        card = await self._card(press, pressed)
        verdict = judge_press(
            pressed,
            card,
            place=press.place,
            may_answer=asked is not None,
            args_hash=asked.args_hash if asked is not None else "",
            is_pending=asked is not None and asked.status is ApprovalStatus.PENDING,
        )
        match verdict:
            case PressVerdict.GOOD:
                assert by is not None
                assert card is not None
                return await self._decide(channel, press, pressed, by, str(card.facts.get("binding", "")))
            case PressVerdict.STALE:
                await channel.answer(press, "This was answered, has expired, or is another call by now.")
            case PressVerdict.NOT_YOURS | PressVerdict.FORGED:
                await self._record(press, pressed, by, verdict)
                await channel.answer(press, NOT_YOURS)
            case unknown:
                assert_never(unknown)
        return verdict.value

    async def _card(self, press: ButtonPress, pressed: PressedButton) -> Part | None:
        """Return the card that a button stands below.

        Whether it has arrived may have been in doubt: a press with its nonce, in its chat, shows that it has.
        """
        known = await self.store.deliveries.of_message(press.place, press.message_id)
        if known is not None:
            return known
        for part in await self.store.deliveries.of_source(card_source(pressed.approval_id)):
            in_doubt = part.status is DeliveryStatus.IN_DOUBT and part.place == press.place
            if in_doubt and part.facts.get("nonce") == pressed.nonce:
                arrived = Settlement(status=DeliveryStatus.SENT, message_id=press.message_id, counts=False)
                await self.store.outbox.settle(part, arrived, now=self.clock.now())
                return part
        return None

    async def _find_asked(self, pressed: PressedButton, by: Principal | None) -> ApprovalCard | None:
        """Return the approval as the one who pressed may see and answer it; None: they may not."""
        if by is None or not by.may(Scope.APPROVALS):
            return None
        try:
            found = await self.approvals.find(pressed.approval_id, viewer=Viewer.of(by))
        except ApprovalNotFound:
            return None
        lacks_nodes = bool(named_machines(found)) and not by.may(Scope.NODES)
        return found if found.approval_id == pressed.approval_id and not lacks_nodes else None

    async def _decide(
        self, channel: Channel, press: ButtonPress, pressed: PressedButton, by: Principal, binding: str
    ) -> str:
        answer = Answer(decision=pressed.decision, by=by.name, via=press.place.channel, binding=binding)
        try:
            await self.decide(pressed.approval_id, answer, by=by)
        except (ApprovalSettled, ApprovalRefused, ApprovalNotFound, Forbidden) as problem:
            await channel.answer(press, problem.message)
            return problem.code
        await channel.answer(press, "")
        return f"decided {pressed.decision}"

    async def _record(
        self, press: ButtonPress, pressed: PressedButton, by: Principal | None, verdict: PressVerdict
    ) -> None:
        who = press.sender
        act = Act(
            at=self.clock.now(),
            by=by.name if by is not None else f"{who.channel} {who.id}",
            credential=press.place.channel,
            deed=Deed.CHANNEL_PRESS_REFUSED.value,
            about=pressed.approval_id[:64],
            detail=f"{verdict} in {press.place.key}",
        )
        await self.acts.record(act)
