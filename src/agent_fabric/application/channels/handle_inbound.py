"""Handles what came on a channel: who is it, may they, what do they want."""

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import asdict, replace
from typing import assert_never

from agent_fabric.application.channels.answer_press import AnswerPress
from agent_fabric.application.channels.conversations import Conversations
from agent_fabric.application.channels.deliver_parts import TellUndelivered
from agent_fabric.application.channels.manage_deliveries import is_worth_sending
from agent_fabric.application.channels.manage_people import ManagePeople
from agent_fabric.application.channels.receive_files import ReceiveFiles
from agent_fabric.application.channels.replies import DO_IT, LEAVE_IT, interrupted_source, plain_part, reply_source
from agent_fabric.application.channels.send_files import SendFiles
from agent_fabric.application.chat.send_message import SendMessage
from agent_fabric.application.ports.channels import SUBJECT, Channel, ChannelStore, PendingTurn, Tell, tell_nobody
from agent_fabric.application.ports.chat import MessageQueue
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.channels.addresses import Place, run_of_message
from agent_fabric.domain.channels.deliveries import (
    OWN_FROM,
    WAITS_S,
    WINDOW_CLOSED,
    WINDOWED,
    DeliveryStatus,
    Part,
    PartKind,
    Settlement,
)
from agent_fabric.domain.channels.files import files_note
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
    InboundFile,
    InboundMessage,
    Said,
    admit,
    command_in,
    is_late,
    late_question,
    with_context,
)
from agent_fabric.domain.channels.pairing import PairingRequest, pairing_text
from agent_fabric.domain.chat.sessions import title_from
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, Forbidden, StoreUnavailable
from agent_fabric.domain.identity.principals import Principal, Scope
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import Quoted

_FILES_LEFT, _FAILED = 8, 9
"""Sequences of what is said about one message beside its answer: handled again, it is said only once."""
MAX_OWED = 1_000
"""Turns of an account that are looked at for those that were interrupted."""

_log = logging.getLogger(__name__)

