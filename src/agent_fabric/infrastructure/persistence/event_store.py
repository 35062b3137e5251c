"""Runs and their logs in SQLite, by hand: an ORM would cost more than the rest of a turn.

Each row carries the hash of the one before. A run's status is kept beside its log, in the same transaction as the event
that changes it.
"""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.application.ports.runs import APPROVAL, HeldLog, HeldRun, InboxRow, NewRun
from agent_fabric.domain.errors import DriverConflict, RunHeld, RunKeyMissing, StoreUnavailable
from agent_fabric.domain.event_versions import version_of
from agent_fabric.domain.events import Event, RunCreated, SpecialistsRecruited
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.consequences import NO_CONSEQUENCES, Consequences, consequences
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.json_codec import dump_json
from agent_fabric.infrastructure.persistence.approvals import cancel_approvals, note_approvals, reopen_approvals
from agent_fabric.infrastructure.persistence.chain_writer import HEAD, ChainWriter, Sealed
from agent_fabric.infrastructure.persistence.codec import encode
from agent_fabric.infrastructure.persistence.event_bodies import stored_blobs
from agent_fabric.infrastructure.persistence.event_rows import (
    add_key,
    add_run,
    add_to_inbox,
    cancel_children,
    chained,
    driven_runs,
    empty_inbox,
    forget_driver,
    head_of,
    holder_of,
    load_events,
    locate,
    note_driver,
    note_status,
    notify_parent,
    number_of,
    recorded_status,
)
from agent_fabric.infrastructure.persistence.inbox import Inbox, inbox_payload
from agent_fabric.infrastructure.persistence.lost_commits import has_event, write_unless_done
from agent_fabric.infrastructure.persistence.sealing import event_place, sealed_json
from agent_fabric.infrastructure.persistence.sql import CommitUnknown, LogDatabase, SqlConnection, UniqueViolation
from agent_fabric.infrastructure.threads import politely

TAKE_PATIENCE_S = 0.5
"""A process that only brings a log file up to date holds a lock for a moment."""


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


