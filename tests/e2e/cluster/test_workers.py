"""Several processes on one PostgreSQL: a door that only takes tasks on, and workers that die in every way."""

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Call, Finish, Script, ScriptedModel, Slow
from e2e.fabric_process import PATIENCE_S, Ended, Fabric, Started, settings
from e2e.server_process import serving
from postgres_cluster import run_cluster

TTL_S = 3.0
PROOF = "python3 -m unittest -v test_it.py"
TEST = """\
import unittest

class T(unittest.TestCase):
    def test_it(self):
        self.assertEqual(open('out.txt').read(), 'x')
"""
DONE = Finish(summary="wrote out.txt")
WORK = (
    Call("write_file", {"path": "out.txt", "content": "x"}),
    Call("write_file", {"path": "test_it.py", "content": TEST}),
    Call("shell", {"command": PROOF}),
    DONE,
    DONE,
)
SCRIPT = Script(
    turns=WORK,
    named={
        "slow": (
            Slow(WORK[0], 0.3),
            *(Slow(Call("shell", {"command": f"echo {n}"}), 0.4) for n in range(12)),
            *WORK[1:],
        ),
        "witness": (Call("shell", {"command": "while true; do date +%s.%N >> witness.txt; sleep 0.05; done"}), *WORK),
    },
)


@dataclass
class Working:
    """A `fabric worker` process."""

    started: Started
    worker_id: str

    def signal(self, number: int) -> None:
        self.started.process.send_signal(number)

    async def ended(self) -> Ended:
        return await self.started.ended(timeout_s=PATIENCE_S)


@contextlib.asynccontextmanager
async def working(fabric: Fabric, *options: str) -> AsyncIterator[Working]:
    """Start a worker; it is killed at the end if it still runs."""
    started = await fabric.start("worker", "--json", *options)
    assert started.process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            told = json.loads(await started.process.stdout.readline() or b"{}")
        assert "worker_id" in told, await started.ended()
        yield Working(started, told["worker_id"])
    finally:
        if started.process.returncode is None:
            started.process.send_signal(signal.SIGCONT)
            started.process.kill()
            await started.process.communicate()


async def cluster_of(tmp_path: Path, model: str, url: str) -> Fabric:
    """A folder whose store is the database, with all tables, and whose model is at an address."""
    config = settings(model, store={"url": url}, cluster={"lease_ttl_s": TTL_S, "sweep_s": 0.2})
    fabric = Fabric(tmp_path, config)
    migrated = await fabric("db", "migrate")
    assert migrated.code == 0, migrated.err
    return fabric


async def status(fabric: Fabric) -> dict[str, Any]:
    ended = await fabric("cluster", "status", "--json")
    found: dict[str, Any] = ended.json
    return found


async def shown(client: Any, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(f"/runs/{run_id}")).json()
    return found


async def events_of(client: Any, run_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await client.get(f"/runs/{run_id}/events", params={"limit": 1000})).json()["events"]
    return found


async def until(true: Callable[[], Any], what: str) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        while not (found := await true()):
            await asyncio.sleep(0.05)
    assert found, what
    return found


async def driver_of(fabric: Fabric) -> str:
    async def look() -> str:
        return next((each["id"] for each in (await status(fabric))["workers"] if each["running"]), "")

    return str(await until(look, "somebody drives it"))


@pytest.mark.proves("SC-1", "SC-10")
async def test_a_door_takes_tasks_on_and_a_worker_drives_them(tmp_path: Path, database_url: str) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = await cluster_of(tmp_path, model.base_url, database_url)
        async with serving(fabric, "--no-drive") as door, working(fabric, "--slots", "4"):
            answers = await asyncio.gather(
                *(door.client.post("/run", json={"prompt": "do it", "pack": "engineering"}) for _ in range(6))
            )
            assert [answer.json()["_meta"]["status"] for answer in answers] == ["completed"] * 6, answers[0].text
            run_id = answers[0].json()["_meta"]["run_id"]
            kinds = [event["kind"] for event in await events_of(door.client, run_id)]
            assert kinds[0] == "run_created"
            assert "run_resumed" not in kinds  # nobody has driven it before
            found = await status(fabric)
            assert {each["role"] for each in found["workers"]} == {"door", "worker"}
            assert (found["queued"], found["undrivable"]) == (0, [])
        verified = await fabric("audit", "verify", "--json")
        assert verified.code == 0, verified.out + verified.err


