"""Many processes write the audit record at once, each its own strand; the main chain ties them together."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_fabric.application.ports.cluster import Introduction
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.domain.errors import LeaseLost
from agent_fabric.domain.identity.principals import Kind, Principal
from agent_fabric.infrastructure.audit.audit_head_file import AuditHeadFile
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence.audit import audit_chain
from agent_fabric.infrastructure.persistence.audit.audit_chain import ChainCheck, Entry
from agent_fabric.infrastructure.persistence.audit.chain_writer import ADMIN, HEAD, TIE, ChainWriter, Sealed
from agent_fabric.infrastructure.persistence.audit.strands import Strand, read_tie, tie_strands
from agent_fabric.infrastructure.persistence.schema import read_steps
from contract.run_repository_contract import CREATED, RUN, completed, log
from effort import effort, examples, report
from integration.persistence.postgres_storage import open_tables

KEY = AuditKey.of(b"k" * 32)
TTL_S = 2.0


class Record(NamedTuple):
    """The entries of a record, as the check reads them."""

    main: list[Entry]
    strands: list[tuple[str, Entry]]

    def check(self) -> ChainCheck:
        check = ChainCheck(KEY)
        check.check_main(self.main)
        check.check_strands(self.strands)
        return check


def record_of(lives: Sequence[tuple[int, str]]) -> Record:
    """Return what processes have recorded: each step names a process and what it does."""
    connection = apsw.Connection(":memory:")
    connection.execute(";".join(read_steps()))
    keeper = ChainWriter(KEY)
    writers: dict[int, ChainWriter] = {}
    for step, (process, deed) in enumerate(lives):
        if process not in writers:
            writers[process] = writer = ChainWriter(KEY)
            writer.strand = Strand(f"{process}-process".__str__)
            connection.execute(
                "INSERT INTO workers (id, name, role, state, home, slots, version, started_at, lease_until)"
                " VALUES (?, '', '', 'active', '', 1, '', 0, 0)",
                (f"{process}-process",),
            )
        match deed:
            case "head":
                try:
                    sealed = Sealed(step, HEAD, process, f"run-{process}", step, bytes([step]))
                    writers[process].seal(connection, sealed)
                except LeaseLost:
                    pass
            case "act":
                writers[process].seal(connection, Sealed(step, ADMIN, 0, "", 0, b"", f"act {step}"))
            case "tie":
                tie_strands(connection, keeper, now=step)
            case _:
                connection.execute("UPDATE workers SET state = 'gone' WHERE id = ?", (f"{process}-process",))
    main = list(audit_chain._main_entries(connection))
    strands = list(audit_chain._strand_entries(connection))
    connection.close()
    return Record(main, strands)


def tied_of(main: list[Entry], strand: str) -> int:
    """Return up to which entry of a strand the main chain goes."""
    ties = [read_tie(entry.sealed.note) for entry in main if entry.sealed.kind == TIE]
    return max((tie[strand][0] for tie in ties if strand in tie), default=0)


LIVES = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(("head", "head", "head", "act", "tie", "die"))),
    min_size=1,
    max_size=40,
)
CHANGES: Sequence[Callable[[Entry], Entry]] = (
    lambda entry: entry._replace(sealed=entry.sealed._replace(at=entry.sealed.at + 1)),
    lambda entry: entry._replace(sealed=entry.sealed._replace(events=entry.sealed.events + 1)),
    lambda entry: entry._replace(sealed=entry.sealed._replace(run_id=entry.sealed.run_id + "x")),
    lambda entry: entry._replace(sealed=entry.sealed._replace(note=entry.sealed.note + " ")),
    lambda entry: entry._replace(hash=bytes(32)),
)


@pytest.mark.proves("SC-12")
@settings(max_examples=examples(300), deadline=None)
@given(lives=LIVES, data=st.data())
def test_one_changed_cut_or_removed_entry_is_named(lives: list[tuple[int, str]], data: st.DataObject) -> None:
    record = record_of(lives)
    whole = record.check()
    assert whole.damage == []
    main, strands = list(record.main), list(record.strands)
    if strands and (not main or data.draw(st.booleans())):
        where = data.draw(st.integers(0, len(strands) - 1))
        name, entry = strands[where]
        if data.draw(st.booleans()):
            strands[where] = name, data.draw(st.sampled_from(CHANGES))(entry)
        else:
            del strands[where]
        last = where + 1 == len(record.strands) or record.strands[where + 1][0] != name
        said = f"of strand {name[:8]}"
    elif main:
        where = data.draw(st.integers(0, len(main) - 1))
        entry = main[where]
        if data.draw(st.booleans()):
            main[where] = data.draw(st.sampled_from(CHANGES))(entry)
        else:
            del main[where]
        last, said = where + 1 == len(record.main), "of the chain"
    else:
        return
    found = Record(main, strands).check()
    if last and len(main) < len(record.main):
        assert found.head != whole.head  # which is kept outside of the database
        return
    if last and len(strands) < len(record.strands) and entry.position > tied_of(record.main, name):
        assert found.untied == whole.untied - 1  # too new to be covered
        return
    assert any(f"{entry.position} {said}" in sentence for sentence in found.damage), found.damage


@given(lives=LIVES)
@settings(max_examples=examples(100), deadline=None)
def test_what_was_tied_cannot_be_cut_off(lives: list[tuple[int, str]]) -> None:
    record = record_of([*lives, (0, "head"), (0, "tie")])
    assert record.check().untied == 0
    for name in {name for name, _ in record.strands}:
        of_strand = [entry for each, entry in record.strands if each == name]
        for length in range(len(of_strand)):
            rest = [pair for pair in record.strands if pair[0] != name]
            left = sorted(
                [*rest, *((name, entry) for entry in of_strand[:length])], key=lambda pair: (pair[0], pair[1].position)
            )
            damage = Record(record.main, left).check().damage
            assert any(f"of strand {name[:8]}" in sentence and "missing" in sentence for sentence in damage)


def test_nothing_is_added_to_a_strand_that_was_closed() -> None:
    record = record_of([(1, "head"), (1, "die"), (2, "tie"), (1, "head"), (1, "head"), (2, "tie")])
    assert [entry.sealed.kind for _, entry in record.strands] == [HEAD, "closed"]
    assert record.check().damage == []


def opened(url: str, folder: Path) -> Any:
    heads = AuditHeadFile(folder / "head", folder, KEY)
    said = Introduction(name="one", lease_ttl_s=TTL_S)
    return open_tables(url, folder, SystemClock(), introduction=said, audit_key=KEY, audit_heads=heads)


async def test_a_process_that_leaves_ties_its_strand_and_keeps_the_head(database_url: str, tmp_path: Path) -> None:
    one = opened(database_url, tmp_path)
    held = await one.runs.create(RUN, CREATED)
    await held.append(log(completed(RUN), first=1))
    await held.release()
    report = await one.chain.verify()
    assert (report.damage, report.entries, report.untied) == ((), 2, 2)
    person = Principal("ada", Kind.LOCAL, frozenset())
    await one.acts.record(Act.of(person, Deed.RECORD_ACCEPTED, at=1.0, about="x"))
    assert [act.by for act in await one.acts.recent(limit=5)] == ["ada"]
    one.close()

    other = opened(database_url, tmp_path)
    report = await other.chain.verify()
    assert (report.damage, report.entries, report.untied) == ((), 5, 0)  # two heads and the close; an act and a tie
    assert report.kept_head == report.head
    await other.store.write(lambda connection: connection.execute("DELETE FROM audit_strands WHERE number = 3"))
    (sentence,) = (await other.chain.verify()).damage
    assert "entry 3 of strand" in sentence
    other.close()


WRITER = """
import asyncio, sys
from pathlib import Path
sys.path[:0] = {paths!r}
from agent_fabric.domain.ids import RunId
from effort import effort, examples, report
from contract.run_repository_contract import CREATED, completed, log
from integration.persistence.test_audit_braid import opened

