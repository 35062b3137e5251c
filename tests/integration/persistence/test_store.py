"""The SQLite file: what is in it, what may happen to it, and what a person is told then."""

import asyncio
import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from agent_fabric.application.runs.cancel_run import CancelRun
from agent_fabric.domain.errors import DriverConflict, RunNotFound, RunUndrivable, StoreFull, StoreUnavailable
from agent_fabric.domain.events import Event, RunInterrupted, ToolReturned, UnknownEvent
from agent_fabric.domain.ids import CallId, LaneId, RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence import database
from agent_fabric.infrastructure.persistence.database import connect
from agent_fabric.infrastructure.persistence.runs.event_rows import chain_hash
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.runs.run_catalogue import SqlRunCatalogue
from agent_fabric.infrastructure.persistence.schema import FORMAT, read_steps
from agent_fabric.infrastructure.persistence.store import Store, Writer
from agent_fabric.testing.workbench import workbench
from contract.run_repository_contract import CREATED, NEXT, OTHER, RUN, completed, log, run_created
from integration.persistence.five_steps import answers_of, looking_pack


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "fabric.db")
    yield store
    store.close()


@pytest.fixture
def runs(store: Store) -> SqlRunRepository:
    return SqlRunRepository(store, SystemClock())


def sql(path: Path, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(path))
    try:
        return list(connection.execute(statement, values))
    finally:
        connection.close()


def result(seq: int, **output: Any) -> Event:
    body = ToolReturned(tool="shell", result=output, call_id=CallId("call_1"))
    return Event(seq, 1_000.5 + seq, LaneId("engineering"), "step_0", body)


# --- the chain of hashes


def require_chain(path: Path, run_id: RunId) -> None:
    rows = sql(
        path,
        "SELECT seq, ts, kind, version, lane, step, payload, hash FROM events"
        " WHERE run = (SELECT number FROM runs WHERE run_id = ?) ORDER BY seq",
        run_id,
    )
    assert rows
    head = hashlib.sha256(run_id.encode()).digest()
    for seq, ts, kind, version, lane, step, payload, stored in rows:
        head = chain_hash(head, seq, ts, kind, version, lane, step, payload)
        assert stored == head, f"row {seq} does not follow from the one before"


@pytest.mark.proves("AF-134")
async def test_each_row_carries_the_hash_of_the_one_before_across_drivers(runs: SqlRunRepository, store: Store) -> None:
    held = await runs.create(RUN, CREATED)
    await held.append(NEXT)
    await held.append([result(3, text="long " * 10_000), result(4, text="\udc80"), result(5, n=10**30)])
    await held.release()
    held, _, _ = await runs.take(RUN)
    await held.append(log(completed(RUN), first=6))
    await held.release()
    require_chain(store.path, RUN)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE events SET payload = CAST('{}' AS BLOB) WHERE seq = 1",
        "UPDATE events SET ts = ts + 1 WHERE seq = 1",
        "UPDATE events SET kind = 'run_waiting' WHERE seq = 1",
        "UPDATE events SET lane = 'other' WHERE seq = 1",
        "DELETE FROM events WHERE seq = 1",
    ],
)
async def test_a_change_behind_our_back_breaks_the_chain(runs: SqlRunRepository, store: Store, change: str) -> None:
    await (await runs.create(RUN, [*CREATED, *NEXT])).release()
    sql(store.path, change)
    with pytest.raises(AssertionError, match="does not follow"):
        require_chain(store.path, RUN)


# --- blobs


@pytest.mark.proves("C27")
async def test_long_texts_leave_the_row_and_come_back_whole(runs: SqlRunRepository, store: Store) -> None:
    text = "".join(chr(0x20 + number % 0x2000) for number in range(5_000_000))
    held = await runs.create(RUN, CREATED)
    events = [result(1, stdout=text), result(2, stdout=text, more=["x" * 3_000])]
    await held.append(events)
    await held.release()
    assert list(await runs.read(RUN, after=0)) == events
    (largest,) = sql(store.path, "SELECT max(length(payload)) FROM events")[0]
    assert largest < 8_192
    assert sql(store.path, "SELECT count(*) FROM blobs") == [(2,)]
    require_chain(store.path, RUN)


