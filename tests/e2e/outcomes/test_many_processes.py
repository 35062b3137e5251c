"""Many processes share one fabric folder, also while it is being made."""

import asyncio
import json
import sys
import time
from pathlib import Path

import apsw
import pytest

from agent_fabric.testing.scripted_model import Call, Finish, Script, ScriptedModel
from e2e.cli.test_cli import Ended, Fabric, configuration
from e2e.fabric_process import configure
from new_stores import MIGRATED

RUNS = 12
READERS = 2
STEPS = 4
SCRIPT = Script(
    turns=(
        *(Call("shell", {"command": f"echo {number} > file; seq 3000"}) for number in range(STEPS)),
        Call("shell", {"command": "python -c 'print(1)'"}),
        Finish(summary="done", artifacts=[], next_steps=[], notes=""),
    )
)

OPEN = """
import asyncio, sys, time
from pathlib import Path
from agent_fabric.bootstrap.records import open_records
time.sleep(max(0.0, float(sys.argv[2]) - time.time()))
records = open_records(Path(sys.argv[1]))
assert asyncio.run(records.storage.catalogue.recent(limit=1)) == []
asyncio.run(records.storage.gauge.try_to_write())
records.close()
"""


def require_sound(root: Path) -> None:
    connection = apsw.Connection(str(root / "fabric.db"))
    try:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        assert connection.execute("PRAGMA journal_mode").get == "wal"
        assert list(connection.execute("SELECT * FROM drivers")) == []
        assert list(connection.execute("SELECT * FROM inbox")) == []
    finally:
        connection.close()


def test_a_process_that_reads_the_configuration_while_others_are_started_finds_a_whole_one(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    configure(file, {"budget": {"max_steps": 1}})
    with file.open() as read:
        configure(file, {"budget": {"max_steps": 2}})
        assert json.load(read) == {"budget": {"max_steps": 1}}
    assert json.loads(file.read_text()) == {"budget": {"max_steps": 2}}


@pytest.mark.slow
@pytest.mark.proves("AF-023", "AF-130")
async def test_twelve_runs_and_their_readers_share_a_folder_that_none_of_them_has_made(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        folder = tmp_path / "project"
        folder.mkdir()
        fabric = Fabric(folder, tmp_path / "home", configuration(model.base_url), MIGRATED)
        ended = asyncio.Event()
        looks: list[Ended] = []

        async def read() -> None:
            while not ended.is_set():
                looks.append(await fabric("logs", "list", "--json", "--limit", "100", timeout_s=90))

        async with asyncio.TaskGroup() as group:
            for _ in range(READERS):
                group.create_task(read())
            runs = await asyncio.gather(*(fabric("run", f"task {n}", "--json", timeout_s=90) for n in range(RUNS)))
            ended.set()
        for answer in (*runs, *looks):
            assert answer.code == 0, answer
            assert "locked" not in answer.out + answer.err
        assert looks
        ids = {answer.json["_meta"]["run_id"] for answer in runs}
        assert len(ids) == RUNS
        listed = (await fabric("logs", "list", "--json", "--limit", "100")).json["runs"]
        assert {run["run_id"]: run["status"] for run in listed} == dict.fromkeys(ids, "completed")
    for run_id in ids:
        data = (fabric.root / "runs" / run_id / "runlog.jsonl").read_bytes()
        lines = [json.loads(line) for line in data.splitlines()]
        assert [line["seq"] for line in lines] == list(range(len(lines)))
        assert lines[-1]["kind"] == "run_complete"
    index = (fabric.root / "run_index.jsonl").read_bytes().splitlines()
    assert sorted(json.loads(line)["run_id"] for line in index) == sorted(ids)
    require_sound(fabric.root)


async def test_eight_that_make_the_same_folder_at_the_same_moment_all_succeed(tmp_path: Path) -> None:
    for number in range(3):
        root = tmp_path / f"{number}" / ".fabric"
        start = time.time() + 1.5
        processes = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", OPEN, str(root), str(start)),
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
            for _ in range(8)
        ]
        async with asyncio.timeout(30):
            answers = await asyncio.gather(*(process.communicate() for process in processes))
        assert [process.returncode for process in processes] == [0] * 8, answers
        require_sound(root)
