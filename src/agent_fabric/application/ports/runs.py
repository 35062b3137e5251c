"""Where runs are kept."""

from collections.abc import Awaitable, Callable, Collection, Container, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self

from agent_fabric.application.ports.leases import Before
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.ownership import EVERYTHING, LOCAL_OWNER, OwnedRun, Viewer, Visibility, is_owner
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.status import RunStatus

if TYPE_CHECKING:  # what lists runs waits for nothing and needs no events
    import asyncio

    from agent_fabric.domain.events import Body, Event

CANCEL = "cancel"
"""Kind of the inbox row that ends a run."""
APPROVAL = "approval"
"""Kind of the inbox row that answers what a run has asked."""
SIGNAL = "signal"
"""Kind of the inbox row that tells a workflow that something has happened."""
CHILD = "child"
"""Kind of the inbox row that tells a workflow how a run ended that works for it; written together with that end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """A message to a run from outside its driver."""

    row_id: int
    kind: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """A child run that is created together with the step that it works for. It has no driver yet."""

    run_id: RunId
    created: "Event"
    prepare: Callable[[], Awaitable[bool]]
    """Makes its folder, before the run becomes durable; tells whether there was none."""
    discard: Callable[[], Awaitable[None]]
    """Removes the folder again, if the run did not become durable; another process that was faster keeps it."""


class Prepared(NamedTuple):
    """An action, made ready: bodies to record first, and the effect that may start once they are durable.

    The effect answers with the bodies that say how it went. It fails only by being cancelled.
    """

    bodies: "Sequence[Body]" = ()
    effect: "Callable[[], Coroutine[Any, Any, Sequence[Body]]] | None" = None
    children: Sequence[NewRun] = ()
    """Runs that come into being together with the bodies."""


class HeldRun(Protocol):
    """A run that only this process drives. The only way to append to a log."""

    @property
    def run_id(self) -> RunId:
        """The run."""
        ...

    async def append(
        self, events: "Sequence[Event]", *, consumed: Sequence[InboxRow] = (), children: Sequence[NewRun] = ()
    ) -> None:
        """Make events durable, take the inbox rows they come from away and create children, in one transaction.

        Without events, only the rows go: nothing followed from them.

        Raises:
            DriverConflict: another process has appended.
            StoreFull, StoreUnavailable: nothing was written.
        """
        ...

    def receive(self) -> "asyncio.Future[Sequence[InboxRow]]":
        """Return a future that is done as soon as there are new rows in the run's inbox.

        They stay there until `append` consumes them. Cancel the future when they are no longer wanted.
        """
        ...

    async def unread(self) -> Sequence[InboxRow]:
        """Return the rows that are in the run's inbox now. `receive` does not return them again."""
        ...

    async def release(self) -> None:
        """Release the run for other processes. All readers of the log have caught up when this returns."""
        ...


class HeldLog(NamedTuple):
    """A run that this process has just taken, with its log, which is read once."""

    held: HeldRun
    events: "Sequence[Event]"
    before: Before = Before.UNKNOWN


class RunRepository(Protocol):
    """All runs of one fabric folder, shared by many processes."""

    async def create(self, run_id: RunId, events: "Sequence[Event]") -> HeldRun:
        """Create a run with its first events and hold it.

        Raises:
            DriverConflict: there is one with this id.
            StoreFull, StoreUnavailable: nothing was written.
        """
        ...

    async def take(self, run_id: RunId) -> HeldLog:
        """Hold an existing run and return its log. No other process appends to it from here on.

        Raises:
            RunNotFound: there is none with this id.
            RunHeld: a living process drives it; the message names it.
        """
        ...

    async def read(self, run_id: RunId, *, after: int = -1) -> "Sequence[Event]":
        """Return the events that follow sequence number `after`.

        Raises:
            RunNotFound: there is none with this id.
        """
        ...

    async def status(self, run_id: RunId) -> RunStatus:
        """Return the status that the log ends with, without reading the log.

        Raises:
            RunNotFound: there is none with this id.
        """
        ...

    async def post(self, run_id: RunId, kind: str, payload: Mapping[str, Any]) -> None:
        """Put a row into a run's inbox; its driver sees it within half a second. A settled run gets none.

        Raises:
            RunNotFound: there is none with this id.
        """
        ...


class Progress(NamedTuple):
    """How far a run has come."""

    status: RunStatus
    """One that has not settled and has no driver counts as interrupted."""
    newest: int
    """The sequence number of its last event."""


