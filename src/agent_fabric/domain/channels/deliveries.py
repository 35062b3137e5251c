"""What goes out, and what is known about whether it has arrived.

A part is `sending` before the request is made, durably. So whatever dies, a part that may have arrived is never taken
for one that has not: it is in doubt, and only what the platform itself says settles that.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, Final, assert_never

from agent_fabric.domain.channels.addresses import Place
from agent_fabric.domain.channels.files import Document
from agent_fabric.domain.dataclass import dataclass

RETRIES_S: Final = (1.0, 5.0, 30.0, 120.0, 600.0, 1_800.0)
"""Pauses after attempts of which nothing can have arrived; the last one is repeated until the part expires."""
LASTS_S: Final = 86_400.0
"""What could not be sent for so long is not wanted any more."""
WINDOW_CLOSED: Final = "they have not written for 24 hours, and the platform lets nothing through until they do"
"""Why a part failed that goes again by itself as soon as the person writes."""
WAITS_S: Final = 7 * 86_400.0
"""How long it waits for that."""
WINDOWED: Final = frozenset({"whatsapp"})
"""Channels that let a message through only for some time after the person has written."""


class DeliveryStatus(StrEnum):
    """Where a part stands."""

    QUEUED = "queued"
    SENDING = "sending"
    """The request was made, or is about to be."""
    SENT = "sent"
    IN_DOUBT = "in_doubt"
    """The answer was lost: it may have arrived."""
    FAILED = "failed"
    """The platform refused it for good."""
    EXPIRED = "expired"


class PartKind(StrEnum):
    """What a part is."""

    TEXT = "text"
    CARD = "card"
    """An approval, with buttons. It goes before everything else."""
    FILE = "file"
    EDIT = "edit"
    """A message that was sent before gets another text, as a card that was decided."""


PRIORITY: Final[Mapping[PartKind, int]] = {PartKind.CARD: 0, PartKind.EDIT: 1, PartKind.TEXT: 2, PartKind.FILE: 2}


HELD: Final = 3
OWN_FROM: Final = 50
"""The number from which on are those parts of an answer that were to change a message, could not, and go as messages of
their own. Each has one such number for ever, so it goes once. Smaller numbers: the answer itself, five and a file."""
FILES_FROM: Final = 100
"""The number from which on are the files that an answer names."""
CARDS: Final = "approval:"
"""How the sources of cards begin, and of what becomes of them."""


@dataclass(frozen=True, slots=True)
class Button:
    """A button below a message."""

    label: str
    data: str
    """What a press brings back. It carries no authority."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One message for a place."""

    source: str
    """What it comes from: a run, an approval, or such as `test`. With `seq` and `number`, it is there only once."""
    seq: int = 0
    number: int = 0
    place: Place
    kind: PartKind = PartKind.TEXT
    text: str = ""
    """With the platform's markup."""
    plain: str = ""
    """The same without."""
    buttons: tuple[Button, ...] = ()
    reply_to: str = ""
    edits: str = ""
    """The message that gets this text instead of its own."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What has to be known when a button is pressed (approval, nonce and hash), or when it is sent (which file)."""
    document: Document | None = None
    """The file that it is, while it is being sent; it is never stored with the part."""
    is_held: bool = False
    """It waits for the end of someone's quiet hours, in a line of its own: it must hold up nothing else."""
    status: DeliveryStatus = DeliveryStatus.QUEUED
    attempts: int = 0
    next_at: float = 0.0
    created_at: float = 0.0
    settled_at: float | None = None
    message_id: str = ""
    """What the platform calls it, once it is sent."""
    problem: str = ""

    @property
    def is_preview(self) -> bool:
        """Whether it only shows that something is under way. No one misses it."""
        return bool(self.facts.get("preview"))

    @property
    def is_verbatim(self) -> bool:
        """Whether people must see every character of it: someone agrees to what stands there."""
        return self.kind is PartKind.CARD or (self.kind is PartKind.EDIT and self.source.startswith(CARDS))

    @property
    def is_knock(self) -> bool:
        """Whether it only asks the person to write, because nothing else is let through to them."""
        return bool(self.facts.get("knock"))

    @property
    def priority(self) -> int:
        """Its line; parts of the same line keep their order in a place."""
        return HELD if self.is_held else PRIORITY[self.kind]

    @property
    def id(self) -> str:
        """Identifies it among all parts; also the nonce for platforms that know one."""
        return f"{self.source}:{self.seq}:{self.number}:{self.place.key}"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The platform has it."""

    message_id: str
    rest_s: float = 0.0
    """How long nothing more may go to this chat; the platform said so."""


@dataclass(frozen=True, slots=True)
class NotReached:
    """No connection was made: nothing can have arrived."""

    problem: str


@dataclass(frozen=True, slots=True)
class Throttled:
    """The platform wants us to wait, exactly so long."""

    retry_after_s: float
    whole_account: bool = False


@dataclass(frozen=True, slots=True)
class AnswerLost:
    """The request went out and no answer came back: it may have arrived."""

    problem: str


@dataclass(frozen=True, slots=True)
class Refused:
    """The platform said no, and will say it again."""

    problem: str


@dataclass(frozen=True, slots=True)
class Unparsable:
    """The platform could not parse the markup: the same part goes again as plain text, once."""

    problem: str


SendOutcome = Accepted | NotReached | Throttled | AnswerLost | Refused | Unparsable


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What is written about a part after an attempt."""

    status: DeliveryStatus
    next_at: float = 0.0
    message_id: str = ""
    problem: str = ""
    as_plain: bool = False
    """Whether it goes as plain text from now on."""
    counts: bool = True
    """Whether it was an attempt of ours; a wait that the platform asked for is none."""
    overrules: bool = False
    """Whether it counts although the part was sent: the platform says later that it did not arrive."""


def settle(part: Part, outcome: SendOutcome, *, now: float, lasts_s: float = LASTS_S) -> Settlement:
    """Decide what follows from an attempt."""
    match outcome:
        case Accepted(message_id):
            return Settlement(status=DeliveryStatus.SENT, message_id=message_id)
        case AnswerLost(problem):
            if part.kind is PartKind.EDIT:  # to set the same text again changes nothing
                return _again(part, problem, now, lasts_s)
            return Settlement(status=DeliveryStatus.IN_DOUBT, next_at=part.next_at, problem=problem)
        case Refused(problem):
            return Settlement(status=DeliveryStatus.FAILED, problem=problem)
        case Unparsable(problem):
            if part.text == part.plain:
                return Settlement(status=DeliveryStatus.FAILED, problem=problem)
            return Settlement(status=DeliveryStatus.QUEUED, next_at=now, problem=problem, as_plain=True)
        case Throttled(retry_after_s):
            return Settlement(status=DeliveryStatus.QUEUED, next_at=now + retry_after_s, counts=False)
        case NotReached(problem):
            return _again(part, problem, now, lasts_s)
        case unknown:
            assert_never(unknown)


def _again(part: Part, problem: str, now: float, lasts_s: float) -> Settlement:
    pause = RETRIES_S[min(part.attempts, len(RETRIES_S) - 1)]
    if now + pause > part.created_at + lasts_s:
        return Settlement(status=DeliveryStatus.EXPIRED, problem=problem)
    return Settlement(status=DeliveryStatus.QUEUED, next_at=now + pause, problem=problem)


def after_crash(part: Part, *, now: float) -> Settlement:
    """Decide about a part that was `sending` when its process died."""
    return settle(part, AnswerLost("the process ended before the platform answered"), now=now)


DOUBT_NOTE: Final = "Part of my answer may not have arrived. Write /resend to have it again."
