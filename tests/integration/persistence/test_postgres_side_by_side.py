"""Processes write the rows of different runs in PostgreSQL at the same time, and each only those that it may."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agent_fabric.application.ports.bus import BusMessage
from agent_fabric.application.ports.pending_work import (
    ANSWERS,
    COMMANDS,
    MESSAGES,
    NOTICES,
    OUTBOX,
    PLANS,
    RUNS,
    SCHEDULES,
    TURNS,
)
from agent_fabric.domain.automation.outgoing import OutgoingMessage, Subscription
from agent_fabric.domain.automation.schedule import Rule, Schedule
from agent_fabric.domain.channels.notices import NotifyPreference
from agent_fabric.domain.errors import DriverConflict, RunHeld
from agent_fabric.domain.events import RunResumed, RunWaited
from agent_fabric.domain.fleet.commands import CommandStatus
from agent_fabric.domain.fleet.plans import PlanStatus
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence.dialects import POSTGRESQL, WRITERS_LOCK
from agent_fabric.infrastructure.persistence.runs.event_rows import add_run
from agent_fabric.infrastructure.persistence.runs.index_batches import settled_position
from agent_fabric.infrastructure.persistence.runs.log_writes import OfOneRun
from agent_fabric.infrastructure.persistence.sql import OneStatement
from contract.fleet_contract import COMMAND, PLAN
from contract.run_repository_contract import CREATED, OTHER, RUN, completed, log, run_created
from integration.persistence.postgres_storage import open_tables
from postgres_cluster import Cluster

PATIENCE_S = 60.0
SOON_S = 0.4
MORE = log(RunResumed(by="person", driver="a test"), first=1)


@pytest.fixture
async def pair(database_url: str, tmp_path: Path) -> AsyncIterator[tuple[Any, Any]]:
    """Two processes, as far as the database can tell."""
    both = tuple(open_tables(database_url, tmp_path / name, SystemClock()) for name in ("one", "other"))
    yield both[0], both[1]
    for each in both:
        each.close()


@contextmanager
def transaction(url: str, *statements: str) -> Iterator[psycopg.Connection]:
    """A transaction of somebody else that stays open."""
    with psycopg.connect(url) as connection:
        for statement in statements:
            connection.execute(statement.encode())
        yield connection
        connection.rollback()


def numbers(tables: Any) -> dict[str, int]:
    found = tables.store.read_now(lambda connection: connection.execute("SELECT run_id, number FROM runs").fetchall())
    return dict(found)


@pytest.mark.proves("SC-5")
async def test_a_stalled_append_holds_up_no_other_run(pair: tuple[Any, Any], database_url: str) -> None:
    one, other = pair
    held, beside = await one.runs.create(RUN, CREATED), await other.runs.create(OTHER, CREATED)
    stalled = (
        f"SELECT pg_advisory_xact_lock_shared({WRITERS_LOCK})",
        f"SELECT 1 FROM runs WHERE number = {numbers(one)[RUN]} FOR UPDATE",
    )
    with transaction(database_url, *stalled):
        async with asyncio.timeout(PATIENCE_S):
            await beside.append(MORE)
            await beside.append(log(completed(OTHER), first=2))
            third = await one.runs.create(RunId("third"), CREATED)
            await third.release()
        waiting = asyncio.ensure_future(held.append(MORE))
        await asyncio.sleep(SOON_S)
        assert not waiting.done()
    await waiting
    assert len(await one.runs.read(RUN)) == 2


async def test_who_looks_first_and_writes_then_has_the_database_alone(pair: tuple[Any, Any], database_url: str) -> None:
    one, other = pair
    held = await one.runs.create(RUN, CREATED)
    with transaction(database_url, f"SELECT pg_advisory_xact_lock({WRITERS_LOCK})"):
        waiting = [
            asyncio.ensure_future(each)
            for each in (held.append(MORE), other.runs.create(OTHER, CREATED), other.runs.post(RUN, "cancel", {}))
        ]
        await asyncio.sleep(SOON_S)
        assert not any(each.done() for each in waiting)
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*waiting)


@pytest.mark.proves("SC-5")
async def test_one_that_was_taken_over_fails_alone_in_its_group(pair: tuple[Any, Any]) -> None:
    one, _ = pair
    ids = [RunId(f"run-{number}") for number in range(6)]
    held = [await one.runs.create(run_id, CREATED) for run_id in ids]
    taken = numbers(one)[ids[2]]
    await one.store.write(
        lambda connection: connection.execute("UPDATE runs SET epoch = epoch + 1 WHERE number = ?", (taken,))
    )
    results = await asyncio.gather(*(each.append(MORE) for each in held), return_exceptions=True)
    assert [type(result) for result in results] == [type(None)] * 2 + [DriverConflict] + [type(None)] * 3
    assert [len(await one.runs.read(run_id)) for run_id in ids] == [2, 2, 1, 2, 2, 2]


async def test_one_of_two_who_create_the_same_run_has_it(pair: tuple[Any, Any]) -> None:
    created = await asyncio.gather(*(each.runs.create(RUN, CREATED) for each in pair), return_exceptions=True)
    assert sorted(isinstance(each, DriverConflict) for each in created) == [False, True], created


async def test_one_of_many_who_take_a_run_has_it(pair: tuple[Any, Any]) -> None:
    one, other = pair
    for number in range(10):
        run_id = RunId(f"run-{number}")
        await (await one.runs.create(run_id, CREATED)).release()
        taken = await asyncio.gather(*(each.runs.take(run_id) for each in (one, other)), return_exceptions=True)
        assert sorted(isinstance(each, RunHeld) for each in taken) == [False, True], taken


async def test_mail_that_becomes_durable_out_of_order_is_all_read(pair: tuple[Any, Any], database_url: str) -> None:
    one, other = pair
    held = await one.runs.create(RUN, CREATED)
    late = (
        "INSERT INTO inbox (run, kind, payload, created_at) VALUES"
        f" ({numbers(one)[RUN]}, 'signal', '{{\"first\": true}}', 1.0)"
    )
    with transaction(database_url, late) as first:
        await other.runs.post(RUN, "signal", {"second": True})
        async with asyncio.timeout(PATIENCE_S):
            assert [row.payload for row in await held.receive()] == [{"second": True}]
        first.commit()
        async with asyncio.timeout(PATIENCE_S):
            assert [row.payload for row in await held.receive()] == [{"first": True}]
    assert await held.unread() == []


async def test_an_index_misses_no_event_that_becomes_durable_late(pair: tuple[Any, Any], database_url: str) -> None:
    one, other = pair
    held = await one.runs.create(RUN, CREATED)
    late = (
        "INSERT INTO events (run, seq, ts, kind, version, step, payload, hash) SELECT run, 1, 1.0, kind, version, step,"
        " payload, hash FROM events WHERE seq = 0"
    )
    with transaction(database_url, f"SELECT pg_advisory_xact_lock_shared({WRITERS_LOCK})", late) as first:
        await other.runs.create(OTHER, CREATED)
        settled = asyncio.ensure_future(
            asyncio.to_thread(one.store.read_now, lambda connection: settled_position(connection, POSTGRESQL))
        )
        await asyncio.sleep(SOON_S)
        assert not settled.done()
        first.commit()
    async with asyncio.timeout(PATIENCE_S):
        newest = one.store.read_now(
            lambda connection: connection.execute("SELECT max(position) FROM events").fetchone()
        )
        assert await settled == newest[0]
    await held.release()


async def test_one_query_tells_what_there_is_to_do(pair: tuple[Any, Any]) -> None:
    one, other = pair
    kinds = (RUNS, ANSWERS, OUTBOX, TURNS)
    assert await one.pending_work(kinds) == []
    held = await other.runs.create(RUN, CREATED)
    assert await one.pending_work(kinds) == []  # it is driven
    await held.release()
    assert await one.pending_work(kinds) == [RUNS]
    held, events, _ = await other.runs.take(RUN)
    await held.append(log(RunWaited(reason="to see"), first=len(events)))
    await held.release()
    assert await one.pending_work(kinds) == []  # it waits, and costs nothing
    await one.runs.post(RUN, "signal", {})
    assert await one.pending_work(kinds) == [ANSWERS]
    assert await one.queue.due() == [RUN]
    one.outbox.put(BusMessage("1", "agent33.alert.x", {}))
    await one.store.write(lambda _: None)
    assert await one.pending_work((OUTBOX, ANSWERS)) == [OUTBOX, ANSWERS]
    assert await one.pending_work(()) == ()


async def test_a_run_is_created_with_all_that_its_first_event_says(pair: tuple[Any, Any]) -> None:
    """Both ways to create one write the same columns: with many others at once, and alone in somebody's transaction."""
    one, _ = pair
    said: dict[str, Any] = {"owner": "user:ada", "visibility": "private", "trial_of": "e", "session": "", "pool": "p"}
    body = replace(run_created(), **said)
    await one.runs.create(RUN, log(body))
    home = one.store.leases.home_of(OTHER, body)
    await one.store.write(lambda connection: add_run(connection, OTHER, 1_000.5, body, home=home))
    columns = "created_at, status, home, parent, continues, owner, visibility, trial_of, session_id, pool"
    query = f"SELECT {columns} FROM runs ORDER BY number"
    first, second = one.store.read_now(lambda connection: connection.execute(query).fetchall())
    assert first == second
    assert list(first[-5:]) == list(said.values())


