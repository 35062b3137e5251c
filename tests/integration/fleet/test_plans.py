"""A plan: frozen, approved as a whole, halted by the first failure, and resumed by a person."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from integration.fleet.machines import ASKING, Machine, enrol, until_status
from integration.http.served import Served, served

pytestmark = pytest.mark.slow


async def until(hub: Served, plan_id: str, *statuses: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            found: dict[str, Any] = (await hub.client.get(f"/api/v1/fleet/plans/{plan_id}")).json()
            if found["status"] in statuses:
                return found
            await asyncio.sleep(0.05)


@pytest.mark.proves("FL-23", "FL-24")
async def test_a_plan_goes_in_waves_and_the_first_failure_halts_it(tmp_path: Path) -> None:
    async with served(tmp_path) as hub:
        machines: list[Machine] = []
        try:
            for number in range(3):
                made = await enrol(hub.client, tmp_path / f"m{number}", f"m{number}", ASKING, labels={"role": "web"})
                made.start()
                machines.append(made)
            for made in machines:
                await until_status(hub.client, made.name, "online")
            witness = tmp_path / "witness"
            command = f"test ! -e {tmp_path}/stop && echo x >> {witness}"
            wish = {"selector": "role=web", "arguments": {"command": command}, "canary": 1, "waves": ["50%", "100%"]}
            frozen = (await hub.client.post("/api/v1/fleet/plans", json=wish)).json()
            assert [call["wave"] for call in frozen["calls"]] == [0, 1, 2]
            asked = await hub.client.post(f"/api/v1/fleet/plans/{frozen['id']}/apply")
            assert asked.status_code == 202, asked.text
            assert not witness.exists()
            await hub.client.post(f"/approvals/{asked.json()['approval_id']}", json={"decision": "approve"})
            done = await until(hub, frozen["id"], "completed", "halted")
            assert (done["status"], done["outcomes"]) == ("completed", dict.fromkeys(["m0", "m1", "m2"], "success"))
            assert witness.read_text() == "x\n" * 3
            (tmp_path / "stop").touch()
            second = (await hub.client.post("/api/v1/fleet/plans", json=wish)).json()
            asked = await hub.client.post(f"/api/v1/fleet/plans/{second['id']}/apply")
            await hub.client.post(f"/approvals/{asked.json()['approval_id']}", json={"decision": "approve"})
            halted = await until(hub, second["id"], "completed", "halted")
            assert (halted["status"], halted["outcomes"]) == ("halted", {"m0": "error"})
            assert witness.read_text() == "x\n" * 3
            aborted = await hub.client.post(f"/api/v1/fleet/plans/{second['id']}/abort")
            assert aborted.json()["status"] == "aborted"
            nobody = await hub.client.post("/api/v1/fleet/plans", json={**wish, "selector": "role=db"})
            assert nobody.status_code == 404
        finally:
            for made in machines:
                made.kill()
