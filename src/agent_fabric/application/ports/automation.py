"""Where schedules, their firings, sensors, receivers of messages and dead letters are kept."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from agent_fabric.domain.automation.firing import AskedPerson, Firing
from agent_fabric.domain.automation.outgoing import OutgoingMessage, Subscription
from agent_fabric.domain.automation.schedule import RuleVersion, Schedule
from agent_fabric.domain.automation.sensing import Look
from agent_fabric.domain.automation.timing import WallTimes
from agent_fabric.domain.automation.why import Life
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.status import RunStatus

if TYPE_CHECKING:  # lists need no runs
    from agent_fabric.domain.events import Event
    from agent_fabric.domain.runs.task import Task


class SendOutcome(NamedTuple):
    """What a receiver answered."""

    status: int
    """0: nothing came back."""
    problem: str = ""

    @property
    def is_taken(self) -> bool:
        return 200 <= self.status < 300


class MessageSender(Protocol):
    """Sends messages over HTTP."""

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> SendOutcome:
        """Send one message. Never raises for what the receiver does; redirects are not followed."""
        ...

    async def aclose(self) -> None: ...


class SubscriptionStore(Protocol):
    """Receivers."""

    async def save(self, subscription: Subscription, *, new: bool = False) -> None:
        """Keep a subscription.

        Raises:
            NameTaken: it is to be new, and there is one of this name.
        """
        ...

    async def list(self) -> Sequence[Subscription]: ...

    async def remove(self, name: str) -> bool:
        """Delete a subscription and what was to be sent to it; False: there is none."""
        ...


class OutgoingQueue(Protocol):
    """Messages that receivers have not had yet."""

    async def put(self, messages: Sequence[OutgoingMessage]) -> None:
        """Keep messages until they are sent; one that is known stays as it is."""
        ...

    async def claim(self, subscription: str, now: float, *, until: float) -> OutgoingMessage | None:
        """Return a message whose time has come, for this process until then. Messages of one run keep their order."""
        ...

    async def settle(self, message: OutgoingMessage, *, next_at: float | None) -> None:
        """Forget a message that was sent or given up; with `next_at`, note a failed attempt instead."""
        ...


class Sensor(Protocol):
    """Looks at the world."""

    async def look(self, cursor: Any) -> Look:
        """Return what has happened since the last look, whose cursor this is; None: there was none.

        The same happening always has the same key. It may be looked at again after a crash.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorState:
    """Where a sensor stands."""

    name: str
    cursor: Any = None
    revision: int = 0
    looked_at: float | None = None
    reason: str = ""
    """What the last look found, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticed:
    """The record of a happening."""

    sensor: str
    key: str
    at: float
    run_id: RunId | None = None
    reason: str = ""
    """Why nothing was started; empty: a run was."""
    depth: int = 1
    """How many runs have led to this one through events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNoticed:
    """A happening to be recorded, and the first event of the run that comes into being with it."""

    noticed: Noticed
    created: "Event | None" = None
    letter: "DeadLetter | None" = None
    """What is kept if nothing could be started."""


class SensorStore(Protocol):
    """What sensors have seen. A cursor moves together with what was noticed, and each happening counts once."""

    async def state(self, name: str, known: SensorState | None = None) -> SensorState:
        """Return where a sensor stands; the same object as `known`, if that is how it stands."""
        ...

    async def states(self) -> Sequence[SensorState]:
        """Return all sensors that have ever looked, by name, without their cursors."""
        ...

    async def commit(
        self, state: SensorState, look: Look, new: Sequence[NewNoticed], *, now: float
    ) -> Sequence[RunId] | None:
        """Move a cursor and record what was noticed; return the runs that came of it.

        None: the sensor does not stand where it stood, and nothing was written.
        """
        ...

    async def list_noticed(self, sensor: str, *, limit: int) -> Sequence[Noticed]:
        """Return what a sensor has noticed, newest first."""
        ...

    async def depth_of(self, run_id: RunId) -> int:
        """Return how many runs have led to one through events; 0: it was started otherwise."""
        ...


