"""The head of the chain is kept outside of the database: who removes the newest runs, or changes a table beside the
log, is noticed even with all rights on the database."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from agent_fabric.application.audit.collect_garbage import CollectGarbage
from agent_fabric.application.audit.verify_chain import AcceptHead
from agent_fabric.application.ports.audit import ChainHead, ChainReport, HeadDamaged
from agent_fabric.application.ports.storage import Storage
from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.domain.approvals.events import ApprovalDecided
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.domain.events import RunCancelled
from agent_fabric.infrastructure.audit.audit_head_file import AuditHeadFile, audit_head_file
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.persistence.storage import open_storage
from agent_fabric.testing.fakes import FrozenClock
from contract.run_repository_contract import CREATED, RUN, log, run_created, workflow_with
from contract.storage_contract import APPROVE, asked, numbered, settled, waiting

KEY = AuditKey.of(b"k" * 32)
ACCEPTED = Act(at=1.0, by="ada", credential="local", deed=Deed.RECORD_ACCEPTED)


class Record:
    """A fabric folder, its head file, and somebody who can write the database."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / ".fabric"
        self.root.mkdir()
        self.database = self.root / "fabric.db"
        self.heads = AuditHeadFile(folder / "home" / "head", self.root, KEY)

    @contextmanager
    def opened(self, heads: AuditHeadFile | None = None) -> Iterator[Storage]:
        storage = open_storage(
            self.root,
            clock=FrozenClock(),
            ids=RandomIds(),
            run_dir=lambda run_id: str(self.root / "runs" / run_id),
            audit_key=KEY,
            audit_heads=heads or self.heads,
        )
        try:
            yield storage
        finally:
            storage.close()

    async def fill(self, first: int, count: int, heads: AuditHeadFile | None = None) -> None:
        with self.opened(heads) as storage:
            for number in range(first, first + count):
                await settled(storage, numbered(number))

    async def verify(self) -> ChainReport:
        with self.opened() as storage:
            return await storage.chain.verify()

    def tamper(self, *statements: str) -> None:
        connection = apsw.Connection(str(self.database))
        for statement in statements:
            connection.execute(statement)
        connection.close()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        connection = apsw.Connection(str(self.database))
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()

    def remove_newest(self, count: int) -> None:
        """Remove runs with everything that the database knows of them, its own counters included."""
        last = len(self.rows("SELECT 1 FROM runs")) - count
        self.tamper(
            f"DELETE FROM events WHERE run > {last}",
            f"DELETE FROM runs WHERE number > {last}",
            f"DELETE FROM audit_chain WHERE run > {last}",
            f"UPDATE sqlite_sequence SET seq = {last} WHERE name = 'runs'",
            "UPDATE sqlite_sequence SET seq = (SELECT coalesce(max(position), 0) FROM audit_chain)"
            " WHERE name = 'audit_chain'",
            "UPDATE sqlite_sequence SET seq = (SELECT coalesce(max(position), 0) FROM events) WHERE name = 'events'",
        )


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record(tmp_path)


@pytest.mark.parametrize("then", [0, 1, 5])
@pytest.mark.parametrize("removed", [1, 2, 3])
async def test_removed_newest_runs_are_noticed_whatever_is_written_afterwards(
    record: Record, removed: int, then: int
) -> None:
    await record.fill(1, 3)
    assert (await record.verify()).damage == ()
    record.remove_newest(removed)
    await record.fill(10, then)
    for _ in range(2):  # looking at it must not make it good
        damage = (await record.verify()).damage
        assert len(damage) == 1
        assert "removed" in damage[0] or "cut" in damage[0]


@pytest.mark.parametrize("then", [0, 2])
async def test_a_store_that_was_put_back_to_an_older_copy_is_noticed(record: Record, then: int) -> None:
    await record.fill(1, 2)
    older = record.database.read_bytes()
    await record.fill(3, 2)
    record.database.write_bytes(older)
    for beside in record.root.glob("fabric.db-*"):
        beside.unlink()
    await record.fill(10, then)
    assert (await record.verify()).damage


async def test_a_removal_under_a_process_that_goes_on_is_noticed(record: Record) -> None:
    with record.opened() as storage:
        await settled(storage, numbered(1))
        await settled(storage, numbered(2))
        record.remove_newest(1)
        await settled(storage, numbered(3))
        await settled(storage, numbered(4))
    assert any("others written in their place" in sentence for sentence in (await record.verify()).damage)


async def test_a_process_that_dies_between_commit_and_head_raises_no_alarm(record: Record) -> None:
    """The head lags behind, and the next one brings it up to date."""

    class Dead(AuditHeadFile):
        def advance(self, head: ChainHead, continues: Callable[[ChainHead], bool], *, patient: bool = False) -> bool:
            return True

    await record.fill(1, 1)
    await record.fill(2, 2, Dead(record.heads.path, record.root, KEY))
    kept = record.heads.read()
    assert kept is not None
    assert kept.position == 2
    report = await record.verify()
    assert (report.damage, report.entries) == ((), 6)
    assert record.heads.read() == ChainHead(6, bytes.fromhex(report.head))