Stop = Callable[[RunId, str], Awaitable[object]]
"""Ends a run because someone wants it."""


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
    fetch: ReceiveFiles
    files: SendFiles | None = None
    """Sends files of conversations; None: none are sent."""
    undelivered: TellUndelivered | None = None
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
        handled = list[tuple[Inbound, str]]()
        try:
            for each in pending:
                outcome = await self._outcome(channel, each)
                if outcome is not None:
                    handled.append((each, outcome))
        finally:  # in one transaction; what is handled again has the same effect
            if handled:
                await self.store.inbound.settle(handled)
        for each, outcome in handled:
            told = {"channel": each.place.channel, "account": each.place.account, "outcome": outcome}
            self.tell(f"{SUBJECT}.received", told)
        return len(handled)

    async def _outcome(self, channel: Channel, inbound: Inbound) -> str | None:
        """Return what came of it; None: something is still on its way, so it stays where it is."""
        try:
            return await self._handle(channel, inbound)
        except StoreUnavailable:
            raise
        except FabricError as problem:
            await self._say(inbound, f"That did not work: {problem.message}", seq=_FAILED)
            return problem.code
        except Exception:  # noqa: BLE001 - one message that cannot be handled must not stop all others for ever
            _log.exception("Something that came at %s could not be handled", inbound.place.key)
            await self._say(inbound, "Something went wrong here. It is in the server's log.", seq=_FAILED)
            return "error"

    async def _handle(self, channel: Channel, inbound: Inbound) -> str | None:
        match inbound:
            case ChatMoved():
                await self.store.conversations.move(inbound.place, inbound.to_chat)
                return "moved"
            case DeliveryReport():
                return await self._take_report(inbound)
            case ButtonPress():
                return await self._take_press(channel, inbound)
            case InboundMessage():
                return await self._message(channel, inbound)
            case unknown:
                assert_never(unknown)

    async def _take_report(self, report: DeliveryReport) -> str:
        """Settle a doubt, or learn that what was taken did not arrive after all."""
        open_now = [DeliveryStatus.IN_DOUBT, DeliveryStatus.SENDING]
        if not report.has_arrived:
            open_now.append(DeliveryStatus.SENT)
        for part in await self.store.deliveries.of_source(report.part_id.rsplit(":", 3)[0]):
            if part.id == report.part_id and part.status in open_now:
                status = DeliveryStatus.SENT if report.has_arrived else DeliveryStatus.FAILED
                known = Settlement(
                    status=status,
                    message_id=report.message_id,
                    problem=report.problem,
                    counts=False,
                    overrules=not report.has_arrived,
                )
                await self.store.outbox.settle(part, known, now=self.clock.now())
                if self.undelivered is not None:
                    await self.undelivered(part, known)
                return f"report {status}"
        return "report"

    async def _message(self, channel: Channel, message: InboundMessage) -> str | None:
        by = await self.people.principal(message.sender)
        match admit(message, is_paired=by is not None, groups=tuple(self.groups)):
            case Admission.IGNORED:
                if by is not None and message.is_addressed and not message.is_bot:
                    _log.info("The bot was mentioned in %s, which is not listed in `groups`", message.place.key)
                return "ignored"
            case Admission.PAIR:
                return await self._offer_code(message)
            case Admission.ADMITTED:
                assert by is not None
            case unknown:
                assert_never(unknown)
        if message.place.channel in WINDOWED:
            await self._send_what_waited(message.place)
        if not by.may(Scope.RUNS):
            raise Forbidden(f"{by.name} may look on, but not ask for anything here")
        if not message.is_forwarded and (command := command_in(message.text)) is not None:
            return await self._command(command[0], command[1], message, by)
        if is_late(message, now=self.clock.now(), max_age_s=self.max_age_s):
            return await self._ask_whether_still(message)
        return await self._begin(channel, message, with_context(message), by, files=message.files)

    async def _send_what_waited(self, place: Place) -> None:
        """Send again what was not let through because the person had not written for a day."""
        failed = await self.store.deliveries.list(
            statuses=[DeliveryStatus.FAILED], channel=place.channel, chat=place.chat, limit=MAX_WAITING
        )
        now = self.clock.now()
        for each in reversed(failed):
            waits = each.problem == WINDOW_CLOSED and not each.is_knock and now - each.created_at <= WAITS_S
            if waits and await is_worth_sending(each, self.press.approvals):
                await self.store.outbox.requeue(each, now=now)

    async def _offer_code(self, message: InboundMessage) -> str:
        if await self.store.people.find(message.sender) is not None:
            return "disabled"  # they were someone; that they are not any more is not theirs to hear
        now = self.clock.now()
        code = self.new_code()
        request = PairingRequest(code=code, sender=message.sender, place=message.place, created_at=now)
        if not await self.store.people.ask(request):
            return "silent"
        await self._say(message, pairing_text(code))
        return "code"

    async def _ask_whether_still(self, message: InboundMessage) -> str:
        now = self.clock.now()
        part = plain_part(reply_source(message), message.place, late_question(message, now=now), at=now)
        facts = {
            "late": message.key,
            "said": asdict(with_context(message)),
            "sender": message.sender.id,
            "files": [asdict(each) for each in message.files],
        }
        await self.store.outbox.put([replace(part, buttons=(DO_IT, LEAVE_IT), facts=facts)])
        return "late"

    async def _begin(
        self,
        channel: Channel,
        message: InboundMessage | ButtonPress,
        said: Said,
        by: Principal,
        *,
        key: str = "",
        files: Sequence[InboundFile] = (),
    ) -> str | None:
        key = key or message.key
        place, sender = message.place, message.sender
        session = await self.held.open(place, sender, by, key, title_from(said.text or "Files"))
        if len(await self.queue.list(session.session_id)) >= MAX_WAITING:
            await self._say(message, f"{MAX_WAITING} messages wait already, so I did not take this one.")
            return "full"
        fetched = await self.fetch(channel, key, files)
        if fetched is None:
            return None
        if fetched.problems:
            await self._say(message, "\n".join(fetched.problems), seq=_FILES_LEFT)
        if not said.text.strip() and not fetched.files:
            return "file"
        run_id = run_of_message(place.channel, place.account, key)
        await self.store.turns.add(PendingTurn(run_id, place, sender, message.message_id))
        handed = said.untrusted  # no matter who wrote it, the world must not have it
        quotes = Quoted(own_words=said.own_words, untrusted=handed, private=handed) if handed else None
        text = said.text
        if fetched.files:
            await self.store.files.put(run_id, fetched.files, now=self.clock.now())
            handed = (*handed, f"files sent on {place.channel}")
            quotes = Quoted(own_words=said.own_words, untrusted=handed, private=handed)
            text = "\n\n".join(filter(None, (text, files_note(fetched.files))))
        try:
            await self.send(
                session, text, by=by, run_id=run_id, limited=True, quotes=quotes, has_files=bool(fetched.files)
            )
        except StoreUnavailable:
            raise
        except FabricError:
            await self.store.turns.close(run_id)
            await self.store.files.discard(run_id)
            raise
        return f"run {run_id}"

    async def _command(self, command: Command, rest: str, message: InboundMessage, by: Principal) -> str:
        match command:
            case Command.HELP | Command.START:
                await self._say(message, HELP)
            case Command.NEW:
                await self.held.begin(message.place, message.sender, by, message.key)
                await self._say(message, "A new conversation. What is it about?")
            case Command.STOP:
                await self._say(message, await self._leave(message, by) or await self._stop(message.place, by))
            case Command.STATUS:
                await self._say(message, await self._status(message.place))
            case Command.RESEND:
                await self._say(message, await self._resend(message.place))
            case Command.FILES:
                await self._send_file(message, rest, by)
            case unknown:
                assert_never(unknown)
        return f"/{command}"

    async def _leave(self, message: InboundMessage, by: Principal) -> str:
        """Leave answers of this chat that were interrupted, in an earlier conversation, too; empty: there are none."""
        place, left = message.place, 0
        for turn in await self.store.turns.open(place.channel, place.account, limit=MAX_OWED):
            is_theirs = turn.place == place and turn.sender == message.sender
            if is_theirs and await self.store.deliveries.of_source(interrupted_source(turn.run_id)):
                await self.stop(turn.run_id, by.name)
                left += 1
        return "I leave it." if left else ""

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
        waiting = f", waiting messages: {session.queued}" if session.queued else ""
        return f"{doing}{waiting}. Session {session.session_id[:8]}."

    async def _resend(self, place: Place) -> str:
        doubts = await self.store.deliveries.list(
            statuses=[DeliveryStatus.IN_DOUBT, DeliveryStatus.FAILED], channel=place.channel, chat=place.chat, limit=50
        )
        wanted = [each for each in doubts if each.place == place and _can_go_again(each)]
        sent = 0
        for each in reversed(wanted):
            sent += await self._send_again(each)
        return f"I send {sent} again." if sent else "Everything has arrived, as far as I know."

    async def _send_again(self, part: Part) -> bool:
        """Send a part again. An answer that could not take the place of its preview gets a message of its own, once."""
        now = self.clock.now()
        if part.kind is not PartKind.EDIT:
            return await self.store.outbox.requeue(part, now=now)
        own = replace(
            part, number=OWN_FROM + part.number, kind=PartKind.TEXT, edits="", facts={}, status=DeliveryStatus.QUEUED
        )
        if any(each.id == own.id for each in await self.store.deliveries.of_source(part.source)):
            return False
        await self.store.outbox.put(
            [replace(own, attempts=0, created_at=now, next_at=now, settled_at=None, problem="")]
        )
        return True

    async def _send_file(self, message: InboundMessage, wanted: str, by: Principal) -> None:
        session = await self.held.find(message.place)
        if self.files is None or session is None:
            await self._say(message, "There are no files in this conversation.")
            return
        if session.owner != f"user:{by.name}":
            raise Forbidden(f"This is a session of {session.owner}")
        if not wanted:
            await self._say(message, await self.files.list_files(session.last_run))
            return
        part = await self.files.asked_for(session.last_run, wanted, message.place, source=reply_source(message))
        if part is None:
            await self._say(message, f"There is no file {wanted[:80]!r} here, or more than one. /files lists them.")
        else:
            await self.store.outbox.put([part])

    async def _take_press(self, channel: Channel, press: ButtonPress) -> str | None:
        if press.data not in (DO_IT.data, LEAVE_IT.data):
            return await self.press(channel, press)
        asked = await self.store.deliveries.of_message(press.place, press.message_id)
        by = await self.people.principal(press.sender)
        if asked is None or by is None or asked.facts.get("sender") != press.sender.id:
            await channel.answer(press, "Sorry, this is not yours to answer.")
            return "not_yours"
        if any(each.edits == press.message_id for each in await self.store.deliveries.of_source(asked.source)):
            await channel.answer(press, "You have answered this already.")
            return "stale"
        if not asked.place.is_direct and asked.place.chat not in self.groups:
            await channel.answer(press, "I do not answer in this group any more.")
            return "ignored"
        if not by.may(Scope.RUNS):
            raise Forbidden(f"{by.name} may look on, but not ask for anything here")
        outcome: str | None = "left"
        if press.data == DO_IT.data:
            outcome = await self._begin(
                channel,
                press,
                _said_then(asked),
                by,
                key=str(asked.facts["late"]),
                files=[InboundFile(**each) for each in asked.facts.get("files", ())],
            )
        if outcome is None:
            return None
        now = self.clock.now()
        text = f"{asked.plain}\n\n{'Left as it is.' if outcome == 'left' else 'I do it.'}"
        edit = plain_part(asked.source, press.place, text, at=now, seq=asked.seq + 1)
        await self.store.outbox.put([replace(edit, kind=PartKind.EDIT, edits=press.message_id)])
        await channel.answer(press, "")
        return outcome

    async def _say(self, inbound: Inbound, text: str, *, seq: int = 0) -> None:
        part = plain_part(reply_source(inbound), inbound.place, text, at=self.clock.now(), seq=seq)
        await self.store.outbox.put([part])


def _can_go_again(part: Part) -> bool:
    """Tell whether a person who wants to have something again means this part."""
    if part.status is DeliveryStatus.FAILED:
        return part.kind is PartKind.EDIT and bool(part.facts.get("final"))
    return part.kind is not PartKind.CARD and not part.is_preview and not part.is_knock


def _said_then(asked: Part) -> Said:
    """Return what a message said about which someone was asked."""
    said = asked.facts.get("said") or {"text": asked.facts["text"], "own_words": asked.facts["text"], "untrusted": ()}
    return Said(text=said["text"], own_words=said["own_words"], untrusted=tuple(said["untrusted"]))
