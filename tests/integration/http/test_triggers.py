"""Triggers of workflows that a server arms: schedules, files, events and webhooks; and the examples that use them."""

import asyncio
import os
import shutil
import time
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.domain.automation.sensing import Happening, Look
from agent_fabric.infrastructure.automation.sensors import FileChangeSensor
from agent_fabric.infrastructure.packs import plugins
from integration.http.served import PATIENCE_S, Served, served
from integration.http.test_schedules import until
from integration.http.test_webhooks import deliver, signed

EXAMPLES = Path(__file__).parents[3] / "examples/workflows"
SECRET = "a secret of the sender 4711"
ONE = "name: {name}\ntriggers: {{{triggers}}}\ninputs:\n  payload: {{type: object, default: {{}}}}\nsteps:\n"
STEP = "  - {id: a, action: transform, inputs: {x: 1}}\n"


def define(folder: Path, name: str, triggers: str) -> None:
    (folder / "workflow-definitions").mkdir(exist_ok=True)
    text = ONE.format(name=name, triggers=triggers) + STEP
    (folder / "workflow-definitions" / f"{name}.yaml").write_text(text)


async def happened(server: Served, sensor: str, count: int = 1) -> list[dict[str, Any]]:
    path = f"/api/v1/sensors/{sensor}/why"
    shown = await until(server, path, lambda body: len(body.get("happenings", ())) >= count)
    found: list[dict[str, Any]] = shown["happenings"]
    return found


@pytest.mark.proves("A33-042", "A33-100", "AU-4")
async def test_the_schedule_of_a_file_is_armed_changed_and_disarmed_with_it(tmp_path: Path) -> None:
    define(tmp_path, "nightly", 'schedule: "0 3 * * *"')
    async with served(tmp_path) as server:
        arm = server.fabric.automation.arm
        await arm.arm()
        first = (await server.client.get("/api/v1/schedules/workflow:nightly")).json()
        assert (first["cron_expression"], first["target"]) == ("0 3 * * *", "nightly")
        define(tmp_path, "nightly", 'schedule: "0 4 * * *"')
        await arm.arm()
        second = (await server.client.get("/api/v1/schedules/workflow:nightly")).json()
        assert (second["cron_expression"], second["revision"]) == ("0 4 * * *", 2)
        (tmp_path / "workflow-definitions" / "nightly.yaml").unlink()
        await arm.arm()
        assert (await server.client.get("/api/v1/schedules/workflow:nightly")).status_code == 404


@pytest.mark.proves("A33-101", "AU-9")
async def test_the_example_that_watches_a_folder_counts_what_is_put_there(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "watched-folder", tmp_path, dirs_exist_ok=True)
    (tmp_path / "inbox").mkdir()
    sensor = "workflow:watched-folder:on_change"
    async with served(tmp_path) as server:
        automation = server.fabric.automation
        await automation.arm.arm()
        watched = automation.watch.armed[sensor]
        assert isinstance(watched.sensor, FileChangeSensor)
        watched.sensor.settle_s = 0.0
        await server.client.post(f"/api/v1/sensors/{sensor}/look")
        (tmp_path / "inbox" / "a.txt").write_text("one\ntwo\n")
        (noticed,) = await happened(server, sensor)
        ended = await until(server, f"/runs/{noticed['run_id']}", lambda body: body["_meta"]["status"] != "running")
        assert ended["_meta"]["status"] == "completed", ended
        assert (tmp_path / "inbox-lines.txt").read_text() == "2 lines\n"
        listed = (await server.client.get("/api/v1/sensors")).json()["sensors"]
        assert [(each["name"], each["kind"]) for each in listed] == [(sensor, "file_change")]


async def test_the_nightly_example_is_fired_by_its_schedule(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "nightly-triage", tmp_path, dirs_exist_ok=True)
    async with served(tmp_path) as server:
        await server.fabric.automation.arm.arm()
        fired = await server.client.post("/api/v1/schedules/workflow:nightly-triage/fire")
        run_id = fired.json()["run_id"]
        ended = await until(server, f"/runs/{run_id}", lambda body: body["_meta"]["status"] != "running")
        assert ended["_meta"]["status"] == "completed", ended  # a quiet night: nothing is left to do
        assert ended["result"]["found"] == 0


async def test_an_event_starts_a_workflow_once_and_a_loop_ends(tmp_path: Path) -> None:
    define(tmp_path, "echo", "on_event: workflow.completed")
    define(tmp_path, "first", "manual: true")
    sensor = "workflow:echo:on_event"
    async with served(tmp_path) as server:
        await server.fabric.automation.arm.arm()
        await server.client.post("/api/v1/workflows/first/execute", json={})
        noticed = await happened(server, sensor, 9)
        assert sorted(each["depth"] for each in noticed) == list(range(1, 10))
        assert [each["run_id"] for each in noticed if each["depth"] == 9] == [None]
        assert len({each["run_id"] for each in noticed}) == 9


