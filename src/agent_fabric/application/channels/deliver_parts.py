"""Sends what is in the outbox of a channel, at the platform's pace, and writes down what is known about it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import field, replace

from agent_fabric.application.channels.replies import plain_part
from agent_fabric.application.ports.channels import (
    SUBJECT,
    UNDELIVERED,
    Alert,
    Channel,
    ChannelOutbox,
    DeliveryHistory,
    RunDocuments,
    Tell,
    alert_nobody,
    tell_nobody,
)
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.channels.deliveries import (
    DOUBT_NOTE,
    WINDOW_CLOSED,
    Accepted,
    AnswerLost,
    DeliveryStatus,
    NotReached,
    Part,
    PartKind,
    Refused,
    SendOutcome,
    Settlement,
    Throttled,
    after_crash,
)
from agent_fabric.domain.channels.deliveries import settle as settlement_after
from agent_fabric.domain.channels.files import MAX_FILE_OUT, Document
from agent_fabric.domain.channels.pacing import Pacer
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, RunFilesWithheld, StoreUnavailable
from agent_fabric.domain.ids import RunId

DAY_S = 86_400.0
KNOCK = "There is a message for you. Write something to get it."


@dataclass(frozen=True, slots=True)
class TellUndelivered:
    """Use case: knock where only a template is let through, and raise an alert where no one can be told.

    A knock goes to a chat once a day. What waits behind it goes out by itself when the person writes.
    """

    outbox: ChannelOutbox
    clock: Clock
    alert: Alert = alert_nobody

    async def __call__(self, part: Part, settlement: Settlement) -> None:
        """Do what follows from a part that was settled."""
        if settlement.status not in (DeliveryStatus.FAILED, DeliveryStatus.EXPIRED) or part.is_preview:
            return
        if settlement.problem == WINDOW_CLOSED and not part.is_knock:
            now = self.clock.now()
            knock = plain_part(f"knock:{part.place.key}", part.place, KNOCK, at=now, seq=int(now // DAY_S))
            await self.outbox.put([replace(knock, facts={"knock": True})])
        else:
            self.alert(UNDELIVERED)


MIN_PAUSE_S = 0.01
AT_ONCE = 20
"""Parts that are under way at the same time, each to another place."""
LOOKED_UP_S = 3_600.0
"""How long after an attempt a start looks up what became of it."""
ANSWER_FILE = "answer.md"
"""The name of an answer that is sent as a file."""


@dataclass(slots=True)
class DeliverParts:
    """Use case: one attempt for every part that is due. One process does it for an account."""

    channel: Channel
    outbox: ChannelOutbox
    history: DeliveryHistory
    clock: Clock
    tell: Tell = tell_nobody
    documents: RunDocuments | None = None
    """Where files of runs are; None: none are sent."""
    undelivered: TellUndelivered | None = None
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    _pacer: Pacer | None = field(default=None)
    free_in_s: float | None = None
    """When something that is due may go, as the platform's pace has it; None: nothing waits for that."""

    @property
    def pacer(self) -> Pacer:
        """What was sent lately."""
        if self._pacer is None:
            self._pacer = Pacer(self.channel.paces)
        return self._pacer

    async def recover(self) -> int:
        """Settle what a process was sending when it died: it may have arrived. Return how much that was.

        What is in doubt since shortly before is looked up as well: the process may have died while it did that.
        """
        status, now = self.channel.status, self.clock.now()
        unsure = [DeliveryStatus.SENDING, DeliveryStatus.IN_DOUBT]
        stranded = [
            part
            for part in await self.history.list(statuses=unsure, channel=status.channel, limit=1_000)
            if part.place.account == status.account
            and (part.status is DeliveryStatus.SENDING or now - part.next_at <= LOOKED_UP_S)
        ]
        for part in stranded:
            settlement = after_crash(part, now=now)
            if part.status is DeliveryStatus.SENDING:
                await self.outbox.settle(part, settlement, now=now)
                self._publish(part, settlement)
            if settlement.status is DeliveryStatus.IN_DOUBT:
                await self._trace(part)
        return len(stranded)

    async def __call__(self) -> int:
        """Send what is due and may go now; return how many attempts were made."""
        status, now = self.channel.status, self.clock.now()
        due = await self.outbox.due(status.channel, status.account, now, limit=5 * AT_ONCE)
        going: list[Part] = []
        waits: list[float] = []
        for part in due:
            free_at = self.pacer.free_at(part.place, now)
            if len(going) < AT_ONCE and free_at <= now:
                self.pacer.note(part.place, now)
                going.append(part)
            else:
                waits.append(max(free_at - now, MIN_PAUSE_S))
        self.free_in_s = min(waits, default=None)
        if going:
            async with asyncio.TaskGroup() as group:
                for part in going:
                    group.create_task(self._send(part))
        return len(going)

    async def _send(self, part: Part) -> None:
        begun_at = self.clock.now()
        if not await self.outbox.begin(part, now=begun_at):
            return
        part = replace(part, next_at=begun_at)
        outcome = await self._attempt(part)
        now = self.clock.now()
        if isinstance(outcome, Accepted) and outcome.rest_s:
            self.pacer.close(part.place, now + outcome.rest_s)
        if isinstance(outcome, Throttled):
            self.pacer.close(part.place, now + outcome.retry_after_s, whole_account=outcome.whole_account)
        settlement = settlement_after(part, outcome, now=now)
        await self.outbox.settle(part, settlement, now=now)
        self._publish(part, settlement)
        if self.undelivered is not None:
            await self.undelivered(part, settlement)
        if settlement.status is DeliveryStatus.IN_DOUBT:
            await self._trace(part)
        if settlement.status is DeliveryStatus.FAILED:
            await self._note_failure(part)

    async def _attempt(self, part: Part) -> SendOutcome:
        """Send a part, with its file if it is one."""
        try:
            whole = await self._with_document(part)
        except StoreUnavailable as problem:
            return NotReached(problem.message)
        except FabricError as problem:
            return Refused(problem.message)
        return await self.channel.send(whole)

    async def _with_document(self, part: Part) -> Part:
        """Return a part with the file that it is.

        Raises:
            FabricError: the file is gone, or cannot be read now.
        """
        if part.kind is not PartKind.FILE:
            return part
        file = part.facts.get("file")
        if file is None:
            return replace(part, document=Document(ANSWER_FILE, part.text.encode()))
        if self.documents is None:
            raise RunFilesWithheld("No files of runs can be sent here")
        path = str(file["path"])
        content = await self.documents.read(RunId(str(file["run_id"])), path, max_bytes=MAX_FILE_OUT)
        return replace(part, document=Document(path.rpartition("/")[2], content))

    async def _trace(self, part: Part) -> None:
        """Settle a doubt if the platform can tell; else tell the person."""
        try:
            outcome = await self.channel.trace(await self._with_document(part))
        except FabricError as problem:
            outcome = AnswerLost(problem.message)
        if isinstance(outcome, Accepted):
            known = await self.history.of_message(part.place, outcome.message_id)
            if known is not None and known.id != part.id:  # the same words, but another message of ours
                outcome = AnswerLost("what is there may be another message that says the same")
        if isinstance(outcome, Accepted | NotReached):
            settlement = settlement_after(part, outcome, now=self.clock.now())
            await self.outbox.settle(part, replace(settlement, counts=False), now=self.clock.now())
            self._publish(part, settlement)
        else:
            await self._note_doubt(part)

    def _publish(self, part: Part, settlement: Settlement) -> None:
        if settlement.status is not DeliveryStatus.QUEUED:
            told = {"id": part.id, "channel": part.place.channel, "kind": part.kind.value}
            told |= {"source": part.source, "problem": settlement.problem}
            self.tell(f"{SUBJECT}.{settlement.status.value}", told)

    async def _note_doubt(self, part: Part) -> None:
        """Tell the person that something may be missing; never about such a note itself, and once for a source."""
        if part.source.startswith("doubt:") or part.kind is PartKind.CARD or part.is_preview or part.is_knock:
            return
        note = plain_part(f"doubt:{part.source}", part.place, DOUBT_NOTE, at=self.clock.now())
        await self.outbox.put([note])

    async def _note_failure(self, part: Part) -> None:
        """Tell the person about a file that could not go, or an answer that could not take the place of its preview."""
        if part.kind is PartKind.FILE and part.facts.get("file"):
            text = f"I could not send {part.plain}. /files lists what is there."
            await self.outbox.put([plain_part(f"doubt:{part.id}", part.place, text, at=self.clock.now())])
        elif part.kind is PartKind.EDIT and part.facts.get("final"):
            await self._note_doubt(part)