async def test_the_same_text_in_two_runs_is_kept_once(runs: SqlRunRepository, store: Store) -> None:
    for run_id in (RUN, OTHER):
        held = await runs.create(run_id, CREATED)
        await held.append([result(1, stdout="same " * 5_000)])
        await held.release()
    assert sql(store.path, "SELECT count(*) FROM blobs") == [(1,)]


@pytest.mark.parametrize("output", [{"$blob": "00" * 32, "chars": 3}, {"$blob": {"x": "y"}}])
async def test_a_result_with_our_blob_key_does_not_confuse_the_store(
    runs: SqlRunRepository, output: dict[str, Any]
) -> None:
    held = await runs.create(RUN, CREATED)
    events = [result(1, **output, padding="x" * 9_000)]
    await held.append(events)
    await held.release()
    assert list(await runs.read(RUN, after=0)) == events


async def test_a_missing_blob_is_explained(runs: SqlRunRepository, store: Store) -> None:
    held = await runs.create(RUN, CREATED)
    await held.append([result(1, stdout="x" * 9_000)])
    await held.release()
    sql(store.path, "DELETE FROM blobs")
    with pytest.raises(StoreUnavailable, match="blob"):
        await runs.read(RUN)


@pytest.mark.parametrize("data", [b"rubbish", b"x\x01K\xcc\x04\x00\x00y\x00y"], ids=["damaged", "exchanged"])
async def test_a_damaged_or_exchanged_blob_is_explained(runs: SqlRunRepository, store: Store, data: bytes) -> None:
    held = await runs.create(RUN, CREATED)
    await held.append([result(1, stdout="x" * 9_000)])
    await held.release()
    sql(store.path, "UPDATE blobs SET data = ?", data)
    with pytest.raises(StoreUnavailable):
        await runs.read(RUN)


async def test_a_damaged_payload_is_explained(runs: SqlRunRepository, store: Store) -> None:
    await (await runs.create(RUN, CREATED)).release()
    sql(store.path, "UPDATE events SET payload = ?", b"\xff{")
    with pytest.raises(StoreUnavailable):
        await runs.read(RUN)


# --- grouped commits


