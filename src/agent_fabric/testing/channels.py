"""Channels in memory, for tests: a store, and a platform that says what it is told to say."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agent_fabric.application.ports.channels import ChannelState, ChannelStatus, Conversation, PendingTurn, Take
from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.channels.deliveries import (
    Accepted,
    AnswerLost,
    DeliveryStatus,
    Part,
    PartKind,
    SendOutcome,
    Settlement,
)
from agent_fabric.domain.channels.files import FileProblem, StoredFile
from agent_fabric.domain.channels.inbound import ButtonPress, Inbound, InboundFile
from agent_fabric.domain.channels.notices import NotifyPreference
from agent_fabric.domain.channels.pacing import Paces
from agent_fabric.domain.channels.pairing import PairingRequest, Person, ShowCode, pairing_step
from agent_fabric.domain.channels.rendering import PLAIN, Rendering
from agent_fabric.domain.errors import PairingNotFound
from agent_fabric.domain.ids import RunId, SessionId

_OPEN = (DeliveryStatus.QUEUED, DeliveryStatus.SENDING)


class MemoryPeople:
    """PeopleStore in memory."""

    def __init__(self) -> None:
        self.people: dict[Sender, Person] = {}
        self.codes: dict[str, PairingRequest] = {}
        self.acts: list[Act] = []

    async def find(self, sender: Sender) -> Person | None:
        return self.people.get(sender)

    async def list(self) -> Sequence[Person]:
        return sorted(self.people.values(), key=lambda each: (each.user, each.sender.channel, each.sender.id))

    async def ask(self, request: PairingRequest) -> bool:
        account = (request.sender.channel, request.sender.account)
        same = [each for each in self.codes.values() if (each.sender.channel, each.sender.account) == account]
        if not isinstance(pairing_step(request.sender, same, now=request.created_at), ShowCode):
            return False
        self.codes[request.code] = request
        return True

    async def pair(self, code: str, user: str, *, now: float, act: Act | None) -> Person:
        request = self.codes.pop(code, None)
        if request is None or request.expires_at <= now:
            raise PairingNotFound("No such pairing code is waiting")
        by = act.by if act is not None else ""
        person = Person(sender=request.sender, user=user, place=request.place, paired_at=now, paired_by=by)
        self.people[request.sender] = person
        self.acts += [act] if act is not None else []
        return person

    async def unpair(self, sender: Sender, *, act: Act | None) -> bool:
        known = self.people.pop(sender, None) is not None
        self.acts += [act] if known and act is not None else []
        return known


class MemoryInbound:
    """InboundLog in memory."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str, str], Inbound] = {}
        self.outcomes: dict[tuple[str, str, str], str] = {}
        self.came_at: dict[tuple[str, str, str], float] = {}

    async def add(self, inbound: Sequence[Inbound], *, now: float) -> int:
        before = len(self.kept)
        for each in inbound:
            self.kept.setdefault(_inbound_key(each), each)
            self.came_at.setdefault(_inbound_key(each), now)
        return len(self.kept) - before

    async def pending(self, channel: str, account: str, *, limit: int) -> Sequence[Inbound]:
        first: dict[Place, Inbound] = {}
        for key, each in self.kept.items():
            if key[:2] == (channel, account) and key not in self.outcomes:
                first.setdefault(replace(each.place, is_direct=True), each)
        return list(first.values())[:limit]

    async def settle(self, handled: Sequence[tuple[Inbound, str]]) -> None:
        for each, outcome in handled:
            self.outcomes.setdefault(_inbound_key(each), outcome)

    async def newest(self, place: Place) -> str:
        return next((each.key for each in reversed(self.kept.values()) if each.place.key == place.key), "")