@pytest.mark.proves("A33-102", "AU-10")
async def test_a_webhook_starts_the_workflow_whose_file_names_it_or_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    define(tmp_path, "taker", "webhook: code")
    hooks = {
        "code": {"scheme": "github", "secret": "env:HOOK_SECRET"},
        "lost": {"scheme": "github", "secret": "env:HOOK_SECRET", "workflow": "gone"},
    }
    async with served(tmp_path, also={"webhooks": hooks}) as server:
        body = b'{"n": 1}'
        taken = await deliver(server, "code", body, signed(body, SECRET))
        assert taken.status_code == 202, taken.text
        ended = await until(
            server, f"/runs/{taken.json()['run_id']}", lambda shown: shown["_meta"]["status"] != "running"
        )
        assert ended["_meta"]["status"] == "completed"
        kept = await deliver(server, "lost", body, signed(body, SECRET))
        assert (kept.status_code, kept.json()["run_id"]) == (202, None)
        (letter,) = (await server.client.get("/api/v1/dead-letters")).json()["dead_letters"]
        assert (letter["kind"], letter["source"]) == ("delivery_in", "webhook lost")
        define(tmp_path, "gone", "manual: true")
        done = await server.client.post(f"/api/v1/dead-letters/{letter['id']}/replay")
        assert done.json()["status"] == "replayed", done.text
        assert done.json()["outcome"] == letter["id"]


async def test_what_changed_while_no_server_was_running_is_found_at_the_next_start(tmp_path: Path) -> None:
    define(tmp_path, "watcher", 'on_change: "data/**"')
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "old").write_text("x")
    sensor = "workflow:watcher:on_change"
    async with served(tmp_path) as server:
        await until(server, f"/api/v1/sensors/{sensor}/why", lambda body: body.get("looked_at"))
    (tmp_path / "data" / "new").write_text("x")
    os.utime(tmp_path / "data" / "new", (1_700_000_000, 1_700_000_000))
    async with asyncio.timeout(PATIENCE_S), served(tmp_path) as server:
        (noticed,) = await happened(server, sensor)
        assert noticed["run_id"]


class Tide:
    """A sensor as a package has it."""

    def __init__(self, options: dict[str, str]) -> None:
        self.harbour = options["harbour"]

    async def look(self, cursor: Any) -> Look:
        payload = {"payload": {"harbour": self.harbour}}
        return Look({"high": True}, () if cursor else (Happening("high", payload),), "high tide")


@pytest.mark.proves("A33-144", "A33-101", "AU-9", "AU-11")
async def test_a_sensor_of_a_package_starts_its_workflow_or_leaves_a_dead_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = EntryPoint("tide", f"{__name__}:Tide", plugins.SENSORS)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [entry] if group == plugins.SENSORS else [])
    sea = {"kind": "tide", "workflow": "gone", "options": {"harbour": "Kiel"}, "every_s": 1}
    async with served(tmp_path, also={"sensors": {"sea": sea}}) as server:
        (noticed,) = await happened(server, "sea")
        assert (noticed["run_id"], "gone" in noticed["reason"]) == (None, True)
        (letter,) = (await server.client.get("/api/v1/dead-letters")).json()["dead_letters"]
        assert (letter["kind"], letter["source"]) == ("trigger", "sea")
        define(tmp_path, "gone", "manual: true")
        done = (await server.client.post(f"/api/v1/dead-letters/{letter['id']}/replay")).json()
        assert (done["status"], done["outcome"]) == ("replayed", letter["id"])
        ended = await until(server, f"/runs/{letter['id']}", lambda body: body["_meta"]["status"] != "running")
        assert ended["_meta"]["status"] == "completed"


@pytest.mark.proves("AU-5")
async def test_runs_that_work_in_the_same_project_wait_for_each_other_and_none_is_left_behind(tmp_path: Path) -> None:
    step = "{id: a, action: run-command, command: [sh, -c, 'echo x >> seen'], timeout: 60}"
    text = f"triggers: {{here: true}}\nsteps:\n  - {step}\n"
    (tmp_path / "workflow-definitions").mkdir()
    for name in ("one", "two", "three"):
        (tmp_path / "workflow-definitions" / f"{name}.yaml").write_text(f"name: {name}\n{text}")
    async with served(tmp_path) as server:
        starter = server.fabric.automation.starts_runs
        assert starter is not None
        starter.retry_s = 0.05
        due = time.time() + 1
        for name in ("one", "two", "three"):  # three lines of a crontab at the same minute
            wish = {"name": name, "every": 3600, "starts_at": due, "target_kind": "workflow", "target": name}
            assert (await server.client.post("/api/v1/schedules", json=wish)).status_code == 201
        for name in ("one", "two", "three"):
            rows = await until(server, f"/api/v1/schedules/{name}/firings", lambda body: body["firings"])
            run_id = rows["firings"][0]["run_id"]
            await until(server, f"/runs/{run_id}", lambda body: body.get("_meta", {}).get("status") == "completed")
        assert (tmp_path / "seen").read_text() == "x\n" * 3