class Burst:
    """Holds the writer up, so that what is asked for meanwhile becomes one group."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._go = threading.Event()
        self._begun = threading.Event()

    async def __aenter__(self) -> None:
        def wait(connection: apsw.Connection) -> None:
            self._begun.set()
            assert self._go.wait(60)

        self._first = asyncio.ensure_future(self._writer.write(wait))
        await asyncio.to_thread(self._begun.wait, 10)

    async def __aexit__(self, *error: object) -> None:
        await asyncio.sleep(0)
        self._go.set()
        await self._first


def insert(value: str) -> Callable[[apsw.Connection], str]:
    def write(connection: apsw.Connection) -> str:
        connection.execute("INSERT INTO kept VALUES (?)", (value,))
        if value.startswith("bad"):
            raise ValueError(value)
        return value

    return write


async def test_a_bad_write_does_not_fail_its_neighbours(store: Store) -> None:
    await store.writer.write(lambda connection: connection.execute("CREATE TABLE kept (value TEXT)"))
    values = ["good 1", "bad 1", "good 2", "bad 2", "good 3"]
    after: list[str] = []
    async with Burst(store.writer):
        tasks = [
            asyncio.ensure_future(store.writer.write(insert(value), after=lambda value=value: after.append(value)))  # type: ignore[misc]
            for value in values
        ]
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == values
    assert [isinstance(outcome, ValueError) for outcome in outcomes] == [False, True, False, True, False]
    assert sql(store.path, "SELECT value FROM kept ORDER BY rowid") == [("good 1",), ("good 2",), ("good 3",)]
    await store.writer.write(lambda _: None)
    assert after == ["good 1", "good 2", "good 3"]


async def test_writes_asked_for_together_share_a_commit(store: Store) -> None:
    await store.writer.write(lambda connection: connection.execute("CREATE TABLE kept (value TEXT)"))
    commits: list[None] = []

    def count() -> bool:
        commits.append(None)
        return False

    store.writer._connection.set_commit_hook(count)
    async with Burst(store.writer):
        tasks = [asyncio.ensure_future(store.writer.write(insert(f"good {number}"))) for number in range(50)]
    await asyncio.gather(*tasks)
    assert len(commits) == 2


async def test_a_write_that_nobody_waits_for_any_more_still_happens(store: Store) -> None:
    await store.writer.write(lambda connection: connection.execute("CREATE TABLE kept (value TEXT)"))
    async with Burst(store.writer):
        task = asyncio.ensure_future(store.writer.write(insert("good")))
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.writer.write(lambda _: None)
    assert sql(store.path, "SELECT value FROM kept") == [("good",)]


async def test_a_follower_that_fails_does_not_end_the_writer(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "fabric.db")

    def fail() -> None:
        raise RuntimeError("a follower's bug")

    async with asyncio.timeout(60):
        await writer.write(lambda _: None, after=fail)
        await writer.write(lambda _: None)
    writer.close()


@pytest.mark.parametrize("alone", [True, False])
async def test_a_write_after_the_end_is_refused_and_never_waited_for(tmp_path: Path, alone: bool) -> None:
    writer = Writer(tmp_path / "fabric.db")
    writer.close()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(writer.write(lambda _: None, alone=alone), 60)


async def test_an_append_that_nobody_waits_for_any_more_is_followed_by_the_next(store: Store) -> None:
    """Ctrl-C during a slow commit: the mark that the run was interrupted comes behind what is being written."""
    runs = SqlRunRepository(store, SystemClock())
    held = await runs.create(RUN, CREATED)
    async with Burst(store.writer):
        task = asyncio.create_task(held.append(NEXT))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        last = asyncio.create_task(held.append(log(RunInterrupted(reason="stopped"), first=3)))
        await asyncio.sleep(0)
    await asyncio.wait({task, last}, timeout=60)
    await held.release()
    await last
    assert [event.seq for event in await runs.read(RUN)] == [0, 1, 2, 3]
    require_chain(store.path, RUN)


async def test_two_drivers_with_the_same_idea_of_the_log_cannot_both_append(
    runs: SqlRunRepository, tmp_path: Path
) -> None:
    held = await runs.create(RUN, CREATED)
    sql(
        tmp_path / "fabric.db",
        "INSERT INTO events (run, seq, ts, kind, version, lane, step, payload, hash)"
        " SELECT run, 1, ts, kind, version, lane, step, payload, hash FROM events",
    )
    with pytest.raises(DriverConflict, match="Another process"):
        await held.append(NEXT)
    await held.release()
    assert len(await runs.read(RUN)) == 2


# --- what a newer program wrote


@pytest.mark.parametrize(
    "change",
    ["UPDATE events SET kind = 'step_started' WHERE seq = 2", "UPDATE events SET version = 2 WHERE seq = 2"],
    ids=["kind", "version"],
)
async def test_a_log_of_a_newer_program_is_shown_but_not_driven(
    runs: SqlRunRepository, store: Store, change: str
) -> None:
    await (await runs.create(RUN, [*CREATED, *NEXT])).release()
    sql(store.path, change)
    assert isinstance((await runs.read(RUN))[2].body, UnknownEvent)
    bench = workbench(lambda _: looking_pack(), answers_of(3), runs=runs)  # type: ignore[arg-type]  # any repository
    with pytest.raises(RunUndrivable, match="does not know"):
        await bench.resume_run(RUN)
    assert len(await runs.read(RUN)) == 3
    assert store.locks.is_free(1)


async def test_a_status_of_a_newer_program_does_not_hide_the_other_runs(runs: SqlRunRepository, store: Store) -> None:
    await (await runs.create(RUN, CREATED)).release()
    await (await runs.create(OTHER, CREATED)).release()
    sql(store.path, "UPDATE runs SET status = 'paused' WHERE run_id = ?", RUN)
    assert len(await SqlRunCatalogue(store).recent(limit=10)) == 2


async def test_cancelling_a_run_whose_first_event_is_newer_works_or_is_explained(tmp_path: Path) -> None:
    store = Store(tmp_path / "fabric.db")
    runs = SqlRunRepository(store, SystemClock())
    await (await runs.create(RUN, CREATED)).release()
    sql(store.path, "UPDATE events SET version = 2")
    cancelling = asyncio.create_task(CancelRun(runs, SystemClock())(RUN, by="a test"))
    await asyncio.wait({cancelling}, timeout=10)
    if not cancelling.done():
        cancelling.cancel()
        pytest.fail("it hangs")
    problem = cancelling.exception()
    store.close()
    assert problem is None or isinstance(problem, RunUndrivable)


# --- the file


def message_of(path: Path) -> str:
    with pytest.raises(StoreUnavailable) as caught:
        connect(path)
    assert caught.value.hint
    return caught.value.message


def test_a_file_of_a_newer_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "fabric.db"
    connect(path).close()
    sql(path, "PRAGMA user_version = 99")
    assert "newer agent-fabric (format 99" in message_of(path)
    assert sql(path, "PRAGMA user_version") == [(99,)]


def test_garbage_and_folders_are_not_taken_for_a_database(tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.db"
    garbage.write_bytes(b"this is no database, only text\n" * 1_000)
    assert "not a usable database" in message_of(garbage)
    assert garbage.read_bytes().startswith(b"this is no database")
    (tmp_path / "folder.db").mkdir()
    assert "cannot be opened" in message_of(tmp_path / "folder.db")
    assert "cannot be opened" in message_of(tmp_path / "missing" / "fabric.db")


async def test_a_damaged_file_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "fabric.db"
    store = Store(path)
    runs = SqlRunRepository(store, SystemClock())
    for number in range(50):
        await (await runs.create(RunId(f"run-{number}"), [*CREATED, *NEXT])).release()
    store.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    store = Store(path)
    with pytest.raises(StoreUnavailable, match="not a usable database"):
        await SqlRunCatalogue(store).recent(limit=100)
    with pytest.raises(StoreUnavailable):
        await SqlRunRepository(store, SystemClock()).read(RunId("run-7"))
    store.close()


@pytest.mark.parametrize("table", ["runs", "customers"])
def test_the_database_of_another_program_is_refused(tmp_path: Path, table: str) -> None:
    path = tmp_path / "fabric.db"
    sql(path, f"CREATE TABLE {table} (id INTEGER)")
    message_of(path)


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "fabric.db"
    path.touch()
    connect(path).close()
    assert sql(path, "PRAGMA user_version") == [(FORMAT,)]


async def test_opening_waits_for_another_process_that_makes_the_file(tmp_path: Path) -> None:
    """Changing to WAL does not wait by itself: SQLite gives up at once when another one writes."""
    path = tmp_path / "fabric.db"
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    other.execute("CREATE TABLE for_a_moment (value TEXT)")
    opening = asyncio.create_task(asyncio.to_thread(lambda: connect(path).close()))
    await asyncio.sleep(0.3)
    other.execute("ROLLBACK")
    other.close()
    await opening


# --- migration

NOW = FORMAT
MORE = "CREATE TABLE later (value TEXT); INSERT INTO later VALUES ('new')"


def add_step(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Let the program be one release newer."""
    monkeypatch.setattr(database, "FORMAT", NOW + 1)
    monkeypatch.setattr(database, "read_steps", lambda after: [*read_steps(after), step][: NOW + 1 - after])


