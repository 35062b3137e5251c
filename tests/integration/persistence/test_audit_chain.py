"""Whoever changes an event, cuts a log, removes a run or makes the chain anew is noticed."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import apsw
import pytest

from agent_fabric.application.audit.collect_garbage import CollectGarbage
from agent_fabric.application.ports.audit import ChainReport
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.domain.errors import RunNotFound
from agent_fabric.domain.events import Event, GuidanceGiven
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.audit.audit_head_file import AuditHeadFile
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.persistence.audit.audit_chain import SqlAuditChain
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.dialects import SQLITE
from agent_fabric.infrastructure.persistence.runs import retention
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.runs.retention import SqlRetentionStore
from agent_fabric.infrastructure.persistence.store import Store
from agent_fabric.infrastructure.runs.log.layout import Layout
from agent_fabric.testing.workbench import workbench
from contract.run_repository_contract import CREATED, RUN, completed, log, workflow_with
from integration.persistence.five_steps import answers_of, looking_pack

KEY = AuditKey.of(b"k" * 32)
CLOSE_UP = "UPDATE audit_chain SET position = position - 1 WHERE position > 3"
"""Leaves no gap where an entry was removed."""


class Folder:
    """A fabric folder with three finished runs."""

    def __init__(self, root: Path) -> None:
        self.layout = Layout(root)
        self.layout.make()
        self.chain = ChainWriter(KEY, AuditHeadFile(Path(f"{root.parent}.head"), root, KEY))
        self.store = Store(self.layout.database, chain=self.chain)
        self.runs = SqlRunRepository(self.store, SystemClock(), (), self.chain)

    async def fill(self, count: int = 3) -> list[RunId]:
        found = []
        for _ in range(count):
            bench = workbench(lambda _: looking_pack(Counter()), answers_of(2), runs=self.runs)  # type: ignore[arg-type]  # any repository
            object.__setattr__(bench.execute_task, "ids", RandomIds())
            result = await bench.run()
            Path(self.layout.run_dir(result.run_id)).mkdir(parents=True)
            found.append(result.run_id)
        return found

    async def verify(self, key: AuditKey | None = None) -> ChainReport:
        chain = self.chain if key is None else ChainWriter(key)
        return await SqlAuditChain(self.store, chain).verify()

    def tamper(self, *statements: str) -> None:
        connection = apsw.Connection(str(self.layout.database))
        for statement in statements:
            connection.execute(statement)
        connection.close()


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Folder]:
    made = Folder(tmp_path / ".fabric")
    yield made
    made.store.close()


async def test_an_untouched_record_holds(folder: Folder) -> None:
    await folder.fill()
    report = await folder.verify()
    assert report.damage == ()
    assert (report.runs, report.removed, report.entries) == (3, 0, 6)


@pytest.mark.proves("C41", "FC-062")
@pytest.mark.parametrize(
    ("tampering", "said"),
    [
        ("UPDATE events SET payload = CAST('{}' AS BLOB) WHERE run = 2 AND seq = 3", "not what was recorded"),
        ("DELETE FROM events WHERE run = 2 AND seq = 3", "event 3 is missing"),
        ("DELETE FROM events WHERE run = 2 AND seq > 4", "events at its end are missing"),
        ("DELETE FROM events WHERE run = 2", "events at its end are missing"),
        ("DELETE FROM runs WHERE number = 2", "is missing, and no removal is recorded"),
        ("DELETE FROM runs WHERE number = 3", "is missing, and no removal is recorded"),
        ("UPDATE audit_chain SET events = 1 WHERE position = 2", "entry 2 of the chain is not what was recorded"),
        ("DELETE FROM audit_chain WHERE position = 3", "entry 3 of the chain is missing"),
        (f"DELETE FROM audit_chain WHERE position = 3; {CLOSE_UP}", "entry 3 of the chain is not what was recorded"),
        ("DELETE FROM audit_chain WHERE position > 4", "the chain was cut behind entry 4"),
    ],
)
async def test_tampering_is_noticed(folder: Folder, tampering: str, said: str) -> None:
    await folder.fill()
    folder.tamper(tampering)
    assert any(said in sentence for sentence in (await folder.verify()).damage)


async def test_a_run_removed_together_with_its_traces_is_noticed_by_a_head_kept_elsewhere(folder: Folder) -> None:
    await folder.fill()
    before = await folder.verify()
    folder.tamper(
        "DELETE FROM events WHERE run = 3",
        "DELETE FROM runs WHERE number = 3",
        "DELETE FROM audit_chain WHERE run = 3",
        "UPDATE sqlite_sequence SET seq = 2 WHERE name = 'runs'",
        "UPDATE sqlite_sequence SET seq = 4 WHERE name = 'audit_chain'",
    )
    chain = SqlAuditChain(folder.store, ChainWriter(KEY))  # without a head of its own
    assert (await chain.verify()).damage == ()
    assert not await chain.holds(before.head)
    assert not await chain.holds("no hash at all")


async def test_without_the_key_the_chain_cannot_be_made_anew_but_another_user_is_told_so(folder: Folder) -> None:
    await folder.fill()
    report = await folder.verify(AuditKey.of(b"another user's"))
    assert report.unknown_key == report.entries


async def test_runs_that_go_on_during_the_check_do_not_look_like_damage(folder: Folder) -> None:
    await folder.fill(20)
    going_on = asyncio.create_task(folder.fill(40))
    while not going_on.done():
        assert (await folder.verify()).damage == ()


async def test_of_two_who_take_a_run_away_one_leaves_a_tombstone(folder: Folder) -> None:
    (run_id,) = await folder.fill(1)
    retention = SqlRetentionStore(folder.store, folder.layout.run_dir, SystemClock(), folder.chain)
    await retention.remove(run_id, by="ada", reason="old")
    with pytest.raises(RunNotFound):
        await retention.remove(run_id, by="bob", reason="old")
    assert (await folder.verify()).damage == ()


async def no_changes() -> int:
    """Free nothing: no run worked in a project folder."""
    return 0


async def test_runs_that_are_taken_away_leave_tombstones_that_verify(folder: Folder) -> None:
    first, second, third = await folder.fill()
    retention = SqlRetentionStore(folder.store, folder.layout.run_dir, SystemClock(), folder.chain)
    collect = CollectGarbage(retention, SystemClock(), no_changes)
    assert (await collect(older_than_s=0, by="ada", dry_run=True)).runs == [first, second, third]
    assert (await collect(older_than_s=1e12, by="ada")).runs == []
    for more in (3, 4, 5, 1_000):
        assert (await collect(older_than_s=0, by="ada", keep=more)).runs == []
    done = await collect(older_than_s=0, by="ada", keep=1)
    assert done.runs == [first, second]
    assert done.freed_bytes > 0
    assert not Path(folder.layout.run_dir(first)).exists()
    assert Path(folder.layout.run_dir(third)).exists()
    report = await folder.verify()
    assert (report.damage, report.runs, report.removed) == ((), 1, 2)


async def test_a_run_that_somebody_drives_is_not_taken_away(folder: Folder) -> None:
    (run_id,) = await folder.fill(1)
    held, _, _ = await folder.runs.take(run_id)
    collect = CollectGarbage(
        SqlRetentionStore(folder.store, folder.layout.run_dir, SystemClock(), folder.chain),
        SystemClock(),
        no_changes,
    )
    assert (await collect(older_than_s=0, by="ada")).runs == []
    await held.release()


async def test_a_workflow_and_the_runs_that_work_for_it_are_taken_away_when_all_have_ended(folder: Folder) -> None:
    held, (child, orphan) = await workflow_with(folder.runs, "a", "b")
    collect = CollectGarbage(
        SqlRetentionStore(folder.store, folder.layout.run_dir, SystemClock(), folder.chain),
        SystemClock(),
        no_changes,
    )

    async def end(run_id: RunId) -> None:
        below, _, _ = await folder.runs.take(run_id)
        await below.append(log(completed(run_id), first=1))
        await below.release()

    await end(child)
    assert (await collect(older_than_s=0, by="ada")).runs == [], "the workflow may still read how it ended"
    await held.append(log(completed(RUN), first=3))
    await held.release()
    assert (await collect(older_than_s=0, by="ada")).runs == [child], "another one works in the workflow's folder"
    await end(orphan)
    assert (await collect(older_than_s=0, by="ada")).runs == [RUN, orphan]


async def test_texts_that_other_runs_still_refer_to_stay(folder: Folder) -> None:
    first, _ = await folder.fill(2)
    digest = "x" * 5_000

    def rows(write: Callable[[apsw.Connection], None]) -> None:
        connection = apsw.Connection(str(folder.layout.database))
        write(connection)
        connection.close()

    # Two blobs, of which only one is named by the run that stays.
    def put(connection: apsw.Connection) -> None:
        for name in (b"a" * 32, b"b" * 32):
            connection.execute("INSERT INTO blobs (hash, data) VALUES (?, ?)", (name, digest.encode()))
        named = '{"result": {"$blob": "' + (b"b" * 32).hex() + '", "chars": 5000}}'
        connection.execute("UPDATE events SET payload = CAST(? AS BLOB) WHERE run = 2 AND seq = 1", (named,))

    rows(put)
    retention = SqlRetentionStore(folder.store, folder.layout.run_dir, SystemClock(), folder.chain)
    await retention.remove(first, by="ada", reason="old")
    await retention.sweep()
    left = list(apsw.Connection(str(folder.layout.database)).execute("SELECT hash FROM blobs"))
    assert (b"b" * 32,) in left
    assert (b"a" * 32,) not in left


async def test_a_text_that_a_run_takes_up_while_garbage_is_collected_stays(folder: Folder) -> None:
    """Between the look for what nothing refers to and its removal, another run may record the same text."""
    text = "long " * 2_000

    async def record(run_id: RunId) -> None:
        held = await folder.runs.create(run_id, CREATED)
        await held.append([Event(1, 1.0, None, "", GuidanceGiven(reason="unproven", message=text))])
        await held.release()

    async def texts() -> int:
        return await folder.store.read(
            lambda connection: int(str(connection.execute("SELECT count(*) FROM blobs").get))
        )

    await record(RunId("00000000-0000-4000-8000-00000000000a"))
    assert await texts() == 1
    folder.tamper("DELETE FROM events")  # now nothing refers to it
    connection = apsw.Connection(str(folder.layout.database))
    since, unnamed = retention._unnamed_blobs(connection, SQLITE)
    connection.close()
    assert len(unnamed) == 1
    await record(RunId("00000000-0000-4000-8000-00000000000b"))
    await folder.store.writer.write(lambda connection: retention._remove_blobs(connection, SQLITE, unnamed, since))
    assert await texts() == 1
    folder.tamper("DELETE FROM events")
    await SqlRetentionStore(folder.store, folder.layout.run_dir, SystemClock(), folder.chain).sweep()
    assert await texts() == 0
