"""A run that this process drives, and the rows that its events become.

The answer to a commit may be lost: if our hash stands in the log, it happened; if not, it is done again.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Any, Final, Protocol

from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.application.ports.runs import APPROVAL, InboxRow, NewRun
from agent_fabric.domain.errors import DriverConflict, LogWentBack, StoreFull, StoreUnavailable
from agent_fabric.domain.events import Event, RunCreated, RunInterrupted, SpecialistsRecruited
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.consequences import NO_CONSEQUENCES, Consequences, consequences
from agent_fabric.domain.runs.event_versions import VERSIONS
from agent_fabric.infrastructure.persistence.approvals.questions import (
    cancel_approvals,
    note_approvals,
    reopen_approvals,
)
from agent_fabric.infrastructure.persistence.audit.chain_writer import HEAD, ChainWriter, Sealed
from agent_fabric.infrastructure.persistence.runs.codec import encode
from agent_fabric.infrastructure.persistence.runs.event_bodies import stored_blobs
from agent_fabric.infrastructure.persistence.runs.event_rows import (
    add_key,
    add_run,
    cancel_children,
    chain_hash,
    empty_inbox,
    head_of,
    load_events,
    note_in_outbox,
    note_status,
    notify_parent,
)
from agent_fabric.infrastructure.persistence.runs.inbox import Inbox
from agent_fabric.infrastructure.persistence.runs.log_writes import (
    AppendEvents,
    EventRow,
    ForgetDriver,
    NewRunRow,
    OfOneRun,
    ReleaseRun,
    insert_rows,
)
from agent_fabric.infrastructure.persistence.secrets.sealing import event_place, sealed_json
from agent_fabric.infrastructure.persistence.sql import (
    CommitUnknown,
    GroupWriter,
    LogDatabase,
    SqlConnection,
    UniqueViolation,
)
from agent_fabric.infrastructure.threads import politely


class LogFollower(Protocol):
    """Something that mirrors logs: called on the writer's thread, after events have become durable."""

    def follow(
        self, run_id: RunId, outline: Sequence[Event], events: Sequence[Event], payloads: Sequence[bytes]
    ) -> None:
        """Take in the newest events of a run, with their payloads as stored; `outline` tells what it is about.

        Raises:
            OSError: it cannot be written. `catch_up` brings the rest later.
        """
        ...

    def flush(self, run_id: RunId) -> None:
        """Write what has been taken in but not written yet.

        Raises:
            OSError: as above.
        """
        ...

    def catch_up(self, run_id: RunId, events: Sequence[Event]) -> None:
        """Bring the mirror to the state of the whole log.

        Raises:
            OSError: it cannot be written.
        """
        ...


