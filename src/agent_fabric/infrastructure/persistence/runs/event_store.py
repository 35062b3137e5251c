"""Runs and their logs in a database, by hand: an ORM would cost more than the rest of a turn.

Each row carries the hash of the one before. A run's status is kept beside its log, in the same transaction as the event
that changes it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.application.ports.runs import HeldLog, HeldRun
from agent_fabric.domain.errors import RunHeld, RunKeyMissing
from agent_fabric.domain.events import Event, RunCreated
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.runs.event_rows import (
    add_to_inbox,
    driven_runs,
    head_of,
    holder_of,
    load_events,
    locate,
    note_driver,
    number_of,
    recorded_status,
)
from agent_fabric.infrastructure.persistence.runs.held_run import LogFollower, SqlHeldRun, create_undriven, outline_of
from agent_fabric.infrastructure.persistence.runs.inbox import Inbox, inbox_payload
from agent_fabric.infrastructure.persistence.runs.log_writes import NewRunRow, OfOneRun
from agent_fabric.infrastructure.persistence.sql import LogDatabase, SqlConnection
from agent_fabric.wire.json_codec import dump_json

TAKE_PATIENCE_S = 0.5
"""A process that only brings a log file up to date holds a lock for a moment."""


class SqlRunRepository:
    """RunRepository in a database that any number of processes share."""

    def __init__(
        self, store: LogDatabase, clock: Clock, followers: Sequence[LogFollower] = (), chain: ChainWriter | None = None
    ) -> None:
        self._store = store
        self._clock = clock
        self._chain = ChainWriter() if chain is None else chain
        self._followers = followers
        self._inbox = Inbox(store, self.flush)
        store.leases.on_lost(self._inbox.fail)
        self._held: set[SqlHeldRun] = set()
        """The runs that this process drives."""
        self.encrypted: set[RunId] = set()
        """Those of them that are encrypted."""

    def look_into_inboxes(self) -> None:
        """Look for new rows of the runs that are driven here, and not at the next poll."""
        self._inbox.look()

    async def create(self, run_id: RunId, events: Sequence[Event]) -> HeldRun:
        created = events[0].body if events else None
        encrypted = isinstance(created, RunCreated) and created.encrypted
        key = await asyncio.to_thread(self._store.keys.new, run_id) if encrypted else None
        held = self._hold(run_id, cipher=None if key is None else key.cipher)
        since = self._clock.now()

        row = NewRunRow(
            run_id=run_id,
            created_at=events[0].ts,
            created=created,
            key=None if key is None else key.sealed,
            since=since,
        )
        held.since = since
        try:
            await held.append(events, new=row)
        except BaseException:
            await held.abandon()
            raise
        return held

    def create_undriven(self, connection: SqlConnection, run_id: RunId, first: Event) -> None:
        """Create a run in the caller's transaction, for the process that takes it; its folder is made then.

        Raises:
            DriverConflict: there is one with this id.
        """
        create_undriven(self._store, self._inbox, self._chain, connection, run_id, first)

    async def take(self, run_id: RunId) -> HeldLog:
        number, key = await self._store.read(lambda connection: locate(connection, run_id))
        cipher = self._store.keys.cipher(run_id, key)
        deadline = self._clock.monotonic() + TAKE_PATIENCE_S
        since = self._clock.now()
        while (lease := await self._store.leases.acquire(number, since=since)) is None:
            if self._clock.monotonic() > deadline:
                holder = await self._store.read(lambda connection: holder_of(connection, number))
                raise RunHeld(
                    f"Run {run_id} is being driven by {holder}",
                    hint=f"Watch it: fabric logs show {run_id} --follow. End it: fabric cancel {run_id}.",
                )
            await asyncio.sleep(0.02)
        held = self._hold(run_id, number, cipher, lease.epoch)
        try:

            def load(connection: SqlConnection) -> tuple[list[Event], list[Event], bytes]:
                events = load_events(connection, number, cipher)
                return events, outline_of(events), head_of(connection, number)

            events, outline, head = await self._store.read(load)
            held.continue_from(len(events), outline, head)
            await held.mirror(events)
            held.since = since
            if not lease.noted:
                await self._store.writer.write(OfOneRun(partial(note_driver, number=number, since=since)))
        except BaseException:
            await held.abandon()
            raise
        return HeldLog(held, events, lease.before)

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

        await self._store.writer.write(OfOneRun(write))

    def _hold(self, run_id: RunId, number: int = 0, cipher: Cipher | None = None, epoch: int = 0) -> "SqlHeldRun":
        held = SqlHeldRun(self._store, self._inbox, self._followers, self._chain, self._held, run_id, number, cipher)
        held.epoch = epoch
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
        for number, run_id, key in await self._store.read(partial(driven_runs, free=self._store.leases.free)):
            since = self._clock.now()
            lease = await self._store.leases.acquire(number, since=since)
            if lease is not None:
                try:
                    held = self._hold(run_id, number, self._store.keys.cipher(run_id, key), lease.epoch)
                except RunKeyMissing:  # a process that has the key does it
                    self._store.leases.release(number, lease.epoch)
                    continue
                held.since = since
                if not lease.noted:
                    await self._store.writer.write(OfOneRun(partial(note_driver, number=number, since=since)))
                held.lagging = True
                await held.release()