@pytest.mark.proves("SC-10")
async def test_an_idempotency_key_at_four_servers_is_one_run(database_url: str, tmp_path: Path) -> None:
    servers = [open_tables(database_url, tmp_path / str(number), SystemClock()) for number in range(4)]
    try:
        for key in ("one", "two", "three"):
            claims = await asyncio.gather(*(each.idempotency.claim("ada", key, b"the same") for each in servers))
            assert sorted(claim.is_new for claim in claims) == [False, False, False, True]
            assert len({claim.run_id for claim in claims}) == 1
    finally:
        for each in servers:
            each.close()


@pytest.mark.proves("SC-10")
async def test_places_for_runs_are_counted_over_all_servers(pair: tuple[Any, Any]) -> None:
    one, other = pair
    names = [f"run {number} of ada" for number in range(3)]
    assert await one.agent_locks.acquire(names[1])
    assert await other.agent_locks.acquire(names[2])
    for each in pair:
        assert set(await each.agent_locks.find_taken(names)) == set(names[1:])
    await other.agent_locks.release(names[2])
    assert set(await one.agent_locks.find_taken(names)) == {names[1]}


@pytest.mark.proves("SC-4")
async def test_a_process_has_no_more_connections_than_its_pool_and_two(
    database_url: str, cluster: Cluster, tmp_path: Path
) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'agent-fabric'"
    while cluster.execute(query) != [(0,)]:
        await asyncio.sleep(0.05)
    tables, most = open_tables(database_url, tmp_path, SystemClock(), pool=3), 0
    try:
        ids = [RunId(f"run-{number}") for number in range(200)]
        held = await asyncio.gather(*(tables.runs.create(run_id, CREATED) for run_id in ids))

        async def work(number: int) -> None:
            mail = held[number].receive()
            await held[number].append(MORE)
            await tables.runs.read(ids[number])
            await tables.reader.status(ids[number])
            mail.cancel()

        working = asyncio.gather(*(work(number) for number in range(len(ids))))
        while not working.done():
            ((count,),) = await asyncio.to_thread(cluster.execute, query)
            most = max(most, count)
            await asyncio.sleep(0.01)
        await working
        await asyncio.gather(*(each.release() for each in held))
    finally:
        tables.close()
    assert 2 <= most <= 3 + 2