ReadCron = Callable[[str], WallTimes]
"""Reads a cron expression; raises ConfigError."""
MakeTask = Callable[[Schedule], "Awaitable[Task]"]
"""Returns what the run of a schedule is asked to do; raises FabricError."""
FirstEvent = Callable[[RunId, "Task"], "Event"]
"""Returns the event that a run begins with."""
Say = Callable[[Schedule, RunId], Awaitable[None]]
"""Says a schedule's instruction in a session, as the turn of this id; saying it again changes nothing."""
Begin = Callable[[Sequence[RunId]], None]
"""Hands runs that were created without a driver to those who drive."""


class OpenRun(NamedTuple):
    """A run that a trigger started, and that nothing was noted about since."""

    run_id: RunId
    due_at: float
    status: RunStatus | None
    """None: it was deleted."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more follows."""
        return self.status is None or self.status.settled


@dataclass(frozen=True, slots=True, kw_only=True)
class DueSchedule:
    """A schedule that is due, and what must be known to decide."""

    schedule: Schedule
    open_runs: Sequence[OpenRun] = ()
    queued: int = 0
    failures: int = 0
    """Runs that failed in a row, without the open ones."""


class DueLook(NamedTuple):
    """What a look at the queue has found."""

    schedules: Sequence[DueSchedule]
    """Those whose time has come."""
    next_at: float | None = None
    """When another look is due at the latest, as far as is known now; None: nothing is planned."""
    has_queued: bool = False
    """Whether firings wait for the run before, or for their model."""


class LetterKind(StrEnum):
    """What a dead letter is about."""

    TRIGGER = "trigger"
    DELIVERY_IN = "delivery_in"
    DELIVERY_OUT = "delivery_out"
    BUS = "bus"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Something that could not be carried out, kept until a person decides."""

    id: str
    kind: LetterKind
    source: str
    """The schedule, sensor, webhook or subscription."""
    reason: str
    payload: Mapping[str, Any]
    """What is needed to carry it out; sealed in the store."""
    created_at: float
    status: str = "dead"
    """`dead`, `replayed` or `dropped`."""
    settled_by: str = ""
    settled_at: float | None = None
    outcome: str = ""
    """The run or message that a replay made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFiring:
    """A firing to be recorded, and the first event of the run that comes into being with it."""

    firing: Firing
    created: "Event | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What is written about one schedule that was due, in one transaction."""

    schedule: Schedule
    """As it was read; if it is not so any more, nothing is written."""
    next_at: float | None
    look_at: float | None
    firings: Sequence[NewFiring] = ()
    over: Sequence[OpenRun] = ()
    failures: int = 0
    paused_by: str = ""
    """Who pauses it with this turn; empty: no one does."""
    letters: Sequence[DeadLetter] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleQuery:
    """Which schedules are listed, by name."""

    declared: bool = False
    """Only those that files declare."""
    owners: Sequence[str] | None = None
    """Only those of these owners; None: of all."""
    words: str = ""
    """Only those in whose name, target or instruction this stands."""
    after: str = ""
    """Only those whose name comes behind this one."""
    limit: int | None = None


EVERY_SCHEDULE = ScheduleQuery()


class ScheduleRepository(Protocol):
    """All schedules of one fabric folder, shared by many processes."""

    async def add(self, schedule: Schedule, *, by: str) -> None:
        """Keep a new schedule.

        Raises:
            NameTaken: there is one of this name.
        """
        ...

    async def find(self, name: str) -> Schedule:
        """Return the schedule of a name or an id.

        Raises:
            ScheduleNotFound: there is none.
        """
        ...

    async def list(self, wanted: ScheduleQuery = EVERY_SCHEDULE) -> Sequence[Schedule]: ...

    async def change(self, old: Schedule, new: Schedule, *, by: str, now: float) -> bool:
        """Put a new revision in the place of an old one; False: it is not the current one any more.

        What was due and is not fired yet is recorded as skipped.
        """
        ...

    async def remove(self, schedule: Schedule, *, by: str, now: float) -> None:
        """Delete a schedule; its firings stay."""
        ...


