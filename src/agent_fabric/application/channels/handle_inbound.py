"""Handles what came on a channel: who is it, may they, what do they want."""

import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import assert_never

from agent_fabric.application.channels.answer_press import AnswerPress
from agent_fabric.application.channels.conversations import Conversations
from agent_fabric.application.channels.manage_people import ManagePeople
from agent_fabric.application.channels.replies import DO_IT, LEAVE_IT, plain_part, reply_source
from agent_fabric.application.chat.send_message import SendMessage
from agent_fabric.application.ports.channels import SUBJECT, Channel, ChannelStore, PendingTurn, Tell, tell_nobody
from agent_fabric.application.ports.chat import MessageQueue
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.channels.addresses import Place, run_of_message
from agent_fabric.domain.channels.deliveries import DeliveryStatus, PartKind, Settlement
from agent_fabric.domain.channels.inbound import (
    CATCH_UP_MAX_AGE_S,
    HELP,
    MAX_WAITING,
    Admission,
    ButtonPress,
    ChatMoved,
    Command,
    DeliveryReport,
    Inbound,
    InboundMessage,
    admit,
    command_in,
    is_late,
    late_question,
    with_context,
)
from agent_fabric.domain.channels.pairing import PairingRequest, ShowCode, pairing_text
from agent_fabric.domain.chat import title_from
from agent_fabric.domain.errors import FabricError, Forbidden, StoreUnavailable
from agent_fabric.domain.identity import Principal, Scope
from agent_fabric.domain.ids import RunId

_log = logging.getLogger(__name__)

Stop = Callable[[RunId, str], Awaitable[object]]
"""Ends a run because somebody wants it."""


