"""runlog.jsonl and run_index.jsonl follow the store, and come back whatever happened to them."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.bootstrap.records import Records, open_records
from agent_fabric.domain.events import (
    Body,
    Event,
    RunCancelled,
    RunFailed,
    RunInterrupted,
    SpecialistsRecruited,
    ToolReturned,
)
from agent_fabric.domain.ids import CallId, LaneId, RunId, SpecialistId
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.runs.log.jsonl_log import JsonlRunLog, RunIndex
from agent_fabric.wire.event_lines import line_of
from contract.run_repository_contract import CREATED, NEXT, OTHER, RUN, completed, log, run_created
from integration.persistence.opened_store import store_of

ENGINEERING = SpecialistId("engineering")
RECRUITED = SpecialistsRecruited(
    specialist_id=ENGINEERING,
    specialist_ids=(ENGINEERING,),
    required_capabilities=(),
    routing_method="explicit",
    is_task_force=False,
)


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    records = open_records(tmp_path / ".fabric")
    yield records
    records.close()


def runlog(records: Records, run_id: RunId = RUN) -> Path:
    path = Path(records.layout.runlog(run_id))
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


async def require_whole(records: Records, run_id: RunId = RUN) -> None:
    expected = [json.loads(json.dumps(line_of(run_id, event))) for event in await records.runs.read(run_id)]
    assert lines(runlog(records, run_id)) == expected


async def flush(records: Records) -> None:
    """Write what the mirrors hold back."""
    runs = records.storage.mirrors
    assert isinstance(runs, SqlRunRepository)
    await runs.flush()


async def leave_dead(records: Records, run_id: RunId = RUN, *events: Event) -> None:
    """Leave a run as kill -9 does: the row in `drivers` stays, the kernel frees the lock."""
    runlog(records, run_id)
    held = await records.runs.create(run_id, CREATED)
    await held.append([*NEXT, *events])
    await flush(records)
    number = await store_of(records).read(
        lambda connection: connection.execute("SELECT number FROM runs WHERE run_id = ?", (run_id,)).get
    )
    assert isinstance(number, int)
    store_of(records).locks.release(number)


@pytest.mark.proves("AF-132", "C28")
async def test_lines_begin_with_the_four_keys_and_a_float_for_the_time(records: Records) -> None:
    runlog(records)
    held = await records.runs.create(RUN, CREATED)
    await held.append(NEXT)
    await held.release()
    for line in lines(runlog(records)):
        assert list(line)[:4] == ["ts", "kind", "step", "payload"]
        assert isinstance(line["ts"], float)
    await require_whole(records)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "torn in the middle": lambda data: data[:-20],
    "torn before the line end": lambda data: data[:-1],
    "one line missing at the end": lambda data: data[: data.rindex(b"\n", 0, -1) + 1],
    "empty": lambda data: b"",
    "zeros at the end, as after a power cut": lambda data: data[:-30] + b"\0" * 30,
    "garbage at the end": lambda data: data + b"\xff\xfe garbage",
    "a line twice": lambda data: data + data[data.rindex(b"\n", 0, -1) + 1 :],
    "not JSON at all": lambda data: b"somebody's notes\n" * 30,
    "another object": lambda data: b'{"seq": "0"}\n[]\n7\n' + data,
}


@pytest.mark.parametrize("damage", DAMAGE)
async def test_the_next_start_repairs_what_a_crash_left(records: Records, damage: str) -> None:
    await leave_dead(records)
    data = runlog(records).read_bytes()
    runlog(records).write_bytes(DAMAGE[damage](data))
    await records.storage.mirrors.catch_up()
    await require_whole(records)
    rows = await store_of(records).read(lambda connection: list(connection.execute("SELECT * FROM drivers")))
    assert rows == []


async def test_the_next_start_brings_a_deleted_file_back(records: Records) -> None:
    await leave_dead(records)
    runlog(records).unlink()
    runlog(records).parent.rmdir()
    await records.storage.mirrors.catch_up()
    await require_whole(records)


@pytest.mark.parametrize("damage", DAMAGE)
async def test_whoever_takes_a_run_repairs_its_log_first(records: Records, damage: str) -> None:
    await leave_dead(records)
    data = runlog(records).read_bytes()
    runlog(records).write_bytes(DAMAGE[damage](data))
    held, _, _ = await records.runs.take(RUN)
    await held.append(log(RunInterrupted(reason="again"), first=3))
    await held.release()
    await require_whole(records)


async def test_brackets_without_end_do_not_keep_a_process_from_starting(records: Records) -> None:
    await leave_dead(records)
    runlog(records).write_bytes(b"[" * 3_000)
    await records.storage.mirrors.catch_up()
    await require_whole(records)


async def test_a_start_leaves_runs_alone_that_somebody_drives(records: Records) -> None:
    runlog(records)
    held = await records.runs.create(RUN, CREATED)
    runlog(records).write_bytes(b"not mine to repair")
    await records.storage.mirrors.catch_up()
    assert runlog(records).read_bytes() == b"not mine to repair"
    await held.release()


async def test_the_index_notes_a_run_whose_driver_died_before_it_could(records: Records) -> None:
    await leave_dead(records, RUN, *log(completed(RUN, "all good"), first=3))
    index = records.layout.run_index
    index.write_bytes(b'{"run_id": "torn')
    await records.storage.mirrors.catch_up()
    assert index.read_bytes().startswith(b'{"run_id": "torn\n')
    (line,) = [json.loads(line) for line in index.read_bytes().splitlines()[1:]]
    assert (line["run_id"], line["status"], line["summary"]) == (RUN, "completed", "all good")
    await leave_dead(records, OTHER, *log(completed(OTHER), first=3))
    await records.storage.mirrors.catch_up()
    assert len(index.read_bytes().splitlines()) == 3, "each run is noted once"


async def test_an_export_writes_everything_anew(records: Records) -> None:
    await leave_dead(records, RUN, *log(completed(RUN), first=3))
    runlog(records).write_bytes(b"rubbish")
    records.layout.run_index.unlink()
    events = await records.runs.read(RUN)
    assert JsonlRunLog(records.layout).export(RUN, events) == runlog(records)
    RunIndex(records.layout).export([(RUN, events)])
    await require_whole(records)
    assert [line["run_id"] for line in lines(records.layout.run_index)] == [RUN]


async def test_a_log_file_that_could_not_be_written_for_a_while_is_whole_after_release(records: Records) -> None:
    path = runlog(records)
    held = await records.runs.create(RUN, CREATED)
    await flush(records)
    path.rename(path.with_suffix(".away"))
    path.mkdir()  # stands for a full disk
    await held.append(NEXT)
    path.rmdir()
    path.with_suffix(".away").rename(path)
    await held.append(log(RunInterrupted(reason="again"), first=3))
    await held.release()
    await require_whole(records)


async def test_a_long_output_looks_the_same_in_the_file_and_in_an_export(records: Records) -> None:
    runlog(records)
    held = await records.runs.create(RUN, CREATED)
    body = ToolReturned(tool="shell", result={"stdout": "line\n" * 2_000}, call_id=CallId("call_1"))
    await held.append([Event(1, 2.0, LaneId("engineering"), "step_0", body)])
    await held.release()
    await require_whole(records)


@pytest.mark.parametrize("end", [RunFailed(code="c", message="m", hint=""), RunCancelled(by="me", reason="")])
async def test_the_index_is_the_same_whether_followed_or_exported(
    records: Records, end: RunFailed | RunCancelled
) -> None:
    held = await records.runs.create(RUN, log(run_created("a task")))
    await held.append(log(RECRUITED, first=1))
    await held.append(log(end, first=2))
    await held.release()
    followed = lines(records.layout.run_index)
    RunIndex(records.layout).export([(RUN, await records.runs.read(RUN))])
    assert lines(records.layout.run_index) == followed


async def test_the_index_tells_how_each_run_ended(records: Records) -> None:
    ends: list[Body] = [
        completed(RunId("run-0"), "good"),
        RunFailed(code="c", message="bad", hint=""),
        RunCancelled(by="me", reason=""),
    ]
    for number, end in enumerate(ends):
        await (await records.runs.create(RunId(f"run-{number}"), [*CREATED, *log(RECRUITED, end, first=1)])).release()
    held = await records.runs.create(RunId("run-3"), [*CREATED, *NEXT])
    await held.release()
    assert [(line["status"], line["summary"], line["specialist_ids"]) for line in lines(records.layout.run_index)] == [
        ("completed", "good", ["engineering"]),
        ("failed", "bad", ["engineering"]),
        ("cancelled", "Cancelled by me", ["engineering"]),
    ]