class SqliteRunRepository:
    """RunRepository in one SQLite file, shared by any number of processes."""

    def __init__(
        self, store: LogDatabase, clock: Clock, followers: Sequence[LogFollower] = (), chain: ChainWriter | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._chain = ChainWriter() if chain is None else chain
        self._followers = followers
        self._inbox = Inbox(store, self.flush)
        self._held: set[_SqliteHeldRun] = set()
        """The runs that this process drives."""
        self.encrypted: set[RunId] = set()
        """Those of them that are encrypted."""

    async def create(self, run_id: RunId, events: Sequence[Event]) -> HeldRun:
        created = events[0].body if events else None
        encrypted = isinstance(created, RunCreated) and created.encrypted
        key = await asyncio.to_thread(self._store.keys.new, run_id) if encrypted else None
        held = self._hold(run_id, cipher=None if key is None else key.cipher)
        since = self._clock.now()

        def write(connection: SqlConnection) -> None:
            if held.number:  # a second attempt, after another write of the same commit failed: it may differ
                self._store.locks.release(held.number)
            held.number = add_run(connection, run_id, events[0].ts, created)
            if key is not None:
                add_key(connection, held.number, key.sealed)
            # The run is invisible before this transaction ends, so no other process can have its lock.
            self._store.locks.acquire(held.number)
            note_driver(connection, held.number, since)

        held.since = since
        try:
            await held.append(events, beside=write)
        except BaseException:
            await held.abandon()
            raise
        return held

    async def take(self, run_id: RunId) -> HeldLog:
        number, key = await self._store.read(lambda connection: locate(connection, run_id))
        cipher = self._store.keys.cipher(run_id, key)
        deadline = self._clock.monotonic() + TAKE_PATIENCE_S
        while not self._store.locks.acquire(number):
            if self._clock.monotonic() > deadline:
                holder = await self._store.read(lambda connection: holder_of(connection, number))
                raise RunHeld(
                    f"Run {run_id} is being driven by {holder}",
                    hint=f"Watch it: fabric logs show {run_id} --follow. End it: fabric cancel {run_id}.",
                )
            await asyncio.sleep(0.02)
        held = self._hold(run_id, number, cipher)
        try:

            def load(connection: SqlConnection) -> tuple[list[Event], list[Event], bytes]:
                events = load_events(connection, number, cipher)
                return events, _outline_of(events), head_of(connection, number)

            events, outline, head = await self._store.read(load)
            held.continue_from(len(events), outline, head)
            await held.mirror(events)
            since = held.since = self._clock.now()
            await self._store.writer.write(lambda connection: note_driver(connection, number, since))
        except BaseException:
            await held.abandon()
            raise
        return HeldLog(held, events)

    async def read(self, run_id: RunId, *, after: int = -1) -> Sequence[Event]:
        def read(connection: SqlConnection) -> list[Event]:
            number, key = locate(connection, run_id)
            return load_events(connection, number, self._store.keys.cipher(run_id, key), after=after)

        return await self._store.read(read)

    async def status(self, run_id: RunId) -> RunStatus:
        return await self._store.read(lambda connection: recorded_status(connection, number_of(connection, run_id)))

    async def post(self, run_id: RunId, kind: str, payload: Mapping[str, Any]) -> None:
        data, now = dump_json(dict(payload)), self._clock.now()

        def write(connection: SqlConnection) -> None:
            number, key = locate(connection, run_id)
            sealed = inbox_payload(self._store.keys.cipher(run_id, key), kind, data)
            if not recorded_status(connection, number).settled:  # it may have settled since the caller looked
                add_to_inbox(connection, number, kind, sealed, now)

        await self._store.writer.write(write)

    def _hold(self, run_id: RunId, number: int = 0, cipher: Cipher | None = None) -> "_SqliteHeldRun":
        held = _SqliteHeldRun(
            self._store, self._inbox, self._followers, self._chain, self._held, run_id, number, cipher
        )
        if cipher is not None:
            self.encrypted.add(run_id)
            held.on_leaving = partial(self.encrypted.discard, run_id)
        return held

    async def flush(self) -> None:
        """Let the mirrors of our runs show what has happened by now."""
        waiting = [held for held in self._held if held.unflushed]

        def flush() -> None:
            for held in waiting:
                held.flush()

        if waiting:
            await self._store.writer.between_writes(flush)

    async def catch_up(self) -> None:
        """Bring the mirrors of runs up to date whose driver died, or could not write them, before it let go."""
        for number, run_id, key in await self._store.read(driven_runs):
            if self._store.locks.acquire(number):
                try:
                    held = self._hold(run_id, number, self._store.keys.cipher(run_id, key))
                except RunKeyMissing:  # a process that has the key does it
                    self._store.locks.release(number)
                    continue
                since = held.since = self._clock.now()
                await self._store.writer.write(partial(note_driver, number=number, since=since))
                held.lagging = True
                await held.release()


class _SqliteHeldRun:
    """HeldRun whose lock this process has."""

    def __init__(
        self,
        store: LogDatabase,
        inbox: Inbox,
        followers: Sequence[LogFollower],
        chain: ChainWriter,
        siblings: "set[_SqliteHeldRun]",
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
        beside: Callable[[SqlConnection], None] | None = None,
    ) -> None:
        """See the port; `beside` writes more in the same transaction, before the events."""
        if self._unsettled:
            await self._settle()
        if events and events[0].seq != self._next_seq:
            raise DriverConflict(f"Run {self.run_id} expects event {self._next_seq}, not {events[0].seq}")
        rows, blobs, head = self._rows(events)
        payloads = [row[_PAYLOAD] for row in rows]
        following = consequences(self.run_id, self._created, events)

        def write(connection: SqlConnection) -> None:
            if beside is not None:
                beside(connection)
            self._insert(connection, rows, blobs)
            for child in children:
                self._create_child(connection, child)
            if following is not NO_CONSEQUENCES:
                self._write_consequences(connection, following, events[-1], head)
            for row in consumed:
                if row.kind == APPROVAL:
                    reopen_approvals(connection, self.number, row.row_id, following.approvals)
                connection.execute("DELETE FROM inbox WHERE id = ?", (row.row_id,))

        def after() -> None:
            # Here and not behind the await: the waiting task may have been cancelled, but the events are durable.
            self._next_seq += len(events)
            self._head = head
            self._outline += _outline_of(events)
            if events and not self.lagging:
                self._follow(events, payloads)
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
        self._unsettled = False

    def _insert(
        self, connection: SqlConnection, rows: Sequence[tuple[Any, ...]], blobs: Sequence[tuple[bytes, bytes]]
    ) -> None:
        if blobs:
            connection.executemany("INSERT INTO blobs (hash, data) VALUES (?, ?) ON CONFLICT DO NOTHING", blobs)
        connection.executemany(_INSERT_EVENT, [(self.number, *row) for row in rows])

    @property
    def _created(self) -> RunCreated | None:
        first = self._outline[0].body if self._outline else None
        return first if isinstance(first, RunCreated) else None

    def _write_consequences(self, connection: SqlConnection, following: Consequences, last: Event, head: bytes) -> None:
        """Write what was decided to follow from events."""
        number = self.number
        if following.status is not None:
            note_status(connection, number, following.status, following.wake_at)
        if following.notify_parent is not None:
            notify_parent(connection, following.notify_parent, self.run_id, last.ts)
        for cancel in following.cancel_children:
            cancel_children(connection, number, self.run_id, last.ts, cancel)
        if following.approvals:
            note_approvals(connection, number, following.approvals, self._cipher)
        if following.cancel_approvals:
            cancel_approvals(connection, number, following.approvals)
        if following.empty_inbox:
            empty_inbox(connection, number)
        if following.seal:
            self._chain.seal(connection, Sealed(last.ts, HEAD, number, self.run_id, last.seq + 1, head))

    def _create_child(self, connection: SqlConnection, new: NewRun) -> None:
        """Create a run without a driver; its mirrors are written when it is taken."""
        created, cipher = new.created.body, None
        number = add_run(connection, new.run_id, new.created.ts, created, parent=self.number)
        if isinstance(created, RunCreated) and created.encrypted:
            cipher, sealed = self._store.keys.new(new.run_id)
            add_key(connection, number, sealed)
        child = _SqliteHeldRun(self._store, self._inbox, (), self._chain, set(), new.run_id, number, cipher)
        rows, blobs, head = child._rows((new.created,))
        child._insert(connection, rows, blobs)
        child._write_consequences(connection, consequences(new.run_id, None, (new.created,)), new.created, head)

    async def _settle(self) -> None:
        """Wait for a write whose asker was cancelled: it goes on all the same, and decides what comes next."""
        await self._store.writer.write(lambda _: None)  # writes happen in order, so it is done when this one is
        self._unsettled = False

    def _follow(self, events: Sequence[Event], payloads: Sequence[bytes]) -> None:
        self.unflushed = True
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
        try:
            if self._settled:  # a row that stays because of a crash only makes the next start look once more
                self._store.writer.write_along(partial(forget_driver, number=self.number, since=self.since))
                return
            await self._let_go()
            if self.lagging:
                load = partial(load_events, number=self.number, cipher=self._cipher)
                await self.mirror(await self._store.read(load))
                await self._let_go()
        except StoreUnavailable:
            pass  # the driver's row stays, and tells the next start to look after the mirrors
        finally:
            self._leave()

    def _leave(self) -> None:
        self._siblings.discard(self)
        if self.on_leaving is not None:
            self.on_leaving()
        if self.number:  # else it has never come to be
            self._inbox.forget(self.number)
            self._store.locks.release(self.number)

    def _let_go(self) -> "asyncio.Future[None]":
        """Bring the mirrors up to date, and forget the driver if they are: its row says that they may not be."""

        def write(connection: SqlConnection) -> None:
            self.flush()
            if not self.lagging:
                forget_driver(connection, self.number, self.since)

        return self._store.writer.write(write, alone=len(self._siblings) == 1)

    def _rows(self, events: Sequence[Event]) -> tuple[list[tuple[Any, ...]], list[tuple[bytes, bytes]], bytes]:
        """Return the rows of events and of their blobs, and the hash of the last one."""
        head, cipher = self._head, self._cipher
        rows: list[tuple[Any, ...]] = []
        stored: list[tuple[bytes, bytes]] = []
        for event in events:
            body = event.body
            kind = body.kind
            if cipher is None:
                payload, blobs = encode(body)
            else:
                payload, blobs = encode(body, cipher.address)
                payload = sealed_json(cipher, event_place(event.seq, kind), payload)
            version = version_of(kind)
            head = chained(head, event.seq, event.ts, kind, version, event.lane, event.step, payload)
            rows.append((event.seq, event.ts, kind, version, event.lane, event.step, payload, head))
            if blobs:
                stored.extend(stored_blobs(blobs, cipher))
        return rows, stored, head


_PAYLOAD = 6
_INSERT_EVENT = (
    "INSERT INTO events (run, seq, ts, kind, version, lane, step, payload, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


_OUTLINE = (RunCreated, SpecialistsRecruited)  # not a union: those take ten times as long to look into


def _outline_of(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if isinstance(event.body, _OUTLINE)]