async def test_a_folder_of_which_no_head_was_kept_says_so_and_keeps_one(record: Record) -> None:
    await record.fill(1, 1)
    record.heads.path.unlink()
    assert (await record.verify()).kept_head == ""
    report = await record.verify()
    assert report.kept_head == report.head


async def test_a_damaged_head_is_told_and_not_written_over(record: Record) -> None:
    await record.fill(1, 1)
    record.heads.path.write_bytes(record.heads.path.read_bytes().replace(b"1", b"2"))
    await record.fill(2, 1)
    assert any("is damaged" in sentence for sentence in (await record.verify()).damage)


async def test_a_head_of_another_folder_or_key_is_none(record: Record, tmp_path: Path) -> None:
    await record.fill(1, 1)
    for other in (
        AuditHeadFile(record.heads.path, tmp_path, KEY),
        AuditHeadFile(record.heads.path, record.root, AuditKey.of(b"x" * 32)),
    ):
        with pytest.raises(HeadDamaged):
            other.read()


async def test_a_head_file_that_is_a_link_is_not_followed(record: Record, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")
    record.heads.path.parent.mkdir()
    record.heads.path.symlink_to(target)
    await record.fill(1, 1)
    assert target.read_text() == "precious"
    assert any("is damaged" in sentence for sentence in (await record.verify()).damage)


def test_folders_and_keys_have_files_of_their_own_and_users_without_a_home_none(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    files = [
        audit_head_file(tmp_path / folder, AuditKey.of(key), home) for folder in ("a", "b") for key in (b"1", b"2")
    ]
    assert len({file.path for file in files if file is not None}) == 4
    assert audit_head_file(tmp_path, KEY, {}) is None


async def test_what_was_removed_on_purpose_can_be_accepted_and_that_is_on_record(record: Record) -> None:
    await record.fill(1, 3)
    before = (await record.verify()).head
    record.remove_newest(2)
    with record.opened() as storage:
        await AcceptHead(storage.chain, storage.acts)(ACCEPTED)
        (act,) = await storage.acts.recent(limit=1)
        assert before in act.detail
    assert (await record.verify()).damage == ()
    await record.fill(10, 1)
    assert (await record.verify()).damage == ()
    record.remove_newest(1)
    assert (await record.verify()).damage


async def nothing_to_prune() -> int:
    return 0


async def test_garbage_collection_is_no_removal(record: Record) -> None:
    await record.fill(1, 3)
    with record.opened() as storage:
        collect = CollectGarbage(storage.retention, SystemClock(), nothing_to_prune)
        assert len((await collect(older_than_s=0, by="ada")).runs) == 3
    report = await record.verify()
    assert (report.damage, report.runs, report.removed) == ((), 0, 3)


async def test_a_second_head_lets_go_of_a_lock_that_another_process_holds(record: Record) -> None:
    import fcntl  # noqa: PLC0415 - only here

    await record.fill(1, 1)
    with record.heads.path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert not record.heads.advance(ChainHead(99, b"x" * 32), lambda _: True)
    assert record.heads.advance(ChainHead(99, b"x" * 32), lambda _: True)


WRITER = """
import asyncio, os, sys
from pathlib import Path
from contract.storage_contract import settled
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.infrastructure.audit.audit_head_file import AuditHeadFile
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.persistence.storage import open_storage

root, head, ids = Path(sys.argv[1]), Path(sys.argv[2]), RandomIds()
key = AuditKey.of(b"k" * 32)
storage = open_storage(root, clock=SystemClock(), ids=ids, run_dir=str, audit_key=key,
                       audit_heads=AuditHeadFile(head, root, key))

async def main():
    while True:
        await settled(storage, ids.new_run_id())
        print("one more", flush=True)

asyncio.run(main())
"""


def writer(record: Record) -> "subprocess.Popen[bytes]":
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(record.root), str(record.heads.path)], stdout=subprocess.PIPE, env=environ
    )


