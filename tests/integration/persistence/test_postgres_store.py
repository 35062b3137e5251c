"""The store in PostgreSQL: grouped commits, lost answers, bounded connections, and errors that say what to do."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.database import Migrated
from agent_fabric.application.ports.webhooks import NewDelivery
from agent_fabric.domain.errors import DriverConflict, StoreUnavailable
from agent_fabric.domain.events import RunInterrupted
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.persistence.postgres.binary import BIGINT, BinaryStatement
from agent_fabric.infrastructure.persistence.postgres.connection import PREPARE_AT, REPLAN_EVERY, PostgresConnection
from agent_fabric.infrastructure.persistence.postgres.migration import migrate
from agent_fabric.infrastructure.persistence.postgres.store import PostgresStore
from agent_fabric.infrastructure.persistence.runs.held_run import has_event
from agent_fabric.infrastructure.persistence.schema import FORMAT
from agent_fabric.infrastructure.persistence.sql import CommitUnknown, SqlConnection, UniqueViolation
from agent_fabric.testing.fakes import FrozenClock
from contract.run_repository_contract import CREATED, NEXT, RUN, completed, log
from contract.storage_contract import SteadyClock
from cutting_proxy import Cut, CuttingProxy, run_proxy
from effort import effort
from integration.persistence.postgres_storage import open_tables
from postgres_cluster import Cluster

AT_ONCE = 40
CRASHES = effort(3, 100)


def insert(login: str) -> Callable[[SqlConnection], str]:
    def write(connection: SqlConnection) -> str:
        connection.execute("INSERT INTO ended_logins (id, until) VALUES (?, ?)", (login, 1.0))
        if login.startswith("bad"):
            raise ValueError(login)
        return login

    return write


def logins(connection: SqlConnection) -> list[str]:
    return [str(login) for (login,) in connection.execute("SELECT id FROM ended_logins ORDER BY id")]


@pytest.fixture
async def store(database_url: str, tmp_path: Path) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(database_url, pool=4)
    yield store
    store.close()


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[CuttingProxy]:
    with run_proxy(cluster.port) as proxy:
        yield proxy


@pytest.fixture
async def far(database_url: str, cluster: Cluster, proxy: CuttingProxy, tmp_path: Path) -> AsyncIterator[Any]:
    """The tables behind a network that can be cut."""
    tables = open_tables(database_url.replace(f":{cluster.port}/", f":{proxy.port}/"), tmp_path, FrozenClock(1.0))
    yield tables
    tables.close()


async def burst(store: PostgresStore, names: list[str]) -> list[Any]:
    """Ask for writes while the writer is held up, so that they become one group."""
    go, begun = threading.Event(), threading.Event()

    def wait(_connection: SqlConnection) -> None:
        begun.set()
        assert go.wait(60)

    first = store.write(wait)
    await asyncio.to_thread(begun.wait, 10)
    asked = [store.write(insert(name)) for name in names]
    go.set()
    await first
    return await asyncio.gather(*asked, return_exceptions=True)


async def test_a_bad_write_does_not_fail_its_neighbours(store: PostgresStore) -> None:
    outcomes = await burst(store, ["a", "bad", "b", "a", "c"])
    assert outcomes[0::2] == ["a", "b", "c"]
    assert isinstance(outcomes[1], ValueError)
    assert isinstance(outcomes[3], UniqueViolation)
    assert await store.read(logins) == ["a", "b", "c"]


async def test_writes_asked_for_together_share_a_commit(store: PostgresStore) -> None:
    query = "SELECT count(DISTINCT xmin::text) FROM ended_logins"
    await burst(store, [f"{number}" for number in range(AT_ONCE)])
    assert await store.read(lambda connection: connection.execute(query).fetchone()[0]) == 1


async def test_a_write_with_a_swallowed_error_is_no_success(store: PostgresStore) -> None:
    def write(connection: SqlConnection) -> None:
        connection.execute("INSERT INTO ended_logins (id, until) VALUES ('a', 1)")
        with pytest.raises(Exception, match="nowhere"):
            connection.execute("SELECT * FROM nowhere")

    with pytest.raises(StoreUnavailable, match="nothing of it happened"):
        await store.write(write)
    await store.write(insert("b"))
    assert await store.read(logins) == ["b"]


async def test_text_that_no_database_stores_finds_nothing(database_url: str, tmp_path: Path) -> None:
    tables = open_tables(database_url, tmp_path, FrozenClock(1.0))
    for name in ("a\0b", "half \ud800"):
        assert await tables.users.find(name) is None
        assert await tables.api_keys.find(name) is None
        assert not await tables.ended_logins.has(name)
        assert await tables.deliveries.take(NewDelivery(source="github", delivery_id=name)) == []
        assert (await tables.idempotency.claim(name, name, b"r")).is_new
    tables.close()


async def test_many_reads_share_few_connections(store: PostgresStore, cluster: Cluster, database_url: str) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'agent-fabric' AND datname = ?"
    name = database_url.rpartition("/")[2]
    others = cluster.execute(query.replace("?", f"'{name}'"))[0][
        0
    ]  # the server ends those of other tests in its own time
    await store.write(insert("a"))

    def read(connection: SqlConnection) -> int:
        connection.execute("SELECT pg_sleep(0.01)")
        return int(connection.execute(query, (name,)).fetchone()[0])

    seen = await asyncio.gather(*(store.read(read) for _ in range(AT_ONCE)))
    assert 2 <= max(seen) - others <= 4


async def test_a_read_that_fails_inside_a_snapshot_leaves_no_transaction_open(store: PostgresStore) -> None:
    def read(connection: SqlConnection) -> None:
        connection.execute(store.dialect.begin_snapshot)
        raise KeyError("x")

    for _ in range(AT_ONCE // 10):
        with pytest.raises(KeyError):
            await store.read(read)
    assert await store.read(logins) == []


async def test_writers_of_several_processes_take_turns(database_url: str, tmp_path: Path) -> None:
    clock = SteadyClock(1.0)
    servers = [open_tables(database_url, tmp_path / str(number), clock, pool=2) for number in range(4)]
    try:
        claims = await asyncio.gather(*(each.idempotency.claim("ada", "k", b"r") for each in servers for _ in range(5)))
        assert sum(claim.is_new for claim in claims) == 1
        assert len({claim.run_id for claim in claims}) == 1
        delivery = NewDelivery(source="github", delivery_id="1")
        taken = await asyncio.gather(*(each.deliveries.take(delivery) for each in servers for _ in range(5)))
        assert sum(each is not None for each in taken) == 1
    finally:
        for each in servers:
            each.close()


# --- connections that end


async def test_connections_that_ended_while_idle_are_replaced(store: PostgresStore, cluster: Cluster) -> None:
    await store.write(insert("a"))
    assert await store.read(logins) == ["a"]
    cluster.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'agent-fabric'")
    assert await store.read(logins) == ["a"]
    await store.write(insert("b"))
    assert await store.read(logins) == ["a", "b"]


async def test_a_connection_that_ends_during_a_write_undoes_it(store: PostgresStore) -> None:
    def write(connection: SqlConnection) -> None:
        insert("lost")(connection)
        connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    outcomes = await asyncio.gather(store.write(write), return_exceptions=True)
    assert isinstance(outcomes[0], StoreUnavailable)
    assert not isinstance(outcomes[0], CommitUnknown)
    await store.write(insert("b"))
    assert await store.read(logins) == ["b"]


@pytest.mark.parametrize("cut", Cut)
async def test_a_commit_whose_answer_is_lost_is_neither_a_success_nor_a_failure(
    far: Any, proxy: CuttingProxy, cut: Cut
) -> None:
    await far.store.write(insert("first"))
    proxy.cuts.append(cut)
    with pytest.raises(CommitUnknown):
        await far.store.write(insert("lost"))
    assert await far.store.read(logins) == (["first", "lost"] if cut is Cut.AFTER else ["first"])


@pytest.mark.parametrize("cut", Cut)
async def test_a_run_settles_lost_commits_by_their_hashes(far: Any, proxy: CuttingProxy, cut: Cut) -> None:
    proxy.cuts.append(cut)
    held = await far.runs.create(RUN, CREATED)
    proxy.cuts += [cut, cut]
    await held.append(NEXT)
    await held.append(log(completed(RUN), first=3))
    await held.release()
    assert list(await far.runs.read(RUN)) == [*CREATED, *NEXT, *log(completed(RUN), first=3)]
    report = await far.chain.verify()
    assert (report.runs, report.damage) == (1, ())
    assert not proxy.cuts


async def test_an_event_of_another_process_in_our_place_is_a_conflict(database_url: str, tmp_path: Path) -> None:
    tables = open_tables(database_url, tmp_path, FrozenClock(1.0))
    held = await tables.runs.create(RUN, CREATED)

    def steal(connection: SqlConnection) -> None:
        columns = "run, seq, ts, kind, version, step, payload, hash"
        query = f"INSERT INTO events ({columns}) VALUES (?, 1, 1, 'x', 1, '', ?, ?)"
        connection.execute(query, (held.number, b"{}", b"other"))

    assert not await tables.store.read(lambda connection: has_event(connection, RUN, 1, b"ours"))
    await tables.store.write(steal)
    with pytest.raises(DriverConflict):
        await tables.store.read(lambda connection: has_event(connection, RUN, 1, b"ours"))
    with pytest.raises(DriverConflict):
        await held.append(NEXT)
    await held.release()
    tables.close()


async def test_a_server_that_crashes_and_returns_has_all_that_was_reported(
    tmp_path: Path, own_cluster: Cluster
) -> None:
    url = own_cluster.create_database()
    migrate(url)
    store = PostgresStore(url)
    await store.write(insert("a"))
    own_cluster.stop(signal.SIGQUIT)
    with pytest.raises(StoreUnavailable) as caught:
        await store.write(insert("b"))
    assert "cannot be reached" in caught.value.message
    assert caught.value.hint
    with pytest.raises(StoreUnavailable):
        await store.read(logins)
    own_cluster.start()
    await asyncio.sleep(0.5)  # the longest pause between attempts
    await store.write(insert("c"))
    assert await store.read(logins) == ["a", "c"]
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await store.write(insert("d"))


async def test_no_event_is_lost_or_repeated_while_the_server_crashes(tmp_path: Path, own_cluster: Cluster) -> None:
    url = own_cluster.create_database()
    migrate(url)
    tables = open_tables(url, tmp_path, SteadyClock(1.0))
    reported: dict[RunId, int] = {}
    over = asyncio.Event()

    async def drive(run_id: RunId) -> None:
        held, seq = None, 0
        while not over.is_set() or held is None:
            try:
                if seq == 0:
                    held, seq = await tables.runs.create(run_id, CREATED), 1
                elif held is None:
                    held, events, _ = await tables.runs.take(run_id)
                    assert len(events) >= reported[run_id]
                    seq = len(events)
                else:
                    await held.append(log(RunInterrupted(reason=f"{seq}"), first=seq))
                    seq += 1
                reported[run_id] = seq
            except StoreUnavailable:
                await asyncio.sleep(0.1)
                if held is not None:
                    await held.release()
                    held = None
        await held.release()

    async with asyncio.TaskGroup() as tasks:
        runs = [RunId(f"{number:08x}-0000-4000-8000-000000000000") for number in range(8)]
        for run_id in runs:
            tasks.create_task(drive(run_id))
        for _ in range(CRASHES):
            await asyncio.sleep(0.3)
            await asyncio.to_thread(own_cluster.stop, signal.SIGQUIT)
            await asyncio.to_thread(own_cluster.start)
        await asyncio.sleep(1.0)
        over.set()
    report = await tables.chain.verify()
    assert (report.runs, report.damage) == (len(runs), ())
    for run_id in runs:
        reasons = [getattr(event.body, "reason", "") for event in (await tables.runs.read(run_id))[1:]]
        assert reasons == [f"{seq}" for seq in range(1, len(reasons) + 1)]
        assert len(reasons) + 1 >= reported[run_id] > CRASHES
    tables.close()


# --- tables


async def test_an_empty_database_is_migrated_once_and_not_in_passing(cluster: Cluster, tmp_path: Path) -> None:
    url = cluster.create_database()
    store = PostgresStore(url)
    for attempt in (store.read(logins), store.write(insert("a"))):
        with pytest.raises(StoreUnavailable, match="has no tables yet"):
            await attempt
    newest = FORMAT
    migrated = await asyncio.gather(*(asyncio.to_thread(migrate, url) for _ in range(3)))
    assert sorted(migrated) == [Migrated(0, newest), Migrated(newest, newest), Migrated(newest, newest)]
    await store.write(insert("a"))
    store.close()


async def test_the_database_of_a_newer_program_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    url = cluster.create_database()
    migrate(url)
    cluster.execute("UPDATE fabric_format SET version = version + 1, min_writer = version + 1", url)
    store = PostgresStore(url)
    with pytest.raises(StoreUnavailable, match="newer agent-fabric"):
        await store.read(logins)
    with pytest.raises(StoreUnavailable, match="newer agent-fabric"):
        migrate(url)
    store.close()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://fabric:secret@127.0.0.1:1/x", "cannot be reached"),
        ("postgresql://fabric:secret@[::1/x", "store.url"),
        ("no address", "store.url"),
    ],
)
async def test_a_wrong_address_is_explained_without_its_password(url: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        await PostgresStore(url).read(logins)
    assert words in f"{caught.value.message} {caught.value.hint}"
    assert "secret" not in f"{caught.value.message} {caught.value.hint} {caught.value.__cause__}"


ECHO = BinaryStatement("SELECT $1::bigint", (BIGINT,), "test_echo")


def prepared(connection: PostgresConnection) -> int:
    """Return how many statements the server keeps for this connection."""
    row = connection.execute("SELECT count(*) FROM pg_prepared_statements WHERE name = 'test_echo'").fetchone()
    return int(row[0])


@pytest.mark.proves("SC-4")
def test_statements_of_the_hot_path_are_prepared_where_nobody_stands_in_between(
    database_url: str, through_pgbouncer: Callable[[str], str]
) -> None:
    direct = PostgresConnection(database_url)
    pooled = [PostgresConnection(through_pgbouncer(database_url)) for _ in range(3)]
    try:
        for number in range(2 * PREPARE_AT):
            for connection in (direct, *pooled):
                connection.execute("BEGIN; SELECT 1")  # so that pgbouncer lends a connection to each
            for connection in (direct, *pooled):
                assert connection.execute_binary(ECHO, [number]) == [(number.to_bytes(8),)]
            for connection in (direct, *pooled):
                connection.commit()
        assert prepared(direct) == 1
        assert [prepared(connection) for connection in pooled] == [0, 0, 0]
        direct._uses[ECHO] = PREPARE_AT + REPLAN_EVERY - 1
        assert direct.execute_binary(ECHO, [7]) == [((7).to_bytes(8),)], "it is prepared anew"
        direct.execute("DEALLOCATE ALL")
        assert direct.execute_binary(ECHO, [8]) == [((8).to_bytes(8),)], "it is not there, and it works"
    finally:
        for connection in (direct, *pooled):
            connection.close()
