"""Platforms on which people write to us, and what is kept about them."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from agent_fabric.domain.audit.acts import Act
from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.channels.deliveries import DeliveryStatus, Part, SendOutcome, Settlement
from agent_fabric.domain.channels.files import FileProblem, StoredFile
from agent_fabric.domain.channels.inbound import ButtonPress, Inbound, InboundFile
from agent_fabric.domain.channels.notices import NotifyPreference
from agent_fabric.domain.channels.pacing import Paces
from agent_fabric.domain.channels.pairing import PairingRequest, Person
from agent_fabric.domain.channels.rendering import Rendering
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId, SessionId

Take = Callable[[Sequence[Inbound]], Awaitable[None]]
"""Makes what came durable; when it returns, the platform may forget it. Raises StoreUnavailable."""

Tell = Callable[[str, Mapping[str, Any]], None]
"""Publishes on the bus: a subject and a message, which never contains what was written."""
SUBJECT = "agent33.channel"


def tell_nobody(subject: str, message: Mapping[str, Any]) -> None:
    """Publish nothing."""


UNDELIVERED: Final = "channel_undelivered"
"""What an alert can be about: something could not be delivered, and no one on the channel can be told so."""
Alert = Callable[[str], None]
"""Raises the alerts about an event of this kind."""


def alert_nobody(kind: str) -> None:
    """Raise nothing."""


HEARD_WITHIN_S = 120.0
"""A channel is connected if something was heard within this time, an empty answer included."""


class ChannelState(StrEnum):
    """How a channel stands."""

    STARTING = "starting"
    CONNECTED = "connected"
    WAITING = "waiting"
    """It could not be reached, or another program polls with its token; it is tried again."""
    REFUSED = "refused"
    """The platform refuses the credential: a person has to do something."""
    STOPPED = "stopped"
    """No server runs."""
    ELSEWHERE = "elsewhere"
    """Another process of the cluster has it."""


@dataclass(slots=True)
class ChannelStatus:
    """How a channel stands, as `fabric channels list` shows it."""

    channel: str
    account: str = ""
    """The bot's id, once the platform has told it."""
    name: str = ""
    """What the bot calls itself; only shown, never compared."""
    state: ChannelState = ChannelState.STARTING
    problem: str = ""
    hint: str = ""
    heard_at: float | None = None

    def is_connected(self, now: float) -> bool:
        """Tell whether something was heard lately."""
        return (
            self.state is ChannelState.CONNECTED and self.heard_at is not None and now - self.heard_at <= HEARD_WITHIN_S
        )


class Channel(Protocol):
    """One account on one platform. Its methods raise only FabricError, and CancelledError."""

    @property
    def status(self) -> ChannelStatus: ...

    @property
    def rendering(self) -> Rendering:
        """How text is written there."""
        ...

    @property
    def paces(self) -> Paces:
        """How fast it may be written to."""
        ...

    async def receive(self, take: Take) -> None:
        """Receive until cancelled: what comes is taken first, and acknowledged then. Back-off is its own business.

        Raises:
            ConfigError: the platform refuses the credential; the hint is the remedy.
        """
        ...

    async def send(self, part: Part) -> SendOutcome:
        """Send one part, once. A part that edits changes a message and never makes a new one."""
        ...

    async def trace(self, part: Part) -> SendOutcome:
        """Find out what became of a part whose answer was lost, without sending it twice.

        `next_at` of the part is when it was attempted; some platforms know it only for a time.

        Returns:
            Accepted: it is there. NotReached: it is not, and may be sent again. AnswerLost: it is not known.
        """
        ...

    async def answer(self, press: ButtonPress, text: str) -> None:
        """Tell the one who pressed a button, and no one else, what became of it; best effort."""
        ...

    async def aclose(self) -> None: ...


@runtime_checkable
class BringsFiles(Protocol):
    """A channel that can fetch what people send."""

    async def download(self, file: InboundFile, *, max_bytes: int) -> bytes | FileProblem:
        """Return the content of a file, from the platform itself and from nowhere else."""
        ...


class RunDocuments(Protocol):
    """Files in the workspaces of runs, as they go out. No link is followed; project folders have none."""

    async def list(self, run_id: RunId, *, since: float = 0.0) -> Mapping[str, int]:
        """Return the paths and sizes of files that were made or changed since a moment; empty if there are none."""
        ...

    async def read(self, run_id: RunId, path: str, *, max_bytes: int) -> bytes:
        """Return a file.

        Raises:
            FabricError: it is gone, too large, or not to be had now.
        """
        ...


class InboundFiles(Protocol):
    """Files of people, sealed, until they are in the workspace of the turn that they belong to."""

    async def put(self, run_id: RunId, files: Sequence[StoredFile], *, now: float) -> None:
        """Keep files for a turn; those that are known stay as they are."""
        ...

    async def list(self, run_id: RunId) -> Sequence[StoredFile]: ...

    async def discard(self, run_id: RunId) -> None:
        """Forget the files of a turn: they are where they belong, or no one wants them."""
        ...


