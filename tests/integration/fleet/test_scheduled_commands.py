"""Schedules whose target is a machine: a real node runs the command, and the log says why."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from integration.fleet.machines import enrol, until_status
from integration.http.served import PATIENCE_S, Served, served
from integration.http.test_schedules import BASE, until

pytestmark = [pytest.mark.slow, pytest.mark.sqlite]


async def fired(server: Served, name: str) -> str:
    """Wait until a schedule has fired; return its run."""
    shown = await until(server, f"{BASE}/{name}/firings", lambda body: any(each["run_id"] for each in body["firings"]))
    return str(next(each["run_id"] for each in shown["firings"] if each["run_id"]))


async def ended(server: Served, run_id: str, *statuses: str) -> dict[str, Any]:
    found: dict[str, Any] = await until(
        server, f"/runs/{run_id}", lambda body: body.get("_meta", {}).get("status") in statuses
    )
    return found


@pytest.mark.proves("C16", "AU-2")
async def test_a_schedule_runs_its_command_on_a_machine_and_asks_before_it_changes_one(tmp_path: Path) -> None:
    async with served(tmp_path) as hub:
        machine = await enrol(hub.client, tmp_path / "web", "web")
        machine.start()
        try:
            await until_status(hub.client, "web", "online")
            wish = {"target_kind": "node_command", "target": "web", "every": 1}
            made = await hub.client.post(BASE, json={**wish, "name": "reads", "task_instruction": "uname -s"})
            assert made.status_code == 201, made.text
            run_id = await fired(hub, "reads")
            await hub.client.post(f"{BASE}/reads/pause")
            done = await ended(hub, run_id, "completed", "failed")
            assert done["_meta"]["status"] == "completed", done
            assert done["result"]["stdout"] == "Linux\n"
            rows = (await hub.client.get(f"{BASE}/reads/firings")).json()["firings"]
            at = next(each["due_at"] for each in rows if each["run_id"] == run_id)
            why = (await hub.client.get(f"{BASE}/reads/why", params={"at": str(at)})).json()
            assert (why["answer"], why["run_id"]) == ("fired", run_id)
            commands = (await hub.client.get("/api/v1/nodes/web/commands")).json()["commands"]
            assert {each["status"] for each in commands} == {"success"}

            trace = tmp_path / "trace"
            command = {"name": "changes", "task_instruction": f"echo once >> {trace}"}
            await hub.client.post(BASE, json={**wish, **command, "every": 3600})
            run_id = (await hub.client.post(f"{BASE}/changes/fire")).json()["run_id"]
            await ended(hub, run_id, "waiting")
            assert not trace.exists()
            (card,) = (await hub.client.get("/approvals")).json()["approvals"]
            await hub.client.post(f"/approvals/{card['id']}", json={"decision": "approve"})
            assert (await ended(hub, run_id, "completed", "failed"))["_meta"]["status"] == "completed"
            assert trace.read_text() == "once\n"

            wrong = {"name": "wrong", "task_instruction": "cat /no/such/file", "every": 3600}
            await hub.client.post(BASE, json={**wish, **wrong})
            run_id = (await hub.client.post(f"{BASE}/wrong/fire")).json()["run_id"]
            failed = await ended(hub, run_id, "completed", "failed")
            assert (failed["_meta"]["status"], "No such file" in str(failed)) == ("failed", True)

            machine.kill()
            await until_status(hub.client, "web", "offline")
            run_id = (await hub.client.post(f"{BASE}/reads/fire")).json()["run_id"]
            failed = await ended(hub, run_id, "completed", "failed")
            assert failed["_meta"]["status"] == "failed", failed
        finally:
            machine.kill()


@pytest.mark.proves("C16")
async def test_a_machine_that_does_not_exist_is_found_when_the_schedule_is_made(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S), served(tmp_path) as hub:
        wish = {"name": "typo", "every": 60, "target_kind": "node_command", "target": "wbe", "task_instruction": "id"}
        refused = await hub.client.post(BASE, json=wish)
        assert (refused.status_code, refused.json()["code"]) == (404, "node_not_found"), refused.text