class MemoryConversations:
    """ConversationStore in memory."""

    def __init__(self, outbox: "MemoryChannelOutbox", turns: "MemoryTurns") -> None:
        self.held: dict[str, Conversation] = {}
        self._outbox = outbox
        self._turns = turns

    async def find(self, place: Place) -> Conversation | None:
        return self.held.get(place.key)

    async def of_session(self, session_id: SessionId) -> Conversation | None:
        return next((each for each in self.held.values() if each.session_id == session_id), None)

    async def bind(self, conversation: Conversation) -> None:
        self.held[conversation.place.key] = conversation

    async def move(self, place: Place, to_chat: str) -> None:
        def is_there(other: Place) -> bool:
            return (other.channel, other.account, other.chat) == (place.channel, place.account, place.chat)

        for each in [each for each in self.held.values() if is_there(each.place)]:
            del self.held[each.place.key]
            moved = each._replace(place=replace(each.place, chat=to_chat))
            self.held[moved.place.key] = moved
        for turn in [each for each in self._turns.owed.values() if is_there(each.place)]:
            self._turns.owed[turn.run_id] = turn._replace(place=replace(turn.place, chat=to_chat))
        kept = list(self._outbox.parts.values())
        self._outbox.parts.clear()
        for part in kept:
            moves = is_there(part.place) and part.status is DeliveryStatus.QUEUED
            moved_part = replace(part, place=replace(part.place, chat=to_chat)) if moves else part
            self._outbox.parts[moved_part.id] = moved_part


class MemoryChannelOutbox:
    """ChannelOutbox and DeliveryHistory in memory."""

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}

    async def put(self, parts: Sequence[Part]) -> None:
        for part in parts:
            self.parts.setdefault(part.id, part)

    async def due(self, channel: str, account: str, now: float, *, limit: int) -> Sequence[Part]:
        first: dict[tuple[str, str, int], Part] = {}
        for part in self.parts.values():
            if (part.place.channel, part.place.account) == (channel, account) and part.status in _OPEN:
                first.setdefault((part.place.chat, part.place.thread, part.priority), part)
        due = [each for each in first.values() if each.status is DeliveryStatus.QUEUED and each.next_at <= now]
        return sorted(due, key=lambda each: each.priority)[:limit]

    async def begin(self, part: Part, *, now: float) -> bool:
        known = self.parts.get(part.id)
        if known is None or known.status is not DeliveryStatus.QUEUED:
            return False
        self.parts[part.id] = replace(known, status=DeliveryStatus.SENDING, next_at=now)
        return True

    async def settle(self, part: Part, settlement: Settlement, *, now: float) -> None:
        known = self.parts.get(part.id)
        overruled = (DeliveryStatus.SENT,) if settlement.overrules else ()
        if known is None or known.status not in (*_OPEN, DeliveryStatus.IN_DOUBT, *overruled):
            return
        self.parts[part.id] = replace(
            known,
            status=settlement.status,
            attempts=part.attempts + int(settlement.counts),
            next_at=settlement.next_at,
            settled_at=None if settlement.status is DeliveryStatus.QUEUED else now,
            message_id=settlement.message_id,
            problem=settlement.problem,
            text=known.plain if settlement.as_plain else known.text,
        )

    async def requeue(self, part: Part, *, now: float) -> bool:
        known = self.parts.get(part.id)
        over = (DeliveryStatus.IN_DOUBT, DeliveryStatus.FAILED, DeliveryStatus.EXPIRED)
        if known is None or known.status not in over:
            return False
        self.parts[part.id] = replace(
            known,
            status=DeliveryStatus.QUEUED,
            attempts=0,
            next_at=now,
            created_at=now,
            settled_at=None,
            problem="",
        )
        return True

    async def list(
        self, *, statuses: Sequence[DeliveryStatus] = (), channel: str = "", chat: str = "", limit: int = 100
    ) -> Sequence[Part]:
        found = [
            part
            for part in self.parts.values()
            if (not statuses or part.status in statuses)
            and channel in ("", part.place.channel)
            and chat in ("", part.place.chat)
        ]
        return found[::-1][:limit]

    async def of_message(self, place: Place, message_id: str) -> Part | None:
        for part in self.parts.values():
            there = (part.place.channel, part.place.account, part.place.chat)
            wanted = (place.channel, place.account, place.chat)
            if message_id and there == wanted and part.message_id == message_id and part.kind is not PartKind.EDIT:
                return part
        return None

    async def of_source(self, source: str) -> Sequence[Part]:
        found = [part for part in self.parts.values() if part.source == source]
        return sorted(found, key=lambda each: (each.seq, each.number))


class MemoryTurns:
    """TurnStore in memory."""

    def __init__(self) -> None:
        self.owed: dict[RunId, PendingTurn] = {}

    async def add(self, turn: PendingTurn) -> None:
        self.owed.setdefault(turn.run_id, turn)

    async def open(self, channel: str, account: str, *, limit: int) -> Sequence[PendingTurn]:
        owed = [each for each in self.owed.values() if (each.place.channel, each.place.account) == (channel, account)]
        return owed[:limit]

    async def find(self, run_id: RunId) -> PendingTurn | None:
        return self.owed.get(run_id)

    async def close(self, run_id: RunId) -> None:
        self.owed.pop(run_id, None)


