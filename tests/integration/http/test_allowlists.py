"""Allowlists of agents and of the configuration, through the server."""

from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Call, Finish, Script
from integration.http.served import Served, served, task
from integration.http.test_agents import write
from integration.http.test_workflows import define

pytestmark = pytest.mark.proves("A33-084", "A33-085", "A33-081")

READER = """\
name: reader
capabilities: [file-read, file-write, code-execution, web-fetch]
outputs: {summary: string}
prompts: {system: You read.}
constraints:
  path_allowlist: ["docs/**"]
  command_allowlist: [cat, git]
  domain_allowlist: [example.org]
"""
DONE = Finish(summary="done", artifacts=[], next_steps=[], notes="")
CALLS = (
    Call("write_file", {"path": "docs/a.md", "content": "hello"}),
    Call("read_file", {"path": "docs/a.md"}),
    Call("read_file", {"path": "notes.md"}),
    Call("list_files", {}),
    Call("shell", {"command": "cat docs/a.md"}),
    Call("shell", {"command": "cat notes.md"}),
    Call("shell", {"command": "wc docs/a.md"}),
    Call("fetch_url", {"url": "https://other.example/"}),
)
SCRIPT = Script(turns=(*CALLS, DONE), named={"floor": (Call("read_file", {"path": "secrets/x"}), DONE)})
FETCHES = {
    "name": "fetches",
    "version": "1.0.0",
    "steps": [{"id": "get", "action": "http-request", "inputs": {"url": "https://other.example/x"}}],
}


async def refusals(server: Served, run_id: str) -> list[tuple[str, str]]:
    events = (await server.client.get(f"/runs/{run_id}/events?limit=1000")).json()["events"]
    violated = [each["call_id"] for each in events if each["kind"] == "security_event"]
    erred: list[dict[str, Any]] = [each for each in events if each["kind"] == "tool_error"]
    assert [each["call_id"] for each in erred] == violated, "every refusal is recorded as a violation"
    return [(each["payload"]["tool"], each["payload"]["rule"]) for each in erred]


async def test_an_agent_keeps_to_the_allowlists_of_its_file(tmp_path: Path) -> None:
    write(tmp_path, READER, "reader.yaml")
    async with served(tmp_path, SCRIPT) as server:
        shown = (await server.client.get("/api/v1/agents/reader")).json()
        assert shown["constraints"]["path_allowlist"] == ["docs/**"]
        answer = (await server.client.post("/api/v1/agents/reader/run", json={})).json()
        assert await refusals(server, answer["_meta"]["run_id"]) == [
            ("read_file", "allowlist:paths"),
            ("list_files", "allowlist:paths"),
            ("shell", "allowlist:paths"),
            ("shell", "allowlist:commands"),
            ("fetch_url", "allowlist:domains"),
        ]


async def test_an_agent_file_with_a_wrong_allowlist_is_explained(tmp_path: Path) -> None:
    write(tmp_path, READER.replace("[example.org]", "[https://example.org/]"), "reader.yaml")
    async with served(tmp_path, SCRIPT) as server:
        shown = (await server.client.get("/api/v1/agents/reader")).json()
        assert "must be a host such as example.org" in shown["problems"][0]["message"]


async def test_the_floor_of_the_configuration_holds_for_packs_agents_and_steps(tmp_path: Path) -> None:
    write(tmp_path, READER.replace('["docs/**"]', '["**"]'), "reader.yaml")
    define(tmp_path, FETCHES)
    floor = {"paths": ["docs/**"], "domains": ["example.org"]}
    also = {"policy": {"allowlist": floor, "agent_allowlists": {"engineering": {"commands": ["git"]}}}}
    async with served(tmp_path, SCRIPT, also=also) as server:
        run = (await server.client.post("/run", json=task("floor"))).json()["_meta"]
        assert await refusals(server, run["run_id"]) == [("read_file", "allowlist:paths")]
        agent = (await server.client.post("/api/v1/agents/reader/run", json={})).json()["_meta"]
        refused = await refusals(server, agent["run_id"])
        assert refused[0] == ("read_file", "allowlist:paths"), "an agent cannot widen the floor"
        step = (await server.client.post("/api/v1/workflows/fetches/execute", json={})).json()
        assert await refusals(server, step["run_id"]) == [("http_request", "allowlist:domains")]
        checked = await server.client.post("/api/v1/policy/check", json={"command": "make", "agent": "engineering"})
        assert checked.json()["rule"] == "allowlist:commands"
        in_force = (await server.client.get("/api/v1/policy")).json()
        assert in_force["allowlist"] == {"commands": [], **floor}
