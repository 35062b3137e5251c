"""An operator moves her crontab over, through HTTP and the command line, and asks why about each line."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.automation.explain_schedule import MAX_SHOWN
from agent_fabric.client import FabricClient
from integration.http.served import served
from unit.domain.automation.test_crontab import OPERATOR

BASE = "/api/v1/schedules"


@pytest.mark.proves("AU-3", "A33-006", "C21")
async def test_a_crontab_is_moved_over_and_every_line_can_be_asked_about(tmp_path: Path) -> None:
    (tmp_path / "workflow-definitions").mkdir()
    text = "name: triage\ninputs: {since: {type: string}, depth: {type: string}}\nsteps:\n"
    file = tmp_path / "workflow-definitions" / "triage.yaml"
    file.write_text(f"{text}  - {{id: a, action: transform, inputs: {{x: 1}}}}\n")
    async with served(tmp_path) as server, FabricClient(str(server.client.base_url), token=server.token) as client:
        wish: dict[str, Any] = {"crontab": OPERATOR, "timezone": "Europe/Berlin"}
        shown = await client.schedules.import_crontab({**wish, "dry_run": True})
        assert (await client.schedules.list(), sorted(tmp_path.glob("workflow-definitions/crontab-*"))) == ([], [])
        done = await client.schedules.import_crontab(wish)
        assert [each["name"] for each in done["imported"]] == [each["name"] for each in shown["imported"]]
        assert [each["line"] for each in done["refused"]] == [11, 14, 20, 24, 25, 26, 27, 28, 29]
        by_name = {each["name"]: each for each in await client.schedules.list()}
        assert len(by_name) == len(done["imported"]) == 14
        assert by_name["docker"]["timezone"] == "America/New_York"
        assert by_name["backup"]["target"] == "crontab-backup"
        assert by_name["beat"]["every"] == 300.0
        for name in by_name:
            planned = await client.schedules.simulate(name, 1_798_761_600, 1_830_297_600)
            assert 0 < len(planned) <= MAX_SHOWN or name == "echo"
            why = await client.schedules.why(name, "2027-03-28T02:30")
            moved = name in ("poll", "weekly")
            assert why["answer"] == ("moved" if moved else "not_due"), (name, why)
        leap = await client.schedules.simulate("echo", 1_798_761_600, 1_893_456_000)
        assert [each["local"] for each in leap] == ["2028-02-29T00:00:00+01:00"]
        again = await client.schedules.import_crontab(wish)
        assert again["imported"] == []
        names = {each["name"] for each in (await server.client.get("/api/v1/workflows")).json()["workflows"]}
        assert {"crontab-backup", "crontab-mail", "crontab-docker"} <= names


async def test_the_command_of_a_line_runs_as_cron_would_run_it(tmp_path: Path) -> None:
    text = (
        "PATH=/usr/local/bin:/usr/bin:/bin\nHOME=/home/ops\nGREETING=hello\n"  # as nearly every crontab has
        '0 3 * * * cat > out.txt; echo "$GREETING {{ name }} 100\\%" >> out.txt%first%second\n'
        "0 4 * * * sudo systemctl restart nginx\n"
    )
    async with served(tmp_path) as server:
        done = (await server.client.post(f"{BASE}/import", json={"crontab": text})).json()
        job, asking = done["imported"]
        assert (job["note"], bool(asking["note"])) == (None, True)
        fired = (await server.client.post(f"{BASE}/{job['name']}/fire")).json()
        async with asyncio.timeout(30):
            while (await server.client.get(f"/runs/{fired['run_id']}/status")).json()["status"] == "running":
                await asyncio.sleep(0.05)
        assert (tmp_path / "out.txt").read_text() == "first\nsecond\nhello {{ name }} 100%\n"


async def test_only_an_admin_takes_commands_over_and_a_crontab_is_not_endless(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        long = await server.client.post(f"{BASE}/import", json={"crontab": "#" * 200_001})
        assert long.status_code == 422
        many = await server.client.post(f"{BASE}/import", json={"crontab": "* * * * * x\n" * 501})
        assert many.status_code == 422
        wish = {
            "crontab": "0 3 * * * fabric run 'Tidy up.'\n0 4 * * * /bin/true\n0 5 * * * x\nTZ=Mars/Base\n0 1 * * * y"
        }
        made = (await server.client.post("/api/v1/keys", json={"name": "k", "scopes": ["runs"]})).json()
        headers = {"authorization": f"Bearer {made['key']}"}
        done = (await server.client.post(f"{BASE}/import", json=wish, headers=headers)).json()
        assert [each["name"] for each in done["imported"]] == ["tidy-up"]
        assert {each["reason"] for each in done["refused"]} == {"Only an admin can take over commands"}
        assert not list(tmp_path.glob("workflow-definitions/*"))
        mars = (await server.client.post(f"{BASE}/import", json=wish)).json()["refused"]
        assert [(each["line"], "Mars/Base" in each["reason"]) for each in mars] == [(1, False), (5, True)]
        assert not (tmp_path / "workflow-definitions" / "crontab-y.yaml").exists()
