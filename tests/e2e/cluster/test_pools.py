"""Who may drive a run: pools, what workers lack, and versions that are too old for the tables."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agent_fabric.infrastructure.persistence.schema import FORMAT
from agent_fabric.testing.scripted_model import ScriptedModel
from e2e.cluster.test_workers import SCRIPT, cluster_of, driver_of, events_of, shown, status, until, working
from e2e.server_process import Serving, serving

SPECIAL: Mapping[str, Any] = {
    "special": {"builder": "e2e.agents.test_task_force:second_pack", "description": "Knows one machine."}
}


async def started(door: Serving, **wish: Any) -> str:
    answer = await door.client.post("/runs", json={"prompt": "do it", "pack": "engineering", **wish})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["run_id"])


async def completed(door: Serving, run_id: str) -> None:
    async def is_completed() -> bool:
        return bool((await shown(door.client, run_id))["_meta"]["status"] == "completed")

    await until(is_completed, "it is done")


@pytest.mark.proves("SC-1", "SC-11")
async def test_only_workers_of_its_pool_drive_a_run(tmp_path: Path, database_url: str) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = await cluster_of(tmp_path, model.base_url, database_url)
        async with serving(fabric) as server:  # which drives what names no pool
            run_id = await started(server, pool="gpu")
            (left,) = (await status(fabric))["undrivable"]
            assert (left["pool"], left["runs"], left["run_id"]) == ("gpu", 1, run_id)
            assert left["reason"] == "no worker takes up runs of their pool"
            answer = await server.client.get("/api/v1/cluster")
            assert (answer.json()["undrivable"], answer.json()["shared"]) == ([left], True), answer.text
            stranger = await server.client.get("/api/v1/cluster", headers={"authorization": "Bearer no"})
            assert stranger.status_code == 401, stranger.text
            asked = await replace(fabric, server=server.url)("cluster", "status", "--json")
            assert (asked.code, asked.json["undrivable"]) == (1, [left]), asked
            other = await started(server)
            await completed(server, other)
            assert [each["kind"] for each in await events_of(server.client, run_id)] == ["run_created"]
            async with working(fabric, "--pool", "gpu", "--pool", "big"):
                await completed(server, run_id)
                found = await status(fabric)
                assert sorted(each["pools"] for each in found["workers"]) == [["default"], ["gpu", "big"]]
                assert found["undrivable"] == []
            refused = await server.client.post("/runs", json={"prompt": "do it", "pool": "No Pool"})
            assert refused.status_code == 422, refused.text


@pytest.mark.proves("SC-11")
async def test_a_worker_that_lacks_something_leaves_a_run_alone_and_says_what(
    tmp_path: Path, database_url: str
) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = await cluster_of(tmp_path, model.base_url, database_url)
        equipped = replace(fabric, environment={"FABRIC_SPECIALISTS": json.dumps(SPECIAL)})
        async with serving(equipped, "--no-drive") as door:
            unknown, lost = await started(door, pack="special"), await started(door)
            workspace = fabric.root / "runs" / lost / "workspace"
            workspace.rename(workspace.with_name("elsewhere"))
            async with working(fabric):

                async def told() -> dict[str, str]:
                    found = {each["run_id"]: each["reason"] for each in (await status(fabric))["undrivable"]}
                    return found if len(found) == 2 else {}

                assert await until(told, "both are refused") == {
                    unknown: "every worker lacks the pack 'special'",
                    lost: "every worker lacks the folder of the workspace",
                }
                with psycopg.connect(database_url) as connection:
                    epochs = connection.execute("SELECT DISTINCT epoch FROM runs").fetchall()
                assert epochs == [(1,)]  # of whoever created them: nobody has claimed them since
                workspace.with_name("elsewhere").rename(workspace)
                async with working(equipped):
                    await completed(door, unknown)
                    await completed(door, lost)


@pytest.mark.proves("SC-11")
async def test_processes_that_are_too_old_for_the_tables_hand_over_and_end(tmp_path: Path, database_url: str) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = await cluster_of(tmp_path, model.base_url, database_url)
        async with serving(fabric) as server, working(fabric) as worker:
            newer = FORMAT + 1
            with psycopg.connect(database_url) as connection:  # as a newer release does whose migration only adds
                connection.execute("UPDATE fabric_format SET version = %s", (newer,))
            await completed(server, await started(server))
            assert (await status(fabric))["undrivable"] == []
            slow = await started(server, prompt="[[script=slow]] do it")
            await driver_of(fabric)
            with psycopg.connect(database_url) as connection:  # and as one that changes or removes something
                connection.execute("UPDATE fabric_format SET min_writer = %s", (newer,))
            assert (await worker.ended()).code == 0
            ended = await server.started.ended()
            assert ended.code == 0, ended.err
        with psycopg.connect(database_url) as connection:
            lives = connection.execute("SELECT id FROM workers WHERE state <> 'gone'").fetchall()
            left = connection.execute("SELECT status, driver FROM runs WHERE run_id = %s", (slow,)).fetchall()
        assert (lives, left) == ([], [("running", "")])  # handed over: whoever is new goes on at once
        refused = await fabric("worker")
        assert (refused.code, "was written by a newer agent-fabric" in refused.err) == (1, True), refused
