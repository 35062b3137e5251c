"""Schedules over HTTP: added, fired once by the server, explained, paused, made up for."""

import asyncio
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.client import FabricClient
from agent_fabric.domain.errors import InvalidInputs, NameTaken, ScheduleNotFound
from agent_fabric.domain.identity.principals import Kind, Principal, Scope, widen
from agent_fabric.testing.scripted_model import ScriptedModel
from integration.http.served import PATIENCE_S, SCRIPT, Served, served

BASE = "/api/v1/schedules"
LOCAL = Principal("ada", Kind.LOCAL, widen((Scope.ADMIN,)))


async def until(server: Served, path: str, done: Any) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            shown: dict[str, Any] = (await server.client.get(path)).json()
            if done(shown):
                return shown
            await asyncio.sleep(0.05)


@pytest.mark.proves("A33-006", "A33-100", "FC-040", "FC-041", "FC-043", "FC-067", "C46")
async def test_a_schedule_fires_by_itself_and_says_why(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        asked_at = time.time()
        made = await server.client.post(BASE, json={"name": "soon", "every": 1, "task_instruction": "do it"})
        assert made.status_code == 201, made.text
        shown = made.json()
        assert made.headers["location"] == f"{BASE}/{shown['id']}"
        assert asked_at < shown["next_at"] <= time.time() + 1.5
        assert len(shown["next"]) == 5
        fired = await until(
            server, f"{BASE}/soon/firings", lambda body: any(each["run_id"] for each in body["firings"])
        )
        first = [each for each in fired["firings"] if each["run_id"]][-1]
        assert (first["status"], first["due_at"]) == ("fired", shown["next_at"])
        why = (await server.client.get(f"{BASE}/soon/why", params={"at": str(first["due_at"])})).json()
        assert (why["answer"], why["run_id"]) == ("fired", first["run_id"])
        assert why["late_s"] < 5
        assert socket.gethostname() in why["server"]
        ended = await until(server, f"/runs/{first['run_id']}", lambda body: body["_meta"]["status"] == "completed")
        assert ended["_meta"]["run_id"] == first["run_id"]
        paused = (await server.client.post(f"{BASE}/soon/pause")).json()
        assert (paused["is_active"], paused["next_at"]) == (False, None)
        gone = (await server.client.delete(f"{BASE}/{shown['id']}")).json()
        assert gone["name"] == "soon"
        assert (await server.client.get(f"{BASE}/soon")).json()["code"] == "schedule_not_found"


@pytest.mark.proves("FC-044", "C16", "AU-2")
async def test_a_schedule_speaks_in_a_session_that_stays_and_marks_it_unread(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        wish = {"name": "talk", "cron_expression": "0 3 * * *", "target_kind": "chat", "task_instruction": "Say hello"}
        made = await server.client.post(BASE, json={**wish, "use_persistent_chat": True})
        assert made.status_code == 201, made.text
        runs = [(await server.client.post(f"{BASE}/talk/fire")).json()["run_id"] for _ in range(2)]
        for run_id in runs:
            await until(server, f"/runs/{run_id}", lambda body: body.get("_meta", {}).get("status") == "completed")
        (session,) = (await server.client.get("/api/v1/sessions")).json()["sessions"]
        assert (session["title"], session["has_unread"]) == ("talk", True)
        await server.client.patch(f"{BASE}/talk", json={"use_persistent_chat": False})
        run_id = (await server.client.post(f"{BASE}/talk/fire")).json()["run_id"]
        await until(server, f"/runs/{run_id}", lambda body: body.get("_meta", {}).get("status") == "completed")
        assert len((await server.client.get("/api/v1/sessions")).json()["sessions"]) == 2


@pytest.mark.proves("AU-2", "AU-12")
async def test_a_turn_that_a_schedule_starts_has_no_shell_where_no_box_is(tmp_path: Path) -> None:
    async with served(tmp_path, also={"sandbox": {"level": "C"}}) as server:
        wish = {"name": "talk", "cron_expression": "0 3 * * *", "target_kind": "chat", "agent_id": "engineering"}
        said = {"task_instruction": "do it [[script=long]]", "use_persistent_chat": True}
        assert (await server.client.post(BASE, json={**wish, **said})).status_code == 201
        by_itself = (await server.client.post(f"{BASE}/talk/fire")).json()["run_id"]
        done = await until(server, f"/runs/{by_itself}/events", lambda body: "unattended_shell" in str(body))
        assert done["events"][0]["payload"]["priority"] == "scheduled"
        await until(server, f"/runs/{by_itself}", lambda body: body["_meta"]["status"] != "running")
        (session,) = (await server.client.get("/api/v1/sessions")).json()["sessions"]
        sent = await server.client.post(
            f"/api/v1/sessions/{session['id']}/messages", json={"content": "do it [[script=long]]"}
        )
        by_hand = sent.json()["run_id"]
        watched = await until(server, f"/runs/{by_hand}/events", lambda body: "echo 3" in str(body))
        assert "unattended_shell" not in str(watched)


@pytest.mark.proves("AU-3")
async def test_the_client_manages_schedules(tmp_path: Path) -> None:
    async with served(tmp_path) as server, FabricClient(str(server.client.base_url), token=server.token) as client:
        schedules = client.schedules
        wish = {
            "name": "night",
            "cron_expression": "*/15 2 * * *",
            "timezone": "Europe/Berlin",
            "task_instruction": "x",
        }
        await schedules.add(wish)
        with pytest.raises(NameTaken):
            await schedules.add(wish)
        with pytest.raises(InvalidInputs):
            await schedules.add({"name": "no rule", "task_instruction": "x"})
        assert [each["name"] for each in await schedules.list()] == ["night"]
        planned = await schedules.simulate("night", 1_806_105_600, 1_806_278_400)
        assert [each["local"] for each in planned if each["note"]] == ["2027-03-28T03:00:00+02:00"]
        assert (await schedules.why("night", "2027-03-28T02:30"))["answer"] == "moved"
        changed = await schedules.change("night", {"every": "2h", "overlap": "queue"})
        assert (changed["every"], changed["cron_expression"], changed["overlap"]) == (7200.0, None, "queue")
        run_id = await schedules.fire("night")
        await until(server, f"/runs/{run_id}", lambda body: body["_meta"]["status"] == "completed")
        with pytest.raises(ScheduleNotFound):
            await schedules.show("none")
        preview = await server.client.post(f"{BASE}/preview", json={"cron_expression": "@daily"})
        assert len(preview.json()["planned"]) == 5


@pytest.mark.proves("AU-12")
async def test_a_backfill_fires_what_was_not_fired_one_after_another(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        wish = {"name": "past", "cron_expression": "0 3 * * *", "task_instruction": "do it"}
        await server.client.post(BASE, json=wish)
        now = time.time()
        period = {"from": now - 3 * 86_400, "to": now - 3_600}
        looked = (await server.client.post(f"{BASE}/past/backfill", json={**period, "dry_run": True})).json()
        assert 2 <= len(looked["queued"]) <= 3
        await server.client.post(f"{BASE}/past/backfill", json=period)
        rows = await until(
            server,
            f"{BASE}/past/firings",
            lambda body: (
                len(body["firings"]) == len(looked["queued"])
                and all(each["status"] == "fired" for each in body["firings"])
            ),
        )
        assert [each["reason"] for each in rows["firings"]] == ["backfill"] * len(looked["queued"])
        await server.client.post(f"{BASE}/past/pause")
        earlier = {"from": now - 9 * 86_400, "to": now - 4 * 86_400}
        more = (await server.client.post(f"{BASE}/past/backfill", json=earlier)).json()["queued"]
        back = (await server.client.delete(f"{BASE}/past/backfill")).json()
        assert (back["name"], 0 < back["withdrawn"] <= len(more)) == ("past", True)
        shown = await until(server, f"{BASE}/past", lambda body: not body["queued"])
        assert shown["is_active"] is False
        newest = {"at": str(more[-1])}
        why = (await server.client.get(f"{BASE}/past/why", params=newest)).json()
        assert (why["answer"], why["reason"], bool(why["by"])) == ("skipped", "withdrawn", True)
        again = (await server.client.post(f"{BASE}/past/backfill", json={**period, "dry_run": True})).json()
        assert (again["queued"], len(again["already"])) == ([], len(looked["queued"]))


@pytest.mark.proves("AU-11")
async def test_what_cannot_be_started_becomes_a_dead_letter_that_can_be_replayed(tmp_path: Path) -> None:
    folder = tmp_path / "workflow-definitions"
    folder.mkdir()
    file = folder / "job.yaml"
    text = "name: job\nsteps:\n  - id: a\n    action: transform\n    inputs:\n      value: 1\n"
    file.write_text(text)
    async with served(tmp_path) as server:
        wish = {"name": "soon", "every": 1, "target_kind": "workflow", "target": "job"}
        made = await server.client.post(BASE, json=wish)
        assert made.status_code == 201, made.text
        file.unlink()
        found = await until(server, "/api/v1/dead-letters", lambda body: body["dead_letters"])
        letter = found["dead_letters"][-1]
        await server.client.post(f"{BASE}/soon/pause")
        assert (letter["kind"], letter["source"]) == ("trigger", "soon")
        assert (await server.client.post(f"/api/v1/dead-letters/{letter['id']}/replay")).status_code == 404
        file.write_text(text)
        done = await server.client.post(f"/api/v1/dead-letters/{letter['id']}/replay")
        assert done.json()["status"] == "replayed", done.text
        shown = (await server.client.get(f"/api/v1/dead-letters/{letter['id']}")).json()
        why = (await server.client.get(f"{BASE}/soon/why", params={"at": str(shown["payload"]["due_at"])})).json()
        assert (why["answer"], why["run_id"]) == ("fired", done.json()["outcome"])
        assert (await server.client.delete(f"/api/v1/dead-letters/{letter['id']}")).status_code == 409


@pytest.mark.proves("FC-042", "AU-8")
async def test_a_schedule_uses_the_model_that_it_requires(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        one = {"base_url": model.base_url, "model": "scripted", "backend": "generic"}
        models = {"quality": one, "big": {**one, "model": "bigger"}}
        async with served(tmp_path, also={"models": models}) as server:
            wish = {"name": "soon", "every": 1, "task_instruction": "do it"}
            unknown = await server.client.post(BASE, json={**wish, "required_model": "none"})
            assert unknown.status_code == 422, unknown.text
            await server.client.post(BASE, json={**wish, "required_model": "big"})
            fired = await until(
                server, f"{BASE}/soon/firings", lambda body: any(each["run_id"] for each in body["firings"])
            )
            await server.client.post(f"{BASE}/soon/pause")
            run_id = next(each["run_id"] for each in fired["firings"] if each["run_id"])
            events = (await server.client.get(f"/runs/{run_id}/events")).json()["events"]
            assert events[0]["payload"]["model_key"] == "big"


async def test_thousands_of_schedules_are_listed_in_pages_with_few_queries(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        store = server.fabric.automation.store
        made = await server.fabric.automation.manage.add(
            {"name": "s-0000", "cron_expression": "30 2 * * *", "timezone": "Europe/Berlin", "task_instruction": "x"},
            by=LOCAL,
        )
        for number in range(1, 450):
            await store.schedules.add(replace(made, id=f"id-{number}", name=f"s-{number:04}"), by="ada")
        begun = time.process_time()
        first = (await server.client.get(BASE)).json()
        took = time.process_time() - begun
        assert (len(first["schedules"]), first["next"]) == (200, "s-0199")
        assert took < 2, "a query for each, or a rule that is read again and again"
        rest = (await server.client.get(BASE, params={"after": first["next"], "limit": 1_000})).json()
        assert (len(rest["schedules"]), rest["next"]) == (250, None)
        found = (await server.client.get(BASE, params={"q": "S-03"})).json()
        assert [each["name"] for each in found["schedules"]] == [f"s-{number:04}" for number in range(300, 400)]
        async with FabricClient(str(server.client.base_url), token=server.token) as client:
            assert len(await client.schedules.list()) == 450
