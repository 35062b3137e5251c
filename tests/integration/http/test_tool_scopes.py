"""Which tools the runs of a user or key may use, through the server and the command line."""

from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Call, Script
from integration.http.served import DONE, LOOK, Served, bearer, served, task
from integration.http.test_workflows import define

pytestmark = pytest.mark.proves("A33-017")

WRITE = Call("write_file", {"path": "a.txt", "content": "x"})
SCRIPT = Script(turns=(LOOK, WRITE, DONE), named={"ask": (Call("shell", {"command": "make deploy"}), DONE)})
WRITES = {
    "name": "writes",
    "version": "1.0.0",
    "steps": [{"id": "w", "action": "write-file", "inputs": {"path": "b.txt", "content": "x"}}],
}


async def key(server: Served, name: str, *scopes: str) -> dict[str, str]:
    made = await server.client.post("/api/v1/keys", json={"name": name, "scopes": list(scopes)})
    assert made.status_code == 201, made.text
    assert made.json()["scopes"] == sorted(scopes)
    return bearer(made.json()["key"])


async def refusals(server: Served, run_id: str) -> list[dict[str, Any]]:
    events = (await server.client.get(f"/runs/{run_id}/events?limit=1000")).json()["events"]
    return [each["payload"] for each in events if each["kind"] == "tool_error" and each["payload"]["rule"]]


async def test_a_key_with_a_tool_scope_uses_those_tools_only(tmp_path: Path) -> None:
    async with served(tmp_path, SCRIPT) as server:
        reader = await key(server, "reader", "runs", "tools:read")
        run = (await server.client.post("/run", json=task(), headers=reader)).json()["_meta"]
        (refused,) = await refusals(server, run["run_id"])
        assert (refused["tool"], refused["rule"]) == ("write_file", "scope")
        assert "tools:write_file" in refused["error_message"]
        writer = await key(server, "writer", "runs", "tools:list_files", "tools:write_*")
        run = (await server.client.post("/run", json=task(), headers=writer)).json()["_meta"]
        assert await refusals(server, run["run_id"]) == []
        plain = await key(server, "plain", "runs")
        run = (await server.client.post("/run", json=task(), headers=plain)).json()["_meta"]
        assert await refusals(server, run["run_id"]) == [], "without a tool scope, every tool may be used"


async def test_steps_of_a_workflow_have_no_more_than_the_user(tmp_path: Path) -> None:
    define(tmp_path, WRITES)
    async with served(tmp_path, SCRIPT) as server:
        reader = await key(server, "reader", "workflows", "tools:read")
        answer = await server.client.post("/api/v1/workflows/writes/execute", json={}, headers=reader)
        assert answer.json()["status"] == "failed", answer.text
        (refused,) = await refusals(server, answer.json()["run_id"])
        assert refused["rule"] == "scope"
        writer = await key(server, "writer", "workflows", "tools:write")
        answer = await server.client.post("/api/v1/workflows/writes/execute", json={}, headers=writer)
        assert answer.json()["status"] == "success", answer.text


async def test_arguments_that_a_person_changes_are_judged_for_the_user_of_the_run(tmp_path: Path) -> None:
    rule = {"id": "no-ls", "verdict": "block", "commands": ["ls"], "unless_scopes": ["nodes"]}
    async with served(tmp_path, SCRIPT, also={"policy": {"rules": [rule]}}) as server:
        some = await key(server, "some", "runs")
        run = (await server.client.post("/run", json=task("ask"), headers=some)).json()["_meta"]
        assert run["status"] == "waiting", run
        (card,) = (await server.client.get("/approvals")).json()["approvals"]
        answer = await server.client.post(
            f"/approvals/{card['id']}", json={"decision": "approve", "args": {"command": "ls"}}
        )
        assert answer.status_code in {409, 422}, answer.text
        assert "no-ls" in answer.text


async def test_a_user_is_narrowed_on_the_command_line_and_a_token_is_never_wider(tmp_path: Path) -> None:
    async with served(tmp_path, SCRIPT) as server:
        added = await server.command(
            *("users", "add", "ada", "--role", "member", "--scope", "tools:read", "--no-password", "--json")
        )
        assert "tools:read" in added.json["scopes"], added.err
        for wrong, said in (("tools:read", "Add runs, workflows"), ("tool:read", "there is no scope 'tool:read'")):
            refused = await server.command("keys", "create", "odd", "--scope", wrong)
            assert refused.code != 0
            assert said in " ".join(refused.err.split())
        tokens = "/api/v1/users/ada/tokens"
        issued = (await server.client.post(tokens, json={"scopes": ["runs"]})).json()
        assert issued["scopes"] == ["runs", "runs:read", "tools:read"]
        wider = await server.client.post(tokens, json={"scopes": ["runs", "tools:shell"]})
        assert wider.status_code == 403
        assert "does not have: tools:shell" in wider.text
        run = (await server.client.post("/run", json=task(), headers=bearer(issued["access_token"]))).json()["_meta"]
        assert [each["rule"] for each in await refusals(server, run["run_id"])] == ["scope"]


async def test_the_policy_can_be_asked_as_a_user(tmp_path: Path) -> None:
    async with served(tmp_path, SCRIPT) as server:
        body = {"command": "ls", "scopes": ["runs", "tools:read_file"]}
        answer = (await server.client.post("/api/v1/policy/check", json=body)).json()
        assert (answer["verdict"], answer["rule"]) == ("block", "scope")
        assert (await server.client.post("/api/v1/policy/check", json={"command": "ls"})).json()["verdict"] == "allow"