async def old_file(path: Path) -> None:
    """Leave a file of today's version with one run in it."""
    store = Store(path)
    await (await SqlRunRepository(store, SystemClock()).create(RUN, CREATED)).release()
    store.close()


async def test_a_file_of_an_older_version_is_backed_up_then_lifted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fabric.db"
    await old_file(path)
    add_step(monkeypatch, MORE)
    connect(path).close()
    assert sql(path, "PRAGMA user_version") == [(NOW + 1,)]
    assert sql(path, "SELECT value FROM later") == [("new",)]
    assert sql(path, "SELECT run_id FROM runs") == [(RUN,)]
    backup = tmp_path / f"fabric.db.backup-{NOW}"
    assert sql(backup, "PRAGMA user_version") == [(NOW,)]
    assert sql(backup, "SELECT run_id FROM runs") == [(RUN,)]
    assert sql(backup, "PRAGMA integrity_check") == [("ok",)]
    connect(path).close()  # and then it stays


async def test_a_migration_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "fabric.db"
    await old_file(path)
    add_step(monkeypatch, f"{MORE}; INSERT INTO nowhere VALUES (1)")
    with pytest.raises((apsw.SQLError, StoreUnavailable)):
        connect(path)
    assert sql(path, "PRAGMA user_version") == [(NOW,)]
    assert sql(path, "SELECT name FROM sqlite_master WHERE name = 'later'") == []
    monkeypatch.undo()
    connect(path).close()