async def test_many_processes_that_are_killed_at_any_time_raise_no_alarm(record: Record) -> None:
    for kills in range(2):
        processes = [writer(record) for _ in range(3)]
        for process in processes:
            assert process.stdout is not None
            for _ in range(5 + kills):
                assert await asyncio.to_thread(process.stdout.readline) == b"one more\n"
        assert (await record.verify()).damage == ()
        for process in processes:
            process.send_signal(signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        report = await record.verify()
        assert report.damage == ()
        assert report.kept_head


# --- tables beside the log

EXEMPT = {
    ("runs", "number"): "names the rows of all other tables: changing it is changing those",
    ("runs", "driver"): "who drives it now says nothing about what has happened",
    ("runs", "home"): "where its files are; who cannot open them does not drive it",
    ("runs", "epoch"): "as above: it only grows, and a driver with another one cannot append",
    ("pending_approvals", "agent_id"): "nothing reads it",
    ("pending_approvals", "session_id"): "nothing reads it",
}


@pytest.fixture
async def lively(record: Record) -> Record:
    """A record with runs in every state, and questions in every state."""
    clock = FrozenClock(time=1_000_000.0)
    storage = open_storage(
        record.root, clock=clock, ids=RandomIds(), run_dir=str, audit_key=KEY, audit_heads=record.heads
    )
    await settled(storage, numbered(1))
    await waiting(storage, numbered(2), until=1_000_500.0)
    await waiting(storage, numbered(3), asks="question-open")
    await waiting(storage, numbered(4), asks="question-answered")
    await storage.approvals.answer("question-answered", APPROVE)
    await waiting(storage, numbered(5), asks="question-decided")
    held, events, _ = await storage.runs.take(numbered(5))
    decided = ApprovalDecided(approval_id="question-decided", decision=Decision.DENY, by="bob", via="test", reason="no")
    await held.append(log(decided, first=len(events)))
    await held.release()
    await waiting(storage, numbered(6), asks="question-cancelled")
    await storage.approvals.answer("question-cancelled", APPROVE)
    held, events, _ = await storage.runs.take(numbered(6))
    rows = await held.unread()
    await held.append(log(RunCancelled(by="ada", reason=""), first=len(events)), consumed=rows)
    await held.release()
    held, _ = await workflow_with(storage.runs, "a")
    await held.release()
    await (await storage.runs.create(numbered(7), CREATED)).release()
    storage.close()
    assert (await record.verify()).damage == ()
    return record


def changed(value: Any) -> Any:
    match value:
        case None:
            return 7
        case bytes():
            return value.replace(b"rm", b"ls") if b"rm" in value else value.replace(b"ask", b"all")
        case str():
            return {"waiting": "completed", "completed": "failed", "pending": "approved", "approved": "denied"}.get(
                value, "x" + value
            )
        case _:
            return value + 100_000


async def test_every_changed_value_of_a_table_beside_the_log_is_noticed(lively: Record) -> None:
    tried = 0
    for table, key in (("runs", "number"), ("pending_approvals", "id")):
        columns = [str(row[1]) for row in lively.rows(f"PRAGMA table_info({table})")]
        for column in columns:
            if (table, column) in EXEMPT:
                continue
            for name, value in lively.rows(f"SELECT {key}, {column} FROM {table}"):
                other = changed(value)
                if column == "parent":
                    other = 1 if value is None else None
                assert other != value, f"{table}.{column} of {name} was not changed"
                where = {"table": table, "column": column, "row": name}
                _set(lively, where, key, other)
                tried += 1
                damage = (await lively.verify()).damage
                assert damage, f"{where} changed from {value!r} to {other!r} and nothing was noticed"
                _set(lively, where, key, value)
                if column == "id":
                    _set(lively, {**where, "row": other}, key, value)
    assert tried > 80
    assert (await lively.verify()).damage == ()


def _set(record: Record, where: dict[str, Any], key: str, value: Any) -> None:
    connection = apsw.Connection(str(record.database))
    connection.execute(f"UPDATE {where['table']} SET {where['column']} = ? WHERE {key} = ?", (value, where["row"]))
    connection.close()


@pytest.mark.parametrize("table", ["pending_approvals", "inbox"])
async def test_a_removed_row_beside_the_log_is_noticed(lively: Record, table: str) -> None:
    lively.tamper(f"DELETE FROM {table}")
    assert (await lively.verify()).damage


async def test_a_question_that_no_log_has_is_noticed(lively: Record) -> None:
    for run in (2, 99):
        lively.tamper(
            "INSERT INTO pending_approvals SELECT 'made-up', "
            f"{run}, execution_id, agent_id, tool_name, arguments, status, session_id, created_at, expires_at, card,"
            " decided_by, decided_at, decided_because FROM pending_approvals WHERE id = 'question-open'"
        )
        assert any("made-up" in sentence for sentence in (await lively.verify()).damage)
        lively.tamper("DELETE FROM pending_approvals WHERE id = 'made-up'")


async def test_a_run_that_was_put_in_beside_the_chain_is_noticed(record: Record) -> None:
    await record.fill(1, 2)
    record.tamper("INSERT INTO runs (run_id, status, created_at) VALUES ('made-up', 'completed', 1)")
    assert any("is in no entry of the chain" in sentence for sentence in (await record.verify()).damage)


async def test_a_run_that_goes_on_is_no_damage_while_it_is_checked(record: Record) -> None:
    with record.opened() as storage:
        held = await storage.runs.create(RUN, log(run_created()))
        for number in range(1, 40):
            await held.append(log(asked(f"q-{number}"), first=2 * number - 1))
            appended = asyncio.ensure_future(
                held.append(
                    log(
                        ApprovalDecided(approval_id=f"q-{number}", decision=Decision.APPROVE, by="a", via="t"),
                        first=2 * number,
                    )
                )
            )
            assert (await storage.logs.inspect(RUN)).damage == ()
            await appended
        await held.release()