class FiringQueue(Protocol):
    """What is due, and the one way to fire it: a firing and its run come into being in one transaction, once."""

    async def due(self, now: float, *, limit: int) -> DueLook:
        """Return schedules whose time has come, and when to look again; one query where nothing is due."""
        ...

    async def commit(self, turns: Sequence[Turn]) -> Sequence[bool]:
        """Write turns; False for each whose schedule another process had first, and of which nothing is written."""
        ...

    async def waiting(self, *, limit: int) -> Sequence[tuple[Firing, Sequence[OpenRun]]]:
        """Return the first queued firing of each trigger, and the runs that it waits for."""
        ...

    async def start(self, fired: Firing, created: "Event | None", over: Sequence[OpenRun] = ()) -> bool:
        """Turn a queued firing into this one and create its run; False: another process had it first."""
        ...

    async def record(self, fired: NewFiring) -> bool:
        """Record a firing that no schedule has planned, and create its run; False: there is one at this instant."""
        ...


class FiringHistory(Protocol):
    """What was recorded, for people and explanations."""

    async def firings(self, trigger: str, *, limit: int, before: float | None = None) -> Sequence[Firing]:
        """Return the newest firings of a trigger, newest first."""
        ...

    async def around(self, trigger: str, at: float, *, within_s: float) -> Sequence[Firing]:
        """Return the firings that cover an instant or are near it."""
        ...

    async def fired_within(self, trigger: str, since: float, until: float) -> Sequence[float]:
        """Return the due instants of a period that were fired or are queued."""
        ...

    async def versions(self, trigger: str) -> Sequence[RuleVersion]:
        """Return the rules of a schedule, oldest first."""
        ...

    async def lives(self, around: float) -> Sequence[Life]:
        """Return the processes that were alive around an instant, and those next before and after it."""
        ...


class FiringOverview(Protocol):
    """What a list of schedules shows of their firings; a few queries, however many schedules there are."""

    async def newest(self, triggers: Sequence[str]) -> Mapping[str, Firing]:
        """Return the newest firing of each schedule that has one."""
        ...

    async def waiting(self, triggers: Sequence[str]) -> Mapping[str, int]:
        """Return how many firings of each schedule wait, if any."""
        ...

    async def open_questions(self, triggers: Sequence[str] | None = None) -> Mapping[str, AskedPerson]:
        """Return the oldest question that runs under way of each schedule ask now; None: of all schedules."""
        ...

    async def questions(self, run_id: RunId) -> Sequence[AskedPerson]:
        """Return what a run and those that work for it have asked so far, oldest first."""
        ...


class Backlog(Protocol):
    """Instants of the past that a person wants to be made up for."""

    async def add(self, firings: Sequence[Firing]) -> int:
        """Queue instants in one transaction, but for those that are fired or queued; return how many there are."""
        ...

    async def withdraw(self, trigger: str, *, by: str, now: float) -> int:
        """Take back what waits to be made up for; return how many instants there were."""
        ...


class Heartbeats(Protocol):
    """When processes that fire schedules were alive."""

    async def beat(self, life_id: str, server: str, since: float, now: float) -> None: ...


class DeadLetters(Protocol):
    """What could not be carried out."""

    async def add(self, letter: DeadLetter) -> None:
        """Keep a letter; one of the same id stays as it is."""
        ...

    async def list(self, *, limit: int, everything: bool = False) -> Sequence[DeadLetter]:
        """Return letters, newest first; those that were settled only with `everything`."""
        ...

    async def find(self, letter_id: str) -> DeadLetter:
        """Return the one letter whose id begins so.

        Raises:
            DeadLetterNotFound: there is none, or more than one.
        """
        ...

    async def start(self, letter: DeadLetter, run_id: RunId, created: "Event", *, by: str, now: float) -> bool:
        """Create the run of a letter and note that it was replayed, in one transaction; False: the run is there.

        What a sensor had noticed then has this run.
        """
        ...

    async def settle(self, letter: DeadLetter, *, status: str, by: str, outcome: str, now: float) -> bool:
        """Note what was decided about a letter; False: it was settled before."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomationStore:
    """Everything that automation stores."""

    schedules: ScheduleRepository
    queue: FiringQueue
    history: FiringHistory
    overview: FiringOverview
    backlog: Backlog
    heartbeats: Heartbeats
    sensors: SensorStore
    subscriptions: SubscriptionStore
    outgoing: OutgoingQueue
    """Messages that subscribers have not had yet."""
    letters: DeadLetters