async def test_whoever_meets_another_one_at_the_backup_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "fabric.db"
    await old_file(path)
    add_step(monkeypatch, MORE)
    other = apsw.Connection(str(tmp_path / f"fabric.db.backup-{NOW}"))
    other.execute("BEGIN EXCLUSIVE")
    opening = asyncio.create_task(asyncio.to_thread(lambda: connect(path).close()))
    await asyncio.sleep(0.3)
    other.execute("ROLLBACK")
    other.close()
    await opening


async def test_many_that_start_together_migrate_once_and_keep_the_good_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fabric.db"
    await old_file(path)
    add_step(monkeypatch, MORE)
    await asyncio.gather(*(asyncio.to_thread(lambda: connect(path).close()) for _ in range(6)))
    assert sql(path, "SELECT value FROM later") == [("new",)]
    assert sql(tmp_path / f"fabric.db.backup-{NOW}", "PRAGMA user_version") == [(NOW,)]
    assert sorted(one.name for one in tmp_path.iterdir() if "backup" in one.name) == [f"fabric.db.backup-{NOW}"]


# --- locks and errors in between


async def test_a_full_disk_is_named_and_nothing_of_the_write_happened(store: Store) -> None:
    runs = SqlRunRepository(store, SystemClock())
    held = await runs.create(RUN, CREATED)
    pages = store.writer._connection.execute("PRAGMA page_count").get
    store.writer._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFull, match="full"):
        await held.append([result(1, stdout="".join(map(str, range(200_000))))])
    assert len(await runs.read(RUN)) == 1
    store.writer._connection.execute("PRAGMA max_page_count = 1000000")
    await held.release()
    held, _, _ = await runs.take(RUN)
    await held.append(NEXT)
    await held.release()


async def test_a_run_that_could_not_be_created_leaves_no_lock_behind(store: Store) -> None:
    runs = SqlRunRepository(store, SystemClock())
    await (await runs.create(RUN, CREATED)).release()
    pages = store.writer._connection.execute("PRAGMA page_count").get
    store.writer._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFull):
        await runs.create(OTHER, log(run_created("".join(map(str, range(200_000))))))
    assert store.locks.is_free(2)


async def test_a_run_whose_creator_was_stopped_can_be_taken(store: Store) -> None:
    runs = SqlRunRepository(store, SystemClock())
    async with Burst(store.writer):
        task = asyncio.create_task(runs.create(RUN, CREATED))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0.01)
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.writer.write(lambda _: None)
    await (await runs.take(RUN)).held.release()  # or RunNotFound, had it never come to be


async def test_an_id_that_is_taken_is_an_error_of_ours(runs: SqlRunRepository) -> None:
    await (await runs.create(RUN, CREATED)).release()
    with pytest.raises((DriverConflict, StoreUnavailable)):
        await runs.create(RUN, CREATED)


async def test_what_could_not_be_written_can_be_appended_again(store: Store) -> None:
    runs = SqlRunRepository(store, SystemClock())
    held = await runs.create(RUN, CREATED)
    store.writer._connection.set_commit_hook(lambda: True)
    with pytest.raises(Exception):  # noqa: B017, PT011 - the hook stands for any failure
        await held.append(NEXT)
    store.writer._connection.set_commit_hook(None)
    try:
        await held.append(NEXT)
    finally:
        await held.release()
    require_chain(store.path, RUN)


async def test_a_long_read_holds_up_neither_short_reads_nor_the_inbox(runs: SqlRunRepository, store: Store) -> None:
    held = await runs.create(RUN, CREATED)
    reading, may_end = threading.Event(), threading.Event()

    def read_long(_: apsw.Connection) -> bool:
        reading.set()
        return may_end.wait(20)

    long = asyncio.create_task(store.read(read_long))
    assert await asyncio.to_thread(reading.wait, 60)
    try:
        assert store.read_now(lambda connection: connection.execute("SELECT count(*) FROM runs").get) == 1
        await runs.post(RUN, "cancel", {})
        async with asyncio.timeout(60):
            assert [row.kind for row in await held.receive()] == ["cancel"]
        assert not long.done()
    finally:
        may_end.set()
        await long
        await held.release()