class SqlHeldRun:
    """HeldRun whose lock this process has."""

    def __init__(
        self,
        store: LogDatabase,
        inbox: Inbox,
        followers: Sequence[LogFollower],
        chain: ChainWriter,
        siblings: "set[SqlHeldRun]",
        run_id: RunId,
        number: int,
        cipher: Cipher | None,
    ) -> None:
        self._store = store
        self._cipher = cipher
        """What everything is sealed with; None if the run is not encrypted."""
        self._chain = chain
        self._siblings = siblings
        siblings.add(self)
        self._inbox = inbox
        self._followers = followers
        self.run_id = run_id
        self.number = number
        self.epoch = 0
        """Of our lease."""
        self._head = hashlib.sha256(run_id.encode()).digest()
        self._next_seq = 0
        self._outline: list[Event] = []
        """The events that tell what the run is about."""
        self.since = 0.0
        """When we took it."""
        self._settled = False
        """Its log has come to its end, and the mirrors show it."""
        self.unflushed = False
        """A mirror holds events back."""
        self.lagging = False
        """A mirror has missed events."""
        self._unsettled = False
        """Whether the last write happened is not known."""
        self.on_leaving: Callable[[], None] | None = None
        """Called when this process stops driving it."""

    def continue_from(self, next_seq: int, outline: list[Event], head: bytes) -> None:
        """Go on behind the last event of an existing log."""
        self._next_seq, self._outline, self._head = next_seq, outline, head

    async def append(
        self,
        events: Sequence[Event],
        *,
        consumed: Sequence[InboxRow] = (),
        children: Sequence[NewRun] = (),
        new: NewRunRow | None = None,
    ) -> None:
        """See the port; `new` is the run's own row, if it is created in the same transaction."""
        if self._unsettled:
            await self._settle()
        if events and events[0].seq != self._next_seq:
            raise DriverConflict(f"Run {self.run_id} expects event {self._next_seq}, not {events[0].seq}")
        before = self._head
        rows, blobs, head = self._rows(events)
        following = consequences(self.run_id, self._created, events)

        def follow_up(connection: SqlConnection) -> None:
            for child in children:
                self._create_child(connection, child)
            if following.more_than_seal:
                self._write_consequences(connection, following, events[-1])
            for row in consumed:
                if row.kind == APPROVAL:
                    reopen_approvals(connection, self.number, row.row_id, following.approvals)
                connection.execute("DELETE FROM inbox WHERE id = ?", (row.row_id,))

        alone = not children and not consumed
        is_plain = alone and following is NO_CONSEQUENCES  # as most are
        write = AppendEvents(
            held=self,
            leases=self._store.leases,
            before=before,
            rows=rows,
            blobs=blobs,
            new=new,
            then=None if is_plain or (alone and not following.more_than_seal) else follow_up,
            settles=following.status if not is_plain and alone and following.settles_alone else None,
            sealed=(lambda: self._seal(events[-1], head)) if following.seal else None,
            chain=self._chain,
        )

        def after() -> None:
            # Here and not behind the await: the waiting task may have been cancelled, but the events are durable.
            self._next_seq += len(events)
            self._head = head
            self._follow(events, rows)
            if following.status is not None and following.status.settled:
                self.flush()
                self._settled = not self.lagging

        def is_done(connection: SqlConnection) -> bool:
            return bool(events) and has_event(connection, self.run_id, events[-1].seq, head)

        self._unsettled = True
        try:
            try:
                await self._store.writer.write(write, after=after, alone=len(self._siblings) == 1)
            except CommitUnknown:
                await write_unless_done(self._store.writer, write, is_done, after)
        except UniqueViolation:
            raise DriverConflict(
                f"Another process has appended to run {self.run_id}",
                hint="Another process drives it. Look with `fabric logs show`; this one stops.",
            ) from None
        except LogWentBack as problem:
            await self._interrupt(problem)
            raise
        self._unsettled = False
        self._store.leases.require_time(self.number)  # what follows from the events must not begin too late

    async def _interrupt(self, problem: LogWentBack) -> None:
        """Leave the run to a person: what was done after the events that are left stands nowhere any more."""

        def load(connection: SqlConnection) -> tuple[list[Event], bytes]:
            return load_events(connection, self.number, self._cipher), head_of(connection, self.number)

        left, head = await self._store.read(load)
        lost = f"{problem.code}: events {len(left)} to {self._next_seq - 1} are lost, and with them what was done then"
        self.continue_from(len(left), outline_of(left), head)
        self._unsettled, self.lagging = False, True
        await self.append([Event(len(left), time.time(), None, "", RunInterrupted(reason=lost))])

    @property
    def _created(self) -> RunCreated | None:
        first = self._outline[0].body if self._outline else None
        return first if isinstance(first, RunCreated) else None

    def _write_consequences(self, connection: SqlConnection, following: Consequences, last: Event) -> None:
        """Write what was decided to follow from events."""
        number = self.number
        if following.status is not None:
            note_status(connection, number, following.status, following.wake_at)
        if following.notify_parent is not None:
            notify_parent(connection, following.notify_parent, self.run_id, last.ts)
        for cancel in following.cancel_children:
            cancel_children(connection, number, self.run_id, last.ts, cancel)
        if following.messages:
            self._write_messages(connection, following.messages)
        if following.approvals:
            note_approvals(connection, number, following.approvals, self._cipher)
        if following.cancel_approvals:
            cancel_approvals(connection, number, following.approvals)
        if following.empty_inbox:
            empty_inbox(connection, number)
        if following.announce_from is not None:
            note_in_outbox(connection, number, following.announce_from, last.seq, last.ts)

    def _seal(self, last: Event, head: bytes) -> Sealed:
        return Sealed(last.ts, HEAD, self.number, self.run_id, last.seq + 1, head)

    def _write_messages(self, connection: SqlConnection, events: Sequence[Event]) -> None:
        """Write what a turn says in its session."""
        from agent_fabric.infrastructure.persistence.chat.rows import note_messages  # noqa: PLC0415 - few runs talk

        created = events[0].body if isinstance(events[0].body, RunCreated) else self._created
        assert created is not None
        note_messages(connection, self._store.keys, self.run_id, created, events)

    def _create_child(self, connection: SqlConnection, new: NewRun) -> None:
        """Create a run without a driver; its mirrors are written when it is taken."""
        create_undriven(self._store, self._inbox, self._chain, connection, new.run_id, new.created, parent=self.number)

    def write_first(self, connection: SqlConnection, first: Event) -> None:
        """Write the first event of a run that was just added, in the caller's transaction."""
        rows, blobs, head = self._rows((first,))
        insert_rows(connection, self.number, rows, blobs)
        self._write_consequences(connection, consequences(self.run_id, None, (first,)), first)
        self._chain.seal(connection, self._seal(first, head))

    async def _settle(self) -> None:
        """Wait for a write whose asker was cancelled: it goes on all the same, and decides what comes next."""
        await self._store.writer.write(
            OfOneRun(lambda _: None)
        )  # writes happen in order, so it is done when this one is
        self._unsettled = False

    def _follow(self, events: Sequence[Event], rows: Sequence[EventRow]) -> None:
        """Let the mirrors have events that are durable."""
        for event in events:
            if event.body.__class__ in _OUTLINE:
                self._outline.append(event)
        if not events or self.lagging:
            return
        self.unflushed, payloads = True, list(map(_PAYLOAD_OF, rows))
        try:
            for follower in self._followers:
                follower.follow(self.run_id, self._outline, events, payloads)
        except OSError:
            self.lagging = True  # a full disk, say: the store has it all, and `release` or the next start mends it

    def flush(self) -> None:
        """Write what the mirrors hold back; called where they are written."""
        self.unflushed = False
        try:
            for follower in self._followers:
                follower.flush(self.run_id)
        except OSError:
            self.lagging = True  # as above

    async def mirror(self, events: Sequence[Event]) -> None:
        """Bring all mirrors to the state of the whole log."""
        try:
            for follower in self._followers:
                await politely(partial(follower.catch_up, self.run_id, events))
            self.lagging = False
        except OSError:
            self.lagging = True  # as above

    def receive(self) -> "asyncio.Future[Sequence[InboxRow]]":
        return self._inbox.receive(self.number, self._cipher)

    async def unread(self) -> Sequence[InboxRow]:
        return await self._inbox.unread(self.number, self._cipher)

    async def abandon(self) -> None:
        """Let go of a run that was not quite taken; a write that is still under way comes first."""
        if self._unsettled:
            with suppress(StoreUnavailable):
                await self._settle()
        self._leave()

    async def release(self) -> None:
        written = False
        try:
            if self._settled:  # a row that stays because of a crash only makes the next start look once more
                self._store.writer.write_along(ForgetDriver(self.number, self.since))
                written = True
                return
            await self._let_go()
            if self.lagging:
                load = partial(load_events, number=self.number, cipher=self._cipher)
                await self.mirror(await self._store.read(load))
                await self._let_go()
            written = not self.lagging
        except StoreUnavailable:
            pass  # the driver's row stays, and tells the next start to look after the mirrors
        finally:
            self._leave(written=written)

    def _leave(self, *, written: bool = False) -> None:
        self._siblings.discard(self)
        if self.on_leaving is not None:
            self.on_leaving()
        if self.number:  # else it has never come to be
            self._inbox.forget(self.number)
            self._store.leases.release(self.number, self.epoch, written=written)

    def _let_go(self) -> "asyncio.Future[None]":
        """Bring the mirrors up to date, and forget the driver if they are: its row says that they may not be."""

        def is_mirrored() -> bool:
            self.flush()
            return not self.lagging

        release = ReleaseRun(held=self, leases=self._store.leases, since=self.since, is_mirrored=is_mirrored)
        return self._store.writer.write(release, alone=len(self._siblings) == 1)

    def _rows(self, events: Sequence[Event]) -> tuple[list[EventRow], list[tuple[bytes, bytes]], bytes]:
        """Return the rows of events and of their blobs, and the hash of the last one."""
        head, cipher = self._head, self._cipher
        rows: list[EventRow] = []
        stored: list[tuple[bytes, bytes]] = []
        for event in events:
            body = event.body
            kind = body.kind
            if cipher is None:
                payload, blobs = encode(body)
            else:
                payload, blobs = encode(body, cipher.address)
                payload = sealed_json(cipher, event_place(event.seq, kind), payload)
            version = VERSIONS.get(kind, 1)
            head = chain_hash(head, event.seq, event.ts, kind, version, event.lane, event.step, payload)
            rows.append((event.seq, event.ts, kind, version, event.lane, event.step, payload, head))
            if blobs:
                stored.extend(stored_blobs(blobs, cipher))
        return rows, stored, head