async def work(store, lane):
    for number in range(100_000):
        run = RunId(f"{{sys.argv[2]}}-{{lane}}-{{number}}")
        held = await store.runs.create(run, CREATED)
        await held.append(log(completed(run), first=1))
        await held.release()
        if number == 0 and lane == 0:
            print("writing", flush=True)

async def main():
    store = opened(sys.argv[1], Path(sys.argv[3]))
    await asyncio.gather(*(work(store, lane) for lane in range(3)))

asyncio.run(main())
"""


class Writers:
    """Processes that write runs as fast as they can, until they are killed."""

    def __init__(self, url: str, folder: Path) -> None:
        self._arguments = url, folder
        self._count = 0
        tests = Path(__file__).parents[2]
        self._text = WRITER.format(paths=[str(tests)])
        self.alive: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        url, folder = self._arguments
        self._count += 1
        command = [sys.executable, "-c", self._text, url, f"writer-{self._count}", str(folder)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ})
        self.alive.append(process)

    def kill(self, index: int) -> None:
        process = self.alive.pop(index)
        assert process.stdout is not None
        process.stdout.readline()  # it has begun to write
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


async def check_after_kills(url: str, folder: Path, kills: int) -> None:
    writers = Writers(url, folder)
    for _ in range(4):
        writers.start()
    for _ in range(kills - 4):
        writers.kill(0)
        writers.start()
    while writers.alive:
        writers.kill(0)
    keeper = opened(url, folder)
    try:
        held = await keeper.runs.create(RUN, CREATED)  # from now on it is among the processes, and their keeper
        until = time.monotonic() + 30
        while (await keeper.chain.verify()).untied and time.monotonic() < until:
            await asyncio.sleep(0.2)
        report = await keeper.chain.verify()
        assert report.damage == ()
        assert report.entries > 2 * kills
        query = "SELECT count(*), count(DISTINCT strand) FROM audit_strands WHERE kind = 'closed'"
        closed = await keeper.store.read(lambda connection: connection.execute(query).fetchone())
        assert closed == (kills, kills)
        await held.release()
    finally:
        keeper.close()


@pytest.mark.slow
@pytest.mark.proves("SC-12")
async def test_the_record_holds_after_writers_were_killed(database_url: str, tmp_path: Path) -> None:
    kills = effort(5, 100)
    await check_after_kills(database_url, tmp_path, kills)
    report("writers of the audit record killed", kills)