async def test_who_looks_for_runs_does_not_pass_those_that_have_settled(
    pair: tuple[Any, Any], cluster: Cluster, database_url: str
) -> None:
    one, _ = pair
    old = "SELECT 'old-' || n, 'completed', 1 FROM generate_series(1, 2000) AS n"
    cluster.execute(f"INSERT INTO runs (run_id, status, created_at) {old}", database_url)
    await (await one.runs.create(RUN, CREATED)).release()
    assert await one.queue.list_unfinished(limit=5) == [RUN]
    assert numbers(one)[RUN] - 600 < one.queue.start._number < numbers(one)[RUN]
    cluster.execute("UPDATE runs SET status = 'running' WHERE run_id = 'old-1'", database_url)  # its driver has died
    assert await one.queue.list_unfinished(limit=5) == [RUN]
    one.queue.start._learned_at = float("-inf")  # some seconds later
    assert await one.queue.list_unfinished(limit=5) == ["old-1", RUN]
    assert await one.pending_work([RUNS]) == [RUNS]


async def test_the_same_query_tells_of_schedules_and_messages(pair: tuple[Any, Any]) -> None:
    one, other = pair
    kinds, now = (RUNS, SCHEDULES, MESSAGES), time.time()
    rule = Rule(every_s=3_600.0, anchor=now)
    schedule = Schedule(id="s", name="job", rule=rule, task_instruction="do it", created_at=now, next_at=now + 60)
    await other.automation.schedules.add(schedule, by="ada")
    message = OutgoingMessage(id="m>ops", subscription="ops", message_id="m", subject="s", payload={}, next_at=now)
    await other.automation.outgoing.put([message])
    assert await one.pending_work(kinds) == []  # neither is anything due nor anybody there to be sent something
    receiver = Subscription(name="ops", subjects=("s",), url="https://example.com/")
    await other.automation.subscriptions.save(receiver, new=True)
    assert await one.pending_work(kinds) == [MESSAGES]
    due = replace(schedule, revision=2, next_at=now - 1)
    assert await other.automation.schedules.change(schedule, due, by="ada", now=now)
    assert await one.pending_work(kinds) == [SCHEDULES, MESSAGES]