def create_undriven(
    store: LogDatabase,
    inbox: Inbox,
    chain: ChainWriter,
    connection: SqlConnection,
    run_id: RunId,
    first: Event,
    *,
    parent: int | None = None,
) -> None:
    """Create a run without a driver, in the caller's transaction; its mirrors are written when it is taken.

    Raises:
        DriverConflict: there is one with this id.
    """
    created, cipher = first.body, None
    home = store.leases.home_of(run_id, created)
    number = add_run(connection, run_id, first.ts, created, parent=parent, home=home)
    if isinstance(created, RunCreated) and created.encrypted:
        cipher, sealed = store.keys.new(run_id)
        add_key(connection, number, sealed)
    run = SqlHeldRun(store, inbox, (), chain, set(), run_id, number, cipher)
    run.write_first(connection, first)


_OUTLINE = frozenset({RunCreated, SpecialistsRecruited})
_PAYLOAD_OF = itemgetter(6)


def outline_of(events: Sequence[Event]) -> list[Event]:
    """Return the events that tell what a run is about."""
    return [event for event in events if event.body.__class__ in _OUTLINE]


PATIENCE_S: Final = 5.0
"""How long the database may be gone."""


PAUSE_S: Final = 0.2


def has_event(connection: SqlConnection, run_id: RunId, seq: int, digest: bytes) -> bool:
    """Tell whether a log has this event.

    Raises:
        DriverConflict: it has another one in its place.
    """
    query = "SELECT hash FROM events JOIN runs ON number = run WHERE run_id = ? AND seq = ?"
    row = connection.execute(query, (run_id, seq)).fetchone()
    if row is None:
        return False
    if bytes(row[0]) != digest:
        raise DriverConflict(
            f"Another process has appended to run {run_id}",
            hint="Another process drives it. Look with `fabric logs show`; this one stops.",
        )
    return True


async def write_unless_done(
    writer: GroupWriter,
    write: Callable[[SqlConnection], Any],
    is_done: Callable[[SqlConnection], bool],
    after: Callable[[], None],
) -> None:
    """Do what `write` did in a transaction of which no one knows whether it was committed, if it was not.

    Looking is part of the new transaction: that one has its turn only when the lost one has ended, either way.

    Raises:
        StoreUnavailable: the database did not come back in time.
        DriverConflict: another process was faster.
    """

    def again(connection: SqlConnection) -> None:
        if not is_done(connection):
            write(connection)

    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await writer.write(again, after=after)
        except (StoreFull, UniqueViolation):
            raise
        except StoreUnavailable:
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(PAUSE_S)
