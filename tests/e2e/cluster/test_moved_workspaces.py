"""A run goes on on another machine, with its files."""

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.testing.scripted_model import ScriptedModel
from e2e.cluster.test_workers import SCRIPT, TTL_S, events_of, shown, status, until, working
from e2e.fabric_process import Fabric, settings
from e2e.server_process import serving


@pytest.mark.slow
@pytest.mark.proves("SC-6", "SC-11")
async def test_a_worker_on_another_machine_takes_a_run_over_with_its_files(tmp_path: Path, database_url: str) -> None:
    async with ScriptedModel(SCRIPT) as model:
        config = settings(
            model.base_url,
            store={"url": database_url},
            cluster={"lease_ttl_s": TTL_S, "sweep_s": 0.2},
            workspaces={"backend": f"folder:{tmp_path / 'objects'}"},
        )
        home = tmp_path / "home"  # the keys of one user

        def machine(name: str, **more: str) -> Fabric:
            (tmp_path / name).mkdir()
            environment = {"FABRIC_CLUSTER__HOME": f"host:{name}", **more}
            return Fabric(tmp_path / name, config, environment=environment, home=home)

        door, first, second = machine("door"), machine("first"), machine("second")
        away = replace(machine("away"), configured={**config, "workspaces": {}})
        migrated = await door("db", "migrate")
        assert migrated.code == 0, migrated.err
        async with serving(door, "--no-drive") as server:
            body = {"prompt": "slow", "pack": "engineering"}
            run_id = (await server.client.post("/runs", json=body)).json()["run_id"]
            async with working(away):  # finds no saved files, so it does not claim the run
                (left,) = (await status(door))["undrivable"]
                assert (left["home"], left["reason"]) == ("object", "no worker has their workspaces")
                async with working(first) as worker:

                    async def is_saved() -> bool:
                        found = await events_of(server.client, run_id)
                        return any(each["kind"] == "workspace_saved" for each in found)

                    await until(is_saved, "its files are saved")
                    worker.signal(signal.SIGKILL)
                async with working(second):

                    async def is_over() -> bool:
                        return bool((await shown(server.client, run_id))["_meta"]["status"] == "completed")

                    await until(is_over, "it is done")
            assert (second.root / "runs" / run_id / "workspace" / "out.txt").read_text() == "x"
            assert not (away.root / "runs" / run_id).exists()
            verified = await door("audit", "verify")
            assert verified.code == 0, verified.out
            # Who serves it has never had its files.
            files = (await server.client.get(f"/runs/{run_id}/files")).json()
            assert "out.txt" in {each["path"] for each in files["files"]}, files
            removed = await door("gc", "--older-than", "0s")
            assert removed.code == 0, removed.err
            assert not (tmp_path / "objects" / run_id).exists()