class RunReader(Protocol):
    """Reads single runs, whichever process drives them. Long reads hold up no driver."""

    async def status(self, run_id: RunId) -> RunStatus:
        """Return the status of a run; one that has not settled and has no driver counts as interrupted.

        Raises:
            RunNotFound: there is none with this id.
        """
        ...

    async def page(self, run_id: RunId, *, after: int, limit: int, whole: bool = True) -> "Sequence[Event]":
        """Return at most `limit` of the events that follow sequence number `after`.

        Unless `whole`, a text of more than a million characters is only its beginning, for being shown. A damaged event
        stands there as an UnknownEvent with its `problem`: the others can be read.

        Raises:
            RunNotFound: there is none with this id.
        """
        ...

    async def newest(self, run_id: RunId) -> "Event":
        """Return a run's last event; there is always one.

        Raises:
            RunNotFound: there is none with this id.
        """
        ...

    async def progress(self, run_ids: Collection[RunId]) -> Mapping[RunId, Progress]:
        """Return how far runs have come, with one look for all of them; those that do not exist are left out."""
        ...


class RunQueue(Protocol):
    """The runs that a server should drive."""

    async def list_unfinished(self, *, limit: int | None = None) -> Sequence[RunId]:
        """Return the runs that are running but have no driver, oldest first: their process died, or left them to us.

        A child of one of them is left out: the driver of its parent continues it.
        """
        ...

    async def due(self) -> Sequence[RunId]:
        """Return the waiting runs that have inbox rows, an expired approval, or a wake time that has passed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One line about a run."""

    run_id: RunId
    status: RunStatus
    """A run that has not settled and has no driver counts as interrupted."""
    created_at: float
    updated_at: float
    prompt: str
    specialist_ids: Sequence[str]
    summary: str
    conversation: str = ""
    """The conversation that it belongs to."""
    unreadable: str = ""
    """Why some of it cannot be told: an event is damaged."""
    owner: str = LOCAL_OWNER
    """Whose run it is: `local`, or such as `user:ada`."""
    visibility: Visibility = Visibility.TEAM
    """Who else sees it."""
    continues: RunId | None = None
    """The run that it follows up."""
    trial_of: str = ""
    """The evaluation that it is a trial of; empty: none."""
    outcome: str = ""
    """What it came to if it completed: `done`, `incomplete` or `refused`; empty: it has not, or is not known."""
    matched: str = ""
    """One line around the first word that a search has found in it; empty: nothing was searched for."""

    @classmethod
    def of(
        cls, run_id: RunId, status: RunStatus, outline: "Iterable[Event]", *, created_at: float, updated_at: float
    ) -> Self:
        """Return what events tell about a run; those of other kinds than the outline's do not matter."""
        from agent_fabric.domain.events import (  # noqa: PLC0415 - see above
            RunCompleted,
            RunCreated,
            RunFailed,
            SpecialistsRecruited,
            UnknownEvent,
        )
        from agent_fabric.domain.runs.effects import marked_line  # noqa: PLC0415 - as above

        told: dict[str, Any] = {"prompt": "", "specialist_ids": (), "summary": ""}
        for event in outline:
            match event.body:
                case RunCreated() as body:
                    told |= {"prompt": body.prompt, "conversation": body.conversation}
                    told |= {"owner": body.task.owner, "visibility": body.visibility}
                    told |= {"continues": body.continues, "trial_of": body.trial_of}
                case SpecialistsRecruited() as body:
                    told["specialist_ids"] = body.specialist_ids
                case RunCompleted() as body:
                    said = str(body.payload.get("summary", ""))
                    told["summary"] = marked_line(said, body.effects, body.outcome)
                    told["outcome"] = body.outcome or ""
                case RunFailed() as body:
                    told["summary"] = body.message
                case UnknownEvent() as body if body.problem:
                    told["unreadable"] = body.problem
                    told["prompt"] = told["prompt"] or f"({body.problem})"
                case _:
                    pass
        return cls(run_id=run_id, status=status, created_at=created_at, updated_at=updated_at, **told)

    @property
    def text(self) -> str:
        """What is searched."""
        return f"{self.prompt} {self.summary}".lower()

    def count_as_running(self, awaited: bool) -> Self:
        """Return the record of a run that will be driven soon, if it is `awaited`: it counts as running."""
        interrupted = self.status is RunStatus.INTERRUPTED
        return replace(self, status=RunStatus.RUNNING) if awaited and interrupted else self


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """A filter for runs; fields that are not set match everything."""

    status: RunStatus | None = None
    specialist_id: str = ""
    """One of those who did the task."""
    since: float | None = None
    """Created at this time or later."""
    until: float | None = None
    """Created before this time."""
    words: str = ""
    """All of them are in the task or the summary."""
    conversation: str = ""
    """The one that it belongs to; a run that belongs to none is one by itself, of the same id."""
    owner: str = ""
    """Whose: `user:ada`, `key:ci`, `local`, or the name alone."""
    trials: bool = True
    """Whether trials of evaluations are listed, too."""
    trial_of: str = ""
    """Only the trials of this evaluation."""
    viewer: Viewer = EVERYTHING
    """Who asks; what they may not see is left out."""
    older_than: int | None = None
    """Where the page before ended."""
    limit: int = 50

    def matches(self, record: RunRecord) -> bool:
        """Tell whether a run is wanted, apart from where the page begins."""
        return (
            self.status in (None, record.status)
            and (self.since is None or record.created_at >= self.since)
            and (self.until is None or record.created_at < self.until)
            and (not self.specialist_id or self.specialist_id in record.specialist_ids)
            and self.conversation in ("", record.conversation or record.run_id)
            and (not self.owner or is_owner(self.owner, record.owner))
            and (self.trials or not record.trial_of)
            and self.trial_of in ("", record.trial_of)
            and self.viewer.sees(record.owner, record.visibility)
            and (not self.words or all(word in record.text for word in self.words.lower().split()))
        )