@pytest.mark.proves("SC-6")
@pytest.mark.parametrize(
    "how", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP], ids=["killed", "told to stop", "frozen"]
)
async def test_another_worker_goes_on(tmp_path: Path, database_url: str, how: signal.Signals) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = await cluster_of(tmp_path, model.base_url, database_url)
        async with serving(fabric, "--no-drive") as door, working(fabric) as one, working(fabric) as other:
            task = {"prompt": "[[script=slow]] do it", "pack": "engineering"}
            answer = asyncio.create_task(door.client.post("/run", json=task))
            first = await driver_of(fabric)
            await model.wait_for_requests(2, timeout_s=PATIENCE_S)  # before its first event it would simply begin again
            victim, heir = (one, other) if one.worker_id == first else (other, one)
            victim.signal(how)
            began = time.monotonic()

            async def taken() -> bool:
                workers = {each["id"]: each["running"] for each in (await status(fabric))["workers"]}
                return bool(workers.get(heir.worker_id))

            await until(taken, "the other one drives it")
            took = time.monotonic() - began
            if how == signal.SIGTERM:
                assert (await victim.ended()).code == 0
            result = (await answer).json()["_meta"]
            assert result["status"] == "completed", result
            events = await events_of(door.client, result["run_id"])
            resumed = [event["payload"] for event in events if event["kind"] == "run_resumed"]
            assert [each["handed_over"] for each in resumed] == [how == signal.SIGTERM]
            if how == signal.SIGSTOP:
                victim.signal(signal.SIGCONT)  # it appends nothing, and comes back under another id

                async def back() -> bool:
                    names = {each["id"] for each in (await status(fabric))["workers"] if each["role"] == "worker"}
                    return len(names) == 2 and first not in names

                await until(back, "it is back under another id")
                assert len(await events_of(door.client, result["run_id"])) == len(events)
        assert took < TTL_S + 15.0, took  # with the time that a look takes on a busy machine
        verified = await fabric("audit", "verify", "--json")
        assert verified.code == 0, verified.out + verified.err


@pytest.mark.proves("SC-6")
async def test_the_box_of_a_frozen_worker_is_dead_before_anybody_goes_on(tmp_path: Path, database_url: str) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = await cluster_of(tmp_path, model.base_url, database_url)
        async with serving(fabric, "--no-drive") as door, working(fabric) as one:
            task = {"prompt": "[[script=witness]] do it", "pack": "engineering"}
            asking = asyncio.create_task(door.client.post("/run", json=task))
            (folder,) = await until(lambda: _folders(fabric), "it has a folder")
            witness = folder / "workspace" / "witness.txt"
            await until(lambda: _exists(witness), "its command writes")
            one.signal(signal.SIGSTOP)
            await asyncio.sleep(TTL_S + 0.5)  # from now on others may go on
            written = witness.read_bytes()
            await asyncio.sleep(1.0)
            assert witness.read_bytes() == written
            asking.cancel()


async def _folders(fabric: Fabric) -> list[Path]:
    return list(fabric.run_dirs())


async def _exists(path: Path) -> bool:
    return path.exists()