class MemoryInboundFiles:
    """InboundFiles in memory."""

    def __init__(self) -> None:
        self.kept: dict[RunId, dict[str, StoredFile]] = {}

    async def put(self, run_id: RunId, files: Sequence[StoredFile], *, now: float) -> None:  # noqa: ARG002 - nobody looks
        for each in files:
            self.kept.setdefault(run_id, {}).setdefault(each.path, each)

    async def list(self, run_id: RunId) -> Sequence[StoredFile]:
        return [each for _, each in sorted(self.kept.get(run_id, {}).items())]

    async def discard(self, run_id: RunId) -> None:
        self.kept.pop(run_id, None)


class MemoryNotify:
    """NotifyStore in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, NotifyPreference] = {}

    async def find(self, user: str) -> NotifyPreference:
        return self.kept.get(user, NotifyPreference(user=user))

    async def list(self) -> Sequence[NotifyPreference]:
        return [self.kept[name] for name in sorted(self.kept)]

    async def save(self, preference: NotifyPreference, *, act: Act | None) -> None:  # noqa: ARG002 - nobody looks
        self.kept[preference.user] = preference


class MemoryChannels:
    """ChannelStore in memory."""

    def __init__(self) -> None:
        self.people = MemoryPeople()
        self.inbound = MemoryInbound()
        self.outbox = self.deliveries = MemoryChannelOutbox()
        self.turns = MemoryTurns()
        self.notify = MemoryNotify()
        self.files = MemoryInboundFiles()
        self.conversations = MemoryConversations(self.outbox, self.turns)

    async def prune(self, before: float) -> int:
        open_now = (DeliveryStatus.QUEUED, DeliveryStatus.SENDING)
        old = [key for key in self.inbound.outcomes if self.inbound.came_at.get(key, before) < before]
        for key in old:
            del self.inbound.kept[key], self.inbound.outcomes[key]
        parts = self.outbox.parts
        gone = [each.id for each in parts.values() if each.created_at < before and each.status not in open_now]
        for part_id in gone:
            del parts[part_id]
        return len(old) + len(gone)


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass(slots=True)
class ScriptedChannel:
    """Channel of a platform that answers as it is told, and remembers what it was sent."""

    status: ChannelStatus = field(
        default_factory=lambda: ChannelStatus("scripted", account="1", state=ChannelState.CONNECTED)
    )
    rendering: Rendering = PLAIN
    paces: Paces = field(default_factory=Paces)
    outcomes: list[SendOutcome] = field(default_factory=list)
    """What is answered to the next parts; after them, everything is accepted."""
    traces: list[SendOutcome] = field(default_factory=list)
    """What is found out about the next parts in doubt; after them, nobody knows."""
    traced: list[Part] = field(default_factory=list)
    sent: list[Part] = field(default_factory=list)
    answers: list[tuple[ButtonPress, str]] = field(default_factory=list)
    updates: list[Inbound] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    """What people have sent, by its id there."""
    files_arrive: asyncio.Event = field(default_factory=_set_event)
    """Cleared: files take their time until it is set."""

    async def receive(self, take: Take) -> None:
        await take(self.updates)

    async def send(self, part: Part) -> SendOutcome:
        self.sent.append(part)
        return self.outcomes.pop(0) if self.outcomes else Accepted(f"m{len(self.sent)}")

    async def trace(self, part: Part) -> SendOutcome:
        self.traced.append(part)
        return self.traces.pop(0) if self.traces else AnswerLost("nobody knows")

    async def answer(self, press: ButtonPress, text: str) -> None:
        self.answers.append((press, text))

    async def download(self, file: InboundFile, *, max_bytes: int) -> bytes | FileProblem:
        await self.files_arrive.wait()
        content = self.files.get(file.file_id)
        if content is None:
            return FileProblem("it is not there")
        return content if len(content) <= max_bytes else FileProblem("it is too large")

    async def aclose(self) -> None:
        """Nothing is open."""


def _inbound_key(inbound: Inbound) -> tuple[str, str, str]:
    return inbound.place.channel, inbound.place.account, inbound.key
