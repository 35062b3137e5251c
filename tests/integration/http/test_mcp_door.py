"""agent-fabric as a tool server: over HTTP behind the gate, tried with the official client."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from agent_fabric.domain.identity.principals import Kind, Principal, Scope, widen
from agent_fabric.testing.scripted_model import Call, Script
from integration.http.served import DONE, PATIENCE_S, SCRIPT, Served, bearer, served

TOOLS = {"run_task", "cancel_run", "follow_run", "search_runs", "list_approvals", "answer_approval"}
ASKING = Script(named={**SCRIPT.named, "ask": (Call("shell", {"command": "make deploy"}), DONE)}, turns=SCRIPT.turns)


@contextlib.asynccontextmanager
async def connected(server: Served, headers: dict[str, str]) -> AsyncIterator[Client]:
    """Connect the official client."""
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http:
        transport = streamable_http_client(f"http://127.0.0.1:{server.port}/mcp", http_client=http)
        async with Client(transport) as client:
            yield client


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    assert answer.structured_content is not None
    return dict(answer.structured_content)


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    return str(answer.content)


async def test_a_task_is_run_followed_and_found_again(tmp_path: Path) -> None:
    async with served(tmp_path) as server, connected(server, bearer(server.token)) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS
        assert "follow_run" in (client.instructions or "")
        seen: list[str] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            seen.append(message or "")

        answer = await client.call_tool(
            "run_task", {"task": "count the otters", "pack": "engineering"}, progress_callback=on_progress
        )
        done = answer.structured_content
        assert done is not None
        assert (done["status"], done["result"]["summary"]) == ("completed", "all done")
        assert "tool_call: list_files" in seen
        followed = await called(client, "follow_run", run_id=done["run_id"][:12])
        assert followed["status"] == "completed"
        assert followed["events"][0]["kind"] == "run_created"
        assert followed["next"] == followed["events"][-1]["seq"]
        later = await called(client, "follow_run", run_id=done["run_id"], after=followed["next"])
        assert later["events"] == []
        for words in ("otters", ""):
            found = await called(client, "search_runs", words=words)
            assert [run["run_id"] for run in found["runs"]] == [done["run_id"]]


async def test_one_that_takes_long_is_followed_later_and_can_be_ended(tmp_path: Path) -> None:
    async with served(tmp_path) as server, connected(server, bearer(server.token)) as client:
        begun = await called(client, "run_task", task="[[script=hang]]", pack="engineering", wait_s=0.2)
        assert begun["status"] == "running"
        ended = await called(client, "cancel_run", run_id=begun["run_id"], reason="enough")
        assert ended["status"] == "cancelled"


async def test_a_person_answers_through_it_what_a_run_asks(tmp_path: Path) -> None:
    async with served(tmp_path, ASKING) as server:
        owner = Principal("owner", Kind.LOCAL, widen((Scope.ADMIN,)))
        key = await server.fabric.identity.keys.create("mine", scopes=[Scope.RUNS, Scope.APPROVALS], by=owner)
        await answers_through(server, key.secret)


async def answers_through(server: Served, key: str) -> None:
    async with connected(server, {"X-API-Key": key}) as client:
        asked = await called(client, "run_task", task="[[script=ask]]", pack="engineering")
        assert asked["status"] == "waiting"
        (card,) = (await called(client, "list_approvals"))["approvals"]
        assert card["id"] in asked["approvals"]
        other = {"approval_id": card["id"], "decision": "approve", "binding": "0" * 64}
        assert "not the call that was shown" in await refused(client, "answer_approval", **other)
        answered = await called(
            client, "answer_approval", approval_id=card["id"], decision="deny", binding=card["binding"]
        )
        assert answered["status"] == "denied"
        assert "already" in await refused(client, "answer_approval", approval_id=card["id"], decision="approve")
        followed = await called(client, "follow_run", run_id=asked["run_id"])
        assert followed["status"] == "completed"


@pytest.mark.proves("A33-017", "DB-7")
async def test_everybody_may_there_what_they_may_elsewhere(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        owner = Principal("owner", Kind.LOCAL, widen((Scope.ADMIN,)))
        looking = await server.fabric.identity.keys.create("looking", by=owner)
        async with connected(server, {"X-API-Key": looking.secret}) as client:
            assert (await called(client, "search_runs"))["runs"] == []
            assert "needs the scope 'runs'" in await refused(client, "run_task", task="count")
            assert "There is no run" in await refused(client, "follow_run", run_id="nobody")
            said = await refused(client, "search_runs", query="otters")
            assert "search_runs has no argument 'query'. It takes: words, limit" in said
            listed = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
            assert listed["search_runs"]["additionalProperties"] is False
            assert "validation" in (await refused(client, "run_task", task="", wait_s=-1)).lower()


async def test_nobody_gets_in_without_credentials(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        accepted = {"Accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(base_url=server.client.base_url, headers=accepted) as client:
            assert (await client.post("/mcp", json=request)).status_code == 401
            answer = await client.post("/mcp", json=request, headers=bearer(server.token))
            assert answer.status_code in {200, 400}
            bodies: tuple[Any, ...] = ({}, [], {"jsonrpc": "2.0", "id": 1, "method": "nothing"}, "x" * 100_000)
            for body in bodies:
                answer = await client.post("/mcp", json=body, headers=bearer(server.token))
                assert answer.status_code < 500, answer.text


@pytest.mark.parametrize("wrong", [{}, {"a": 1}, [], [1], True, None, 1.5])
async def test_a_call_whose_id_cannot_be_repeated_is_invalid_at_every_door(tmp_path: Path, wrong: Any) -> None:
    async with served(tmp_path) as server:
        for path, method in (("/mcp", "ping"), ("/a2a", "GetTask")):
            call = {"jsonrpc": "2.0", "id": wrong, "method": method, "params": {}}
            accepted = {"Accept": "application/json, text/event-stream"}
            answer = (await server.client.post(path, json=call, headers=accepted)).json()
            assert (answer["id"], answer["error"]["code"]) == (None, -32600), path
        ping = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
        assert '"id":"p"' in (await server.client.post("/mcp", json=ping, headers=accepted)).text
