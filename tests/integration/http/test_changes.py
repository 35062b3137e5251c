"""`GET /runs/{id}/diff` and `POST /runs/{id}/undo` on the real server."""

import asyncio
from pathlib import Path

from agent_fabric.testing.scripted_model import Call, Script
from changes_project import Project
from integration.http.served import DONE, served, task

WRITE = Call("write_file", {"path": "made.txt", "content": "made\n"})


async def test_what_a_run_changed_is_shown_and_taken_back_over_http(tmp_path: Path) -> None:
    async with served(tmp_path, Script(turns=(WRITE, DONE))) as server:
        answer = (await server.client.post("/run", json=task())).json()
        run_id = answer["_meta"]["run_id"]
        made = tmp_path / ".fabric" / "runs" / run_id / "workspace" / "made.txt"
        diff = (await server.client.get(f"/runs/{run_id}/diff")).json()
        (change,) = diff["changes"]
        assert (change["path"], change["change"], change["added"]) == ("made.txt", "created", 1)
        assert change["diff"].endswith("+made\n")
        names = (await server.client.get(f"/runs/{run_id}/diff?contents=false")).json()
        assert "diff" not in names["changes"][0]
        dry = (await server.client.post(f"/runs/{run_id}/undo", json={"dry_run": True})).json()
        assert (dry["done"], dry["record"]) == (["made.txt"], None)
        assert made.exists()
        undone = (await server.client.post(f"/runs/{run_id}/undo", json={})).json()
        assert (undone["done"], undone["record"], undone["refused"]) == (["made.txt"], 1, [])
        assert not made.exists()
        await server.client.post(f"/runs/{run_id}/undo", json={"redo": True})
        assert made.read_text() == "made\n"


async def test_what_cannot_be_undone_is_a_problem_or_a_refusal(tmp_path: Path) -> None:
    project = Project(tmp_path)
    async with project.run() as run_id:
        (tmp_path / "made").write_text("x")
    (tmp_path / "made").write_text("mine")
    async with served(tmp_path) as server:
        undone = (await server.client.post(f"/runs/{run_id}/undo", json={})).json()
        assert [one["path"] for one in undone["refused"]] == ["made"]
        assert (await server.client.post("/runs/nobody/undo", json={})).status_code == 404
        assert (await server.client.get("/runs/nobody/diff")).status_code == 404
        unknown = await server.client.post(f"/runs/{run_id}/undo", json={"paths": ["other"]})
        assert (unknown.status_code, unknown.json()["code"]) == (422, "config_invalid")
        assert (await server.client.post(f"/runs/{run_id}/undo", json={"all": True})).status_code == 422
        async with project.run():
            held = await server.client.post(f"/runs/{run_id}/undo", json={"force": True})
            assert (held.status_code, held.json()["code"]) == (409, "folder_held")
        both = [server.client.post(f"/runs/{run_id}/undo", json={"force": True}) for _ in range(2)]
        answers = await asyncio.gather(*both)
        assert {answer.status_code for answer in answers} <= {200, 409}
        assert not (tmp_path / "made").exists()
    project.records.close()