async def test_the_same_query_tells_of_plans_under_way(pair: tuple[Any, Any]) -> None:
    one, other = pair
    await other.fleet_plans.save(replace(PLAN, status=PlanStatus.HALTED))
    assert await one.pending_work((PLANS,)) == []
    await other.fleet_plans.save(replace(PLAN, status=PlanStatus.RUNNING))
    assert await one.pending_work((RUNS, PLANS)) == [PLANS]


async def test_the_same_query_tells_of_commands_that_will_never_be_sent(pair: tuple[Any, Any]) -> None:
    one, other = pair
    await (await other.runs.create(RUN, CREATED)).release()
    waiting = replace(COMMAND, status=CommandStatus.WAITING, run_id=RUN, expires_at=time.time() + 600)
    commands = other.node_commands
    await commands.add(waiting)
    await commands.add(replace(COMMAND, execution_id="sent", status=CommandStatus.SENT, expires_at=1.0))
    assert await one.pending_work((COMMANDS,)) == []  # it waits for a person
    denied = (
        "INSERT INTO pending_approvals"
        " (id, run, execution_id, tool_name, arguments, status, created_at, expires_at, card)"
        " VALUES ('denied', ?, '', '', '', 'denied', 0, 0, '')"
    )
    await other.store.write(lambda connection: connection.execute(denied, (numbers(one)[RUN],)))
    assert await one.pending_work((RUNS, COMMANDS)) == [RUNS, COMMANDS]
    await other.store.write(lambda connection: connection.execute(denied.replace("denied", "pending"), (1,)))
    await other.channels.notify.save(NotifyPreference(user="ann", approvals=("channel",)), act=None)
    assert await one.pending_work((NOTICES,)) == []
    await other.channels.notify.save(NotifyPreference(user="ann", approvals=("webhook:ops",)), act=None)
    assert await one.pending_work((NOTICES,)) == [NOTICES]
    moved = await commands.move(waiting.execution_id, CommandStatus.DENIED, since=(CommandStatus.WAITING,), at=1.0)
    assert moved is not None
    assert await one.pending_work((COMMANDS,)) == []
    await commands.add(replace(COMMAND, execution_id="late", status=CommandStatus.QUEUED, expires_at=1.0))
    assert await one.pending_work((COMMANDS,)) == [COMMANDS]


async def test_one_statement_is_a_transaction_and_outlives_a_lost_connection(pair: tuple[Any, Any]) -> None:
    one, _ = pair
    note = OneStatement("UPDATE fabric_format SET version = version RETURNING pg_current_xact_id()::text", ())
    first = await one.store.write(note)
    one.store.writer._connection.abort()
    second, third = await asyncio.gather(one.store.write(note), one.store.write(OfOneRun(note)))
    assert len({first[0][0], second[0][0], third[0][0]}) >= 2
