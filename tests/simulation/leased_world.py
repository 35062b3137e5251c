"""A cluster in which only time is simulated: processes that freeze, a database whose answers come late or never.

The engine is the real one, and so is what settles commits whose answer was lost. Leases and fences follow the same
rules as in `persistence/postgres`: a row for each process, which it renews; an epoch for each run; one turn to write.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from agent_fabric.application.ports.leases import Before
from agent_fabric.application.ports.runs import HeldLog, InboxRow, NewRun
from agent_fabric.domain.errors import DriverConflict, LeaseLost, LogWentBack, RunHeld, StoreUnavailable
from agent_fabric.domain.events import Event, RunCancelled, RunCompleted, RunFailed
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.postgres.membership import MARGIN, RENEWALS, RETRY_S
from agent_fabric.infrastructure.persistence.runs.held_run import write_unless_done
from agent_fabric.infrastructure.persistence.sql import CommitUnknown
from agent_fabric.testing.fakes import MemoryRuns

RUN = RunId("run-0")
TTL_S = 10.0
TICK_S = 0.5


class Timeline(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while everybody waits, and then at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0
        self._selector.select = self._pass  # type: ignore[attr-defined]  # nothing here uses the network

    def time(self) -> float:
        return self.now

    def _pass(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "everybody waits for ever"
        self.now += max(timeout, 0.0)
        return []


def now() -> float:
    """Return the time that all machines agree on, as far as a lease is concerned."""
    return asyncio.get_running_loop().time()


@dataclass(frozen=True)
class Rules:
    """The protocol, and what it would be without one of its parts."""

    fence: bool = True
    """An append needs the epoch and the end of the log that it knows."""
    guard: bool = True
    """What a process has started ends with its lease, even while it is frozen."""
    settle: bool = True
    """A commit without an answer is looked up before it is repeated."""
    margin: float = MARGIN


@dataclass
class Row:
    """What the database knows about a process."""

    lease_until: float
    gone: bool = False


@dataclass(frozen=True)
class Tables:
    """What is committed; replaced as a whole."""

    driver: str = ""
    epoch: int = 0
    log: tuple[Event, ...] = ()

    @property
    def settled(self) -> bool:
        return isinstance(self.log[-1].body, RunCompleted | RunFailed | RunCancelled)


@dataclass
class Draft:
    """A transaction: what it has read, and what it wants to change."""

    tables: Tables
    workers: Mapping[str, Row]
    writer: "Process"
    reaped: set[str] = field(default_factory=set)
    appended: int = 0
    """The epoch under which something was appended."""

    def lives(self, worker_id: str) -> bool:
        row = self.workers.get(worker_id)
        return row is not None and not row.gone and worker_id not in self.reaped

    def reap(self) -> None:
        self.reaped |= {name for name, row in self.workers.items() if not row.gone and row.lease_until < now()}


@dataclass
class Database:
    """One row for each process, one run, one turn to write."""

    rng: random.Random
    wrong: list[str]
    workers: dict[str, Row] = field(default_factory=dict)
    tables: Tables = field(default_factory=Tables)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    row_locks: set[str] = field(default_factory=set)
    """Rows of processes that a transaction has changed and not committed."""
    down_until: float = 0.0

    async def transact(
        self, writer: "Process", write: Callable[[Draft], Any], *, arrives: bool, stalls_s: float
    ) -> Any:
        """Do a transaction; one whose COMMIT does not arrive is rolled back.

        Raises:
            CommitUnknown: it was, which the server knows and nobody else.
        """
        async with self.turn:
            draft = Draft(self.tables, self.workers, writer)
            value = write(draft)
            self.row_locks |= draft.reaped
            try:
                if stalls_s:
                    await asyncio.sleep(stalls_s)
                if not arrives or now() < self.down_until:
                    raise CommitUnknown("no answer")
                if draft.appended and draft.appended != self.tables.epoch:
                    self.wrong.append(f"{writer.name} appended under epoch {draft.appended}, not {self.tables.epoch}")
                self.tables = draft.tables
                for each in draft.reaped:
                    self.workers[each].gone = True
            finally:
                self.row_locks -= draft.reaped
        return value

    async def renew(self, worker_id: str) -> bool:
        """Renew a row, as one statement; False: it has lapsed."""
        while worker_id in self.row_locks:
            await asyncio.sleep(0.01)
        row = self.workers[worker_id]
        if row.gone or row.lease_until < now():
            return False
        row.lease_until = now() + TTL_S
        return True


@dataclass
class Process:
    """A worker: its lease, its way to the database, and its commands."""

    name: str
    database: Database
    rng: random.Random
    rules: Rules
    frozen_until: float = 0.0
    cut_until: float = 0.0
    worker_id: str = ""
    safe_until: float = 0.0
    killed_at: float = 0.0
    """When the guard ends what this process has started, unless it is told otherwise."""
    lost: "asyncio.Event" = field(default_factory=asyncio.Event)
    """Replaced with each row."""
    joined: int = 0
    held: int = 0
    """The epoch under which this process drives the run; 0: it does not."""

    async def point(self) -> None:
        """Go on, unless this process is frozen."""
        while now() < self.frozen_until:
            await asyncio.sleep(self.frozen_until - now())

    @property
    def is_safe(self) -> bool:
        return bool(self.worker_id) and now() < self.safe_until

    async def live(self) -> None:
        """Join, renew and lose, for ever."""
        while True:
            await self._join()
            watching = asyncio.ensure_future(self._watch())
            try:
                await self._renew()
            finally:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching
            await self.point()

    async def _join(self) -> None:
        while True:
            await self.point()
            self.joined += 1
            worker_id, asked_at = f"{self.name}.{self.joined}", now()
            try:
                await self._travel()
                self.database.workers[worker_id] = Row(now() + TTL_S)
                await self._travel()
            except StoreUnavailable:
                await asyncio.sleep(RETRY_S)
                continue
            await self.point()
            self.lost = asyncio.Event()
            self.worker_id = worker_id
            self._note_renewal(asked_at)
            return

    def _note_renewal(self, asked_at: float) -> None:
        self.safe_until = self.killed_at = asked_at + TTL_S * (1 - self.rules.margin)

    async def _renew(self) -> None:
        pause = TTL_S / RENEWALS
        while not self.lost.is_set():
            await asyncio.sleep(pause)
            await self.point()
            if self.lost.is_set():
                return
            asked_at, worker_id = now(), self.worker_id
            pause = TTL_S / RENEWALS
            try:
                await self._travel()
                renewed = await self.database.renew(worker_id)
                await self._travel()
            except StoreUnavailable:
                pause = RETRY_S
                continue
            await self.point()
            if not renewed:
                self._lose()
            elif not self.lost.is_set():
                self._note_renewal(asked_at)

    async def _watch(self) -> None:
        while not self.lost.is_set():
            if now() >= self.safe_until:
                self._lose()
                return
            await asyncio.sleep(min(0.5, self.safe_until - now()))
            await self.point()

    def _lose(self) -> None:
        self.worker_id, self.held = "", 0
        self.lost.set()

    async def _travel(self) -> None:
        """Let a message be on its way; it may be a while, and it may not arrive."""
        delay = self.rng.choice((0.001, 0.01, 0.01, 0.1)) if self.rng.random() < 0.95 else self.rng.uniform(0, TTL_S)
        await asyncio.sleep(delay)
        if now() < self.cut_until or now() < self.database.down_until:
            await asyncio.sleep(self.rng.choice((0.01, 2.0)))
            raise StoreUnavailable("no answer")

    async def write(self, write: Callable[[Draft], Any], *, after: Callable[[], None] | None = None) -> Any:
        """GroupWriter: the third outcome of a commit is that nobody knows.

        Raises:
            CommitUnknown, StoreUnavailable: as in the product.
        """
        await self.point()
        await self._travel()
        rng = self.rng
        arrives, answered = rng.random() > 0.06, rng.random() > 0.06
        stalls_s = rng.uniform(0, TTL_S) if rng.random() < 0.04 else 0.0
        # The server goes on with what it has, whatever becomes of whoever asked.
        doing = asyncio.ensure_future(self.database.transact(self, write, arrives=arrives, stalls_s=stalls_s))
        _ignore_later(doing)
        lost = asyncio.Event() if self.lost.is_set() else self.lost
        leaving = asyncio.ensure_future(lost.wait())  # the connection is ended in the moment when the lease is lost
        try:
            await asyncio.wait((doing, leaving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
        await self.point()
        if not doing.done():
            raise CommitUnknown("ended from here")
        value = doing.result()
        if not answered:
            raise CommitUnknown("no answer")
        if after is not None:
            after()
        return value


def _ignore_later(task: "asyncio.Future[Any]") -> None:
    task.add_done_callback(lambda done: done.cancelled() or done.exception())


@dataclass
class SimulatedHeld:
    """HeldRun, with the rules of `SqlHeldRun` and `PostgresLeases`."""

    process: Process
    run_id: RunId
    epoch: int
    known: int
    """Events that this driver knows of."""
    lost: asyncio.Event

    async def append(
        self,
        events: Sequence[Event],
        *,
        consumed: Sequence[InboxRow] = (),
        children: Sequence[NewRun] = (),
    ) -> None:
        process, rules, known = self.process, self.process.rules, self.known

        def write(draft: Draft) -> None:
            if rules.fence:
                if process.held != self.epoch:
                    raise LeaseLost("not ours any more")
                if draft.tables.epoch != self.epoch:
                    raise DriverConflict("another epoch")
                if len(draft.tables.log) != known:
                    raise LogWentBack("another end")
            draft.appended = self.epoch
            tables = replace(draft.tables, log=(*draft.tables.log, *events))
            draft.tables = replace(tables, driver="") if tables.settled else tables

        def is_done(draft: Draft) -> bool:
            if not rules.settle or len(draft.tables.log) <= known:
                return False
            if draft.tables.log[known] is not events[0]:
                raise DriverConflict("another process has appended")
            return True

        def after() -> None:
            self.known = known + len(events)

        try:
            await process.write(write, after=after)
        except CommitUnknown:
            await write_unless_done(process, write, is_done, after)  # type: ignore[arg-type]  # as far as it is used
        if process.held != self.epoch or not process.is_safe:
            raise LeaseLost("too late")

    def receive(self) -> "asyncio.Future[Sequence[InboxRow]]":
        return asyncio.ensure_future(self._receive())

    async def _receive(self) -> Sequence[InboxRow]:
        await self.lost.wait()
        await self.process.point()
        raise LeaseLost("away for too long")

    async def unread(self) -> Sequence[InboxRow]:
        return ()

    async def release(self) -> None:
        def write(draft: Draft) -> None:
            if draft.tables.epoch == self.epoch:
                draft.tables = replace(draft.tables, driver="")

        ours, self.process.held = self.process.held == self.epoch, 0
        if ours:
            with suppress(StoreUnavailable):
                await self.process.write(write)


class LeasedRuns(MemoryRuns):
    """RunRepository of one process."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self.process = process

    async def create(self, run_id: RunId, events: Sequence[Event]) -> Any:
        self.process.database.tables = Tables(epoch=1, log=tuple(events))  # as a door does that drives nothing
        raise RunHeld(f"{run_id} is left to others")

    async def take(self, run_id: RunId) -> HeldLog:
        process = self.process

        def write(draft: Draft) -> Tables | None:
            draft.reap()
            before = draft.tables
            free = before.driver in ("", process.worker_id) or not draft.lives(before.driver)
            if not free or not draft.lives(process.worker_id):
                return None
            draft.tables = replace(before, driver=process.worker_id, epoch=before.epoch + 1)
            return before

        lost = process.lost
        if process.held or not process.worker_id:
            raise RunHeld("by us")
        before = await process.write(write)
        if before is None or lost.is_set():
            raise RunHeld("by another process")
        process.held = before.epoch + 1
        held = SimulatedHeld(process, run_id, process.held, len(before.log), lost)
        return HeldLog(held, before.log, Before.UNKNOWN if before.driver else Before.RELEASED)

    async def read(self, run_id: RunId, *, after: int = -1) -> Sequence[Event]:
        return self.process.database.tables.log[after + 1 :]

    async def status(self, run_id: RunId) -> RunStatus:
        tables = self.process.database.tables
        return fold(run_id, tables.log).status if tables.settled else RunStatus.RUNNING


@dataclass
class Box:
    """A command: it goes on although its process is frozen, and ends with the deadline that the guard knows."""

    process: Process
    epoch: int
    step: int
    began: float
    ended: float = 0.0
    complete: bool = False

    async def run(self, ticks: int) -> bool:
        for _ in range(ticks):
            if self.process.rules.guard and now() >= self.process.killed_at:
                return False
            self.ended = now()
            await asyncio.sleep(TICK_S)
        self.complete = True
        return True