@pytest.mark.proves("SC-6", "SC-11")
async def test_a_worker_is_drained_and_what_nobody_can_drive_is_listed(tmp_path: Path, database_url: str) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = await cluster_of(tmp_path, model.base_url, database_url)
        async with working(fabric) as one:
            drained = await fabric("cluster", "drain", one.worker_id[:8])
            assert (drained.code, "takes nothing on any more" in drained.out) == (0, True), drained.err
            assert (await one.ended()).code == 0
        nobody = await fabric("cluster", "drain", "zz")
        assert (nobody.code, "No living process begins with 'zz'" in nobody.err) == (1, True)
        async with serving(fabric, "--no-drive") as door:
            answer = await door.client.post("/run", json={"prompt": "do it", "pack": "engineering"})
            assert answer.json()["_meta"]["status"] == "interrupted", answer.text  # and it stays for whoever comes
            listed = await fabric("cluster", "status")
            assert (listed.code, "Nobody can drive 1 run of host:" in listed.out) == (1, True), listed.out
            once = await fabric("worker", "--once", timeout_s=60)
            assert once.code == 0, once.err
            assert (await shown(door.client, answer.json()["_meta"]["run_id"]))["_meta"]["status"] == "completed"


@pytest.mark.proves("SC-7")
async def test_runs_go_on_by_themselves_when_postgresql_is_back(tmp_path: Path) -> None:
    with run_cluster() as postgres:
        async with ScriptedModel(SCRIPT) as model:
            fabric = await cluster_of(tmp_path, model.base_url, postgres.create_database())
            async with serving(fabric, "--no-drive") as door, working(fabric):
                task = {"prompt": "[[script=slow]] do it", "pack": "engineering"}
                answer = asyncio.create_task(door.client.post("/run", json=task))
                await driver_of(fabric)
                postgres.stop(signal.SIGQUIT)  # as in a crash
                refused = await door.client.post("/run", json=task)
                assert refused.status_code == 503, refused.text
                await asyncio.sleep(TTL_S + 1.0)
                postgres.start()
                result = (await answer).json()["_meta"]
                assert result["status"] == "completed", result
                calls = [
                    event for event in await events_of(door.client, result["run_id"]) if event["kind"] == "tool_call"
                ]
                assert len({event["payload"]["call_id"] for event in calls}) == len(calls)
            verified = await fabric("audit", "verify", "--json")
            assert verified.code == 0, verified.out + verified.err


async def test_without_its_database_a_process_still_stops_when_it_is_told(tmp_path: Path) -> None:
    with run_cluster() as postgres:
        async with ScriptedModel(SCRIPT) as model:
            fabric = await cluster_of(tmp_path, model.base_url, postgres.create_database())
            async with serving(fabric) as server, working(fabric) as worker:
                postgres.stop(signal.SIGQUIT)
                worker.signal(signal.SIGTERM)
                assert (await worker.ended()).code == 0
                ended = await server.stop()
                assert ended.code == 0, ended.err


@pytest.mark.proves("SC-1", "SC-6")
async def test_a_drill_kills_its_own_worker_and_another_one_goes_on(tmp_path: Path, database_url: str) -> None:
    fabric = await cluster_of(tmp_path, "http://127.0.0.1:9/v1", database_url)  # no model is needed
    alone = await fabric("cluster", "drill")
    assert (alone.code, "No worker can take over runs of host:" in alone.err) == (1, True), alone
    assert "fabric worker" in alone.err
    async with working(fabric) as one:
        drilled = await fabric("cluster", "drill", "--json", timeout_s=90)
        assert drilled.code == 0, drilled
        report = drilled.json
        assert TTL_S * 0.5 < report["takeover_s"] < TTL_S + 8.0, report
        assert (report["status"], report["repeated"], report["finished"]) == ("completed", 0, 3)
        assert report["worker_id"] != one.worker_id
        assert (report["lease_ttl_s"], report["passed"]) == (TTL_S, True)
        (left,) = (await status(fabric))["workers"]  # the one that was killed has no runs and is not listed
        assert (left["id"], left["state"], left["running"]) == (one.worker_id, "active", 0)


async def test_without_a_shared_store_there_is_nothing_to_share(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1"))
    status = await fabric("cluster", "status")
    assert (status.code, "which other machines do not share" in status.out) == (0, True), status
    for command in (("worker",), ("serve", "--no-drive"), ("cluster", "drain", "a"), ("cluster", "drill")):
        ended = await fabric(*command)
        assert ended.code == 2, ended
        assert "store.url" in ended.err