async def test_the_inbox_reads_rows_of_runs_that_wait_for_them_and_no_others(
    runs: SqlRunRepository, store: Store
) -> None:
    for number in range(3):
        await (await runs.create(RunId(f"other-{number}"), log(run_created()))).release()
        await runs.post(RunId(f"other-{number}"), "cancel", {})
    sql(store.path, "UPDATE inbox SET payload = x'00'")
    held = await runs.create(RUN, CREATED)
    await runs.post(RUN, "mine", {})
    async with asyncio.timeout(60):
        assert [row.kind for row in await held.receive()] == ["mine"]
    await held.release()


class Broken:
    """A connection to a disk that does not answer."""

    def execute(self, *statement: object) -> None:
        raise apsw.IOError("disk I/O error")

    def close(self) -> None:
        """Nothing to close."""


async def test_one_failed_look_into_the_inbox_does_not_make_a_driver_deaf(runs: SqlRunRepository, store: Store) -> None:
    held = await runs.create(RUN, CREATED)
    waiting = held.receive()
    await asyncio.sleep(0.05)
    watch = runs._inbox._polling
    idle, store._idle = store._idle, [Broken()] * 9  # type: ignore[list-item]  # as much as is used
    await asyncio.sleep(0.4)
    store._idle = idle
    if watch is not None and watch.done():
        watch.exception()  # or Python would complain that nobody looked at it
    await runs.post(RUN, "cancel", {})
    try:
        async with asyncio.timeout(60):
            await waiting
    finally:
        await held.release()


# --- the catalogue


async def test_runs_are_found_by_the_beginning_of_their_id(runs: SqlRunRepository, store: Store) -> None:
    catalogue = SqlRunCatalogue(store)
    for run_id in ("aaaa-1", "aaaa-2", "ab%_-3"):
        await (await runs.create(RunId(run_id), CREATED)).release()
    assert await catalogue.find("ab") == "ab%_-3"
    assert await catalogue.find("AAAA-1") == "aaaa-1"
    assert await catalogue.newest() == "ab%_-3"
    with pytest.raises(RunNotFound, match="Several") as several:
        await catalogue.find("aaaa")
    assert "aaaa-1" in several.value.hint
    for nothing in ("", "%", "_", "zzz", "aaaa-11"):
        with pytest.raises(RunNotFound):
            await catalogue.find(nothing)


@pytest.mark.proves("AF-148", "C31")
async def test_a_list_tells_who_lives_and_who_does_not(runs: SqlRunRepository, store: Store) -> None:
    catalogue = SqlRunCatalogue(store)
    living = await runs.create(RunId("living"), log(run_created("a long task")))
    dead = await runs.create(RunId("dead"), log(run_created("another")))
    store.locks.release(2)  # as the kernel does at kill -9
    done = await runs.create(RunId("done"), [*CREATED, *log(completed(RunId("done"), "all good"), first=1)])
    await done.release()
    records = await catalogue.recent(limit=10)
    assert [(record.run_id, record.status) for record in records] == [
        ("done", RunStatus.COMPLETED),
        ("dead", RunStatus.INTERRUPTED),
        ("living", RunStatus.RUNNING),
    ]
    assert records[0].summary == "all good"
    assert [record.run_id for record in await catalogue.recent(limit=1)] == ["done"]
    assert [record.run_id for record in await catalogue.search("LONG nothing", limit=5)] == ["living"]
    await living.release()
    await dead.release()


async def test_the_best_match_comes_first(runs: SqlRunRepository, store: Store) -> None:
    for name, prompt in (("one", "apple"), ("two", "apple pear"), ("three", "plum"), ("four", "apple pear plum")):
        run_id = RunId(name)
        await (await runs.create(run_id, [*log(run_created(prompt)), *log(completed(run_id), first=1)])).release()
    found = await SqlRunCatalogue(store).search("Apple PEAR", limit=3)
    assert [record.run_id for record in found] == ["four", "two", "one"]
    assert await SqlRunCatalogue(store).search("  ", limit=3) == []


async def test_an_id_that_is_no_text_is_not_found(runs: SqlRunRepository, store: Store) -> None:
    await (await runs.create(RUN, CREATED)).release()
    with pytest.raises(RunNotFound):
        await SqlRunCatalogue(store).find("\udcff")
