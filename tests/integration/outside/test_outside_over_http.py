"""A push that a person agrees to over HTTP."""

import subprocess
from pathlib import Path

import pytest

from agent_fabric.testing.scripted_model import Call, Script
from integration.http.served import DONE, served, task
from services import need_program

pytestmark = pytest.mark.proves("DU-1")

COMMIT = "git init -q -b main && git -c user.name=A -c user.email=a@b.c commit -q --allow-empty -m first"


def bare_repository(at: Path) -> Path:
    subprocess.run([need_program("git", "git"), "init", "-q", "--bare", "-b", "main", str(at)], check=True)
    return at


def branches(at: Path) -> str:
    return subprocess.run(["git", "for-each-ref"], cwd=at, check=True, capture_output=True, text=True).stdout


async def test_an_approved_push_of_a_servers_run_arrives(tmp_path: Path) -> None:
    remote = bare_repository(tmp_path / "remote.git")
    push = Call("shell", {"command": f"git push {remote} main"})
    async with served(tmp_path / "server", Script(turns=(Call("shell", {"command": COMMIT}), push, DONE))) as server:
        answer = await server.client.post("/run", json=task())
        assert answer.status_code == 202, answer.text
        run_id, (waiting,) = answer.json()["_meta"]["run_id"], answer.json()["_meta"]["approvals"]
        card = (await server.client.get(f"/approvals/{waiting}")).json()
        assert card["outside"]["goes_to"] == str(remote)
        assert card["for_run"] is None
        assert any("first" in line for line in card["outside"]["carries"])
        refused = await server.client.post(f"/approvals/{waiting}", json={"decision": "approve", "scope": "run"})
        assert refused.status_code == 422, "only this call was shown"
        agreed = await server.client.post(f"/approvals/{waiting}", json={"decision": "approve"})
        assert agreed.status_code == 200, agreed.text
        result = await server.settled(run_id)
        assert result["_meta"]["status"] == "completed", result
        audit = await server.command("audit", "list")
        assert "outside the box" in audit.out
    assert "refs/heads/main" in branches(remote)


async def test_a_run_that_may_not_leave_its_box_does_not(tmp_path: Path) -> None:
    remote = bare_repository(tmp_path / "remote.git")
    push = Call("shell", {"command": f"git push {remote} main"})
    async with served(tmp_path / "server", Script(turns=(Call("shell", {"command": COMMIT}), push, DONE))) as server:
        answer = await server.client.post("/run", json={**task(), "outside_allowed": False})
        result = await server.settled(answer.json()["_meta"]["run_id"])
        assert result["_meta"]["approvals"] == []
        assert result["_meta"]["effects"]["failed"], result
    assert not branches(remote)