ANY_RUN: Final = RunQuery()
"""Filters nothing."""


class RunPage(NamedTuple):
    """Some of the runs that were asked for, newest first. There may be few, or none, and still more to come."""

    records: Sequence[RunRecord]
    older_than: int | None
    """Where the next page goes on; None after the last one."""


class RunCatalogue(Protocol):
    """Finds runs."""

    async def recent(self, *, limit: int) -> Sequence[RunRecord]:
        """Return the newest runs, newest first; a negative limit is none."""
        ...

    async def search(
        self,
        query: str,
        *,
        limit: int,
        viewer: Viewer = EVERYTHING,
        only: RunQuery = ANY_RUN,
    ) -> Sequence[RunRecord]:
        """Return the runs in which most words and "phrases" are found, of those that the viewer may see.

        What was asked, done and said counts; `matched` shows where. Of `only`, owner, status and times are filters.
        """
        ...

    async def locate(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> OwnedRun:
        """Return the one run whose id begins so, of those that the viewer may see, and whose it is.

        Raises:
            RunNotFound: none, or more than one, begins so.
        """
        ...

    async def find(self, prefix: str) -> RunId:
        """Return the one run whose id begins so.

        Raises:
            RunNotFound: none, or more than one, begins so.
        """
        ...


class RunListing(RunCatalogue, Protocol):
    """RunCatalogue that lists all runs page by page."""

    async def newest(self, *, viewer: Viewer = EVERYTHING, owner: str = "") -> RunId:
        """Return the run that was created last, of those that the viewer may see; children and trials are left out.

        An `owner` restricts it to the runs of that owner.

        Raises:
            RunNotFound: there is none at all.
        """
        ...

    async def page(self, wanted: RunQuery, *, awaited: Container[RunId] = ()) -> RunPage:
        """Return some of the runs that match, newest first, and where the next page begins.

        Runs that are `awaited` have no driver yet but will get one: they count as running.
        """
        ...

    async def count_unindexed(self) -> int:
        """Return how many events a search does not know yet."""
        ...

    async def update_index(self) -> None:
        """Index everything that was appended since the last search, however long it takes.

        A search does so itself, but leaves what takes long to the background.

        Raises:
            StoreUnavailable: the store cannot be read or written.
        """
        ...


class Workspaces(Protocol):
    """Makes and finds the folders of runs."""

    def workspace(self, run_id: RunId) -> str:
        """Return the path of the run's workspace."""
        ...

    async def prepare(self, run_id: RunId, *, at: str = "") -> bool:
        """Make the run's folder with an empty workspace inside, unless it works `at` a folder elsewhere.

        Tell whether there was none before.

        Raises:
            StoreUnavailable: it cannot be made.
            FolderLinked: a folder on the way has become a link.
        """
        ...

    async def discard(self, run_id: RunId) -> None:
        """Remove the folder of a run that did not become durable."""
        ...

    async def copy(self, workspace: str, run_id: RunId) -> bool:
        """Make the run's folder with a copy of another workspace inside, all of it at once; one that is there stays.

        Tell whether there was none before.

        Raises:
            StoreUnavailable: it cannot be made.
        """
        ...

    def usable(self, workspace: str) -> bool:
        """Tell whether this machine can open the workspace.

        Raises:
            FolderLinked: it, or a folder on the way to it, has become a link.
        """
        ...


class FoundRun(NamedTuple):
    """A run that fits a question."""

    record: RunRecord
    score: float
    """At most 1; only good for comparing answers to the same question."""