@dataclass(frozen=True, slots=True)
class HandleInbound:
    """Use case: take what came, one after another in each chat. Handled twice, as after a crash, it has one effect."""

    store: ChannelStore
    people: ManagePeople
    held: Conversations
    queue: MessageQueue
    send: SendMessage
    stop: Stop
    press: AnswerPress
    new_code: Callable[[], str]
    clock: Clock
    groups: Collection[str] = ()
    """Chats of several people in which the bot answers."""
    max_age_s: float = CATCH_UP_MAX_AGE_S
    tell: Tell = tell_nobody

    async def __call__(self, channel: Channel, *, limit: int = 100) -> int:
        """Handle what is pending; return how much that was.

        Raises:
            StoreUnavailable: the rest is handled later.
        """
        pending = await self.store.inbound.pending(channel.status.channel, channel.status.account, limit=limit)
        for each in pending:
            try:
                outcome = await self._handled(channel, each)
            except StoreUnavailable:
                raise
            except FabricError as problem:
                await self._say(each, f"That did not work: {problem.message}", seq=9)
                outcome = problem.code
            except Exception:  # noqa: BLE001 - one message that cannot be handled must not stop all others for ever
                _log.exception("Something that came at %s could not be handled", each.place.key)
                await self._say(each, "Something went wrong here. It is in the server's log.", seq=9)
                outcome = "error"
            await self.store.inbound.settle(each, outcome=outcome)
            told = {"channel": each.place.channel, "account": each.place.account, "outcome": outcome}
            self.tell(f"{SUBJECT}.received", told)
        return len(pending)

    async def _handled(self, channel: Channel, inbound: Inbound) -> str:
        match inbound:
            case ChatMoved():
                await self.store.conversations.move(inbound.place, inbound.to_chat)
                return "moved"
            case DeliveryReport():
                return await self._reported(inbound)
            case ButtonPress():
                return await self._pressed(channel, inbound)
            case InboundMessage():
                return await self._message(inbound)
            case unknown:
                assert_never(unknown)

    async def _reported(self, report: DeliveryReport) -> str:
        """Settle a doubt, or learn that what was taken did not arrive after all."""
        for part in await self.store.deliveries.of_source(report.part_id.rsplit(":", 3)[0]):
            if part.id == report.part_id and part.status in (DeliveryStatus.IN_DOUBT, DeliveryStatus.SENDING):
                status = DeliveryStatus.SENT if report.has_arrived else DeliveryStatus.FAILED
                known = Settlement(status=status, message_id=report.message_id, problem=report.problem, counts=False)
                await self.store.outbox.settle(part, known, now=self.clock.now())
                return f"report {status}"
        return "report"

    async def _message(self, message: InboundMessage) -> str:
        by = await self.people.principal(message.sender)
        match admit(message, is_paired=by is not None, groups=tuple(self.groups)):
            case Admission.IGNORED:
                return "ignored"
            case Admission.PAIR:
                return await self._offer_code(message)
            case Admission.ADMITTED:
                assert by is not None
            case unknown:
                assert_never(unknown)
        if not by.may(Scope.RUNS):
            raise Forbidden(f"{by.name} may look on, but not ask for anything here")
        if not message.is_forwarded and (command := command_in(message.text)) is not None:
            return await self._command(command[0], message, by)
        if is_late(message, now=self.clock.now(), max_age_s=self.max_age_s):
            return await self._ask_whether_still(message)
        if not message.text.strip():
            await self._say(message, "I cannot read files yet. Write what you want done.")
            return "file"
        return await self._begin(message, with_context(message), by)

    async def _offer_code(self, message: InboundMessage) -> str:
        if await self.store.people.find(message.sender) is not None:
            return "disabled"  # they were somebody; that they are not any more is not theirs to hear
        now = self.clock.now()
        code = self.new_code()
        request = PairingRequest(code=code, sender=message.sender, place=message.place, created_at=now)
        if not await self.store.people.ask(request):
            return "silent"
        await self._say(message, pairing_text(ShowCode(), code))
        return "code"

    async def _ask_whether_still(self, message: InboundMessage) -> str:
        now = self.clock.now()
        part = plain_part(reply_source(message), message.place, late_question(message, now=now), at=now)
        facts = {"late": message.key, "text": with_context(message), "sender": message.sender.id}
        await self.store.outbox.put([replace(part, buttons=(DO_IT, LEAVE_IT), facts=facts)])
        return "late"

    async def _begin(self, message: InboundMessage | ButtonPress, text: str, by: Principal, key: str = "") -> str:
        key = key or message.key
        place, sender = message.place, message.sender
        session = await self.held.open(place, sender, by, key, title_from(text))
        if len(await self.queue.list(session.session_id)) >= MAX_WAITING:
            await self._say(message, f"{MAX_WAITING} messages wait already, so I did not take this one.")
            return "full"
        run_id = run_of_message(place.channel, place.account, key)
        await self.store.turns.add(PendingTurn(run_id, place, sender, message.message_id))
        try:
            await self.send(session, text, by=by, run_id=run_id, limited=True)
        except StoreUnavailable:
            raise
        except FabricError:
            await self.store.turns.close(run_id)
            raise
        return f"run {run_id}"

    async def _command(self, command: Command, message: InboundMessage, by: Principal) -> str:
        match command:
            case Command.HELP | Command.START:
                await self._say(message, HELP)
            case Command.NEW:
                await self.held.begin(message.place, message.sender, by, message.key)
                await self._say(message, "A new conversation. What is it about?")
            case Command.STOP:
                await self._say(message, await self._stop(message.place, by))
            case Command.STATUS:
                await self._say(message, await self._status(message.place))
            case Command.RESEND:
                await self._say(message, await self._resend(message.place))
            case unknown:
                assert_never(unknown)
        return f"/{command}"

    async def _stop(self, place: Place, by: Principal) -> str:
        session = await self.held.find(place)
        if session is None or session.turn is None:
            return "Nothing is under way."
        if session.owner != f"user:{by.name}":
            raise Forbidden(f"This is a session of {session.owner}")
        await self.stop(session.turn, by.name)
        return "Stopped."

    async def _status(self, place: Place) -> str:
        session = await self.held.find(place)
        if session is None:
            return "No conversation yet. Write something."
        doing = "An answer is under way" if session.turn is not None else "Nothing is under way"
        waiting = f", {session.queued} messages wait" if session.queued else ""
        return f"{doing}{waiting}. Session {session.session_id[:8]}."

    async def _resend(self, place: Place) -> str:
        doubts = await self.store.deliveries.list(
            statuses=[DeliveryStatus.IN_DOUBT], channel=place.channel, chat=place.chat, limit=20
        )
        wanted = [each for each in doubts if each.kind is not PartKind.CARD and each.place == place]
        for each in reversed(wanted):
            await self.store.outbox.requeue(each, now=self.clock.now())
        return f"I send {len(wanted)} again." if wanted else "Everything has arrived, as far as I know."

    async def _pressed(self, channel: Channel, press: ButtonPress) -> str:
        if press.data not in (DO_IT.data, LEAVE_IT.data):
            return await self.press(channel, press)
        asked = await self.store.deliveries.of_message(press.place, press.message_id)
        by = await self.people.principal(press.sender)
        if asked is None or by is None or asked.facts.get("sender") != press.sender.id:
            await channel.answer(press, "Sorry, this is not yours to answer.")
            return "not_yours"
        outcome, said = "left", "Left as it is."
        if press.data == DO_IT.data:
            outcome, said = await self._begin(press, str(asked.facts["text"]), by, str(asked.facts["late"])), "I do it."
        now = self.clock.now()
        text = f"{asked.plain}\n\n{said}"
        edit = plain_part(asked.source, press.place, text, at=now, seq=asked.seq + 1)
        await self.store.outbox.put([replace(edit, kind=PartKind.EDIT, edits=press.message_id)])
        await channel.answer(press, "")
        return outcome

    async def _say(self, inbound: Inbound, text: str, *, seq: int = 0) -> None:
        part = plain_part(reply_source(inbound), inbound.place, text, at=self.clock.now(), seq=seq)
        await self.store.outbox.put([part])