class PeopleStore(Protocol):
    """Who is who, and who was shown a code."""

    async def find(self, sender: Sender) -> Person | None:
        """Return the person whom a sender is; None: a stranger."""
        ...

    async def list(self) -> Sequence[Person]: ...

    async def ask(self, request: PairingRequest) -> bool:
        """Keep a code that is to be shown; False: by `may_show_code`, none is. Decided in one transaction."""
        ...

    async def pair(self, code: str, user: str, *, now: float, act: Act | None) -> Person:
        """Make the sender of a code a user; the code is used up with it.

        Raises:
            PairingNotFound: no living code is this one.
        """
        ...

    async def unpair(self, sender: Sender, *, act: Act | None) -> bool:
        """Make a person a stranger; False: they are one."""
        ...


class InboundLog(Protocol):
    """What came, each once. It is kept until it was handled, in the order of each place."""

    async def add(self, inbound: Sequence[Inbound], *, now: float) -> int:
        """Make what came durable; return how much of it is new. Known keys are left alone."""
        ...

    async def pending(self, channel: str, account: str, *, limit: int) -> Sequence[Inbound]:
        """Return the oldest of each place that was not handled."""
        ...

    async def settle(self, handled: Sequence[tuple[Inbound, str]]) -> None:
        """Note what was handled, each with what came of it."""
        ...

    async def newest(self, place: Place) -> str:
        """Return the key of what came last to a place; empty: nothing did."""
        ...


class Conversation(NamedTuple):
    """A session that is held at a place."""

    session_id: SessionId
    place: Place
    sender: Sender
    """Who began it."""


class ConversationStore(Protocol):
    """Which session is held where: per place, in direct messages per person."""

    async def find(self, place: Place) -> Conversation | None:
        """Return the conversation of a place; None: there is none yet."""
        ...

    async def bind(self, conversation: Conversation) -> None:
        """Hold a session at a place, instead of the one before."""
        ...

    async def move(self, place: Place, to_chat: str) -> None:
        """Move all conversations of a chat, and what is to be sent to it, to another, in one transaction."""
        ...


class PendingTurn(NamedTuple):
    """A turn that a message has begun, and whose answer was not relayed yet."""

    run_id: RunId
    place: Place
    sender: Sender
    message_id: str
    """The message that it answers."""


class TurnStore(Protocol):
    """Turns whose answers are owed to someone. A turn is noted before it can begin."""

    async def add(self, turn: PendingTurn) -> None:
        """Note a turn; again is no error."""
        ...

    async def open(self, channel: str, account: str, *, limit: int) -> Sequence[PendingTurn]:
        """Return turns whose answers are owed, oldest first."""
        ...

    async def find(self, run_id: RunId) -> PendingTurn | None:
        """Return the turn of a run whose answer is owed."""
        ...

    async def close(self, run_id: RunId) -> None:
        """Forget a turn: its answer is in the outbox."""
        ...


class ChannelOutbox(Protocol):
    """What goes out. A part of the same source, seq and number to the same place is there once."""

    async def put(self, parts: Sequence[Part]) -> None:
        """Keep parts until they are settled; one that is known stays as it is."""
        ...

    async def due(self, channel: str, account: str, now: float, *, limit: int) -> Sequence[Part]:
        """Return queued parts whose time has come: cards first, then the first of each place."""
        ...

    async def begin(self, part: Part, *, now: float) -> bool:
        """Note, durably, that a part is being sent, and since when; False: it is not queued any more."""
        ...

    async def settle(self, part: Part, settlement: Settlement, *, now: float) -> None: ...

    async def requeue(self, part: Part, *, now: float) -> bool:
        """Send a part again that is in doubt, failed or expired, because a person wants it; False: it is none."""
        ...


class DeliveryHistory(Protocol):
    """What went out, for people and for pressed buttons."""

    async def list(
        self, *, statuses: Sequence[DeliveryStatus] = (), channel: str = "", chat: str = "", limit: int = 100
    ) -> Sequence[Part]:
        """Return parts, newest first."""
        ...

    async def of_message(self, place: Place, message_id: str) -> Part | None:
        """Return the part that was sent to a chat as this message."""
        ...

    async def of_source(self, source: str) -> Sequence[Part]:
        """Return the parts of a run or an approval, in their order."""
        ...


class NotifyStore(Protocol):
    """Where users want to be told."""

    async def find(self, user: str) -> NotifyPreference:
        """Return the preference of a user; without one, that of everyone."""
        ...

    async def list(self) -> Sequence[NotifyPreference]:
        """Return all preferences that were set, by user."""
        ...

    async def save(self, preference: NotifyPreference, *, act: Act | None) -> None:
        """Keep a preference instead of the one before."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStore:
    """Everything that channels store."""

    people: PeopleStore
    inbound: InboundLog
    conversations: ConversationStore
    turns: TurnStore
    outbox: ChannelOutbox
    deliveries: DeliveryHistory
    notify: NotifyStore
    files: InboundFiles
    prune: Callable[[float], Awaitable[int]]
    """Deletes what was handled or settled and is older than a moment; returns how much that was."""
