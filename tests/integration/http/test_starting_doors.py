"""`limits.starts` holds for every door that starts or resumes a run. A new door has to be entered here."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.interfaces.http.a2a.calls import METHODS, Method
from agent_fabric.interfaces.http.gate import canonical
from agent_fabric.interfaces.http.routing import Route
from agent_fabric.testing.scripted_model import Call, Say, Script
from e2e.workflows.test_workflows import FAILS, GREET
from integration.http.served import DONE, Served, bearer, served, task
from integration.http.test_agents import write
from integration.http.test_mcp_door import connected
from integration.http.test_webhooks import configured, deliver, signed
from integration.http.test_workflows import define

ASKS = Script(turns=(Call("shell", {"command": "make deploy"}), DONE))
CHAT = {"model": "engineering", "messages": [{"role": "user", "content": "do it"}]}
STARTING: Mapping[str, Any] = {
    "POST /run": task(),
    "POST /run/stream": task(),
    "POST /runs": task(),
    "POST /runs/{run_id}/resume": {},
    "POST /api/v1/agents/{name}/run": {"name": "Ada"},
    "POST /api/v1/workflows/{name}/execute": {"who": "Ada"},
    "POST /api/v1/workflows/runs/{run_id}/resume": {},
    "POST /api/v1/evals": {"cases": [{"id": "a", "prompt": "do it", "check": "true"}], "models": ["quality"]},
    "POST /v1/chat/completions": CHAT,
    "POST /v1/responses": {"model": "engineering", "input": "do it"},
    "POST /api/v1/documents": {"url": "https://example.com/"},
}
"""Bodies with which each of these doors would start a run."""
ELSEWHERE = {
    "POST /a2a",
    "POST /mcp",
    "POST /api/v1/webhooks/{name}",
    "POST /api/v1/schedules/{name}/fire",
    "POST /api/v1/schedules/{name}/backfill",
    "POST /api/v1/sessions/{session_id}/messages",
}
"""Doors that start runs, each with a test of its own below."""
OTHERS = {
    "DELETE /api/v1/documents/{document_id}",
    "DELETE /api/v1/memory/facts/{fact_id}",
    "PATCH /api/v1/memory/facts/{fact_id}",
    "POST /api/v1/memory/facts",
    "POST /api/v1/memory/facts/import",
    "POST /api/v1/memory/facts/{fact_id}/review",
    "POST /api/v1/fleet/plans",
    "POST /api/v1/fleet/plans/{plan_id}/abort",
    "POST /api/v1/fleet/plans/{plan_id}/apply",
    "POST /api/v1/fleet/plans/{plan_id}/halt",
    "POST /api/v1/fleet/plans/{plan_id}/resume",
    "POST /api/v1/fleet/plans/{plan_id}/signatures",
    "DELETE /api/v1/nodes/{node}",
    "PATCH /api/v1/nodes/{node}",
    "DELETE /api/v1/nodes/{node}/commands/{execution_id}",
    "POST /api/v1/nodes/{node}/commands",
    "POST /api/v1/nodes/{node}/commands/{execution_id}/file",
    "POST /api/v1/nodes/{node}/commands/{execution_id}/signatures",
    "POST /api/v1/nodes/{node}/commands/{execution_id}/terminal",
    "POST /api/v1/nodes/{node}/execute",
    "POST /api/v1/nodes/{node}/policy/check",
    "POST /api/v1/nodes/execute",
    "PUT /api/v1/nodes/{node}/policy",
    "POST /api/v1/nodes/{node}/resolve",
    "POST /api/v1/nodes/{node}/rotate",
    "POST /api/v1/nodes/invites",
    "POST /api/v1/nodes/join",
    "POST /api/v1/evals/{name}/cancel",
    "POST /api/v1/evals/{name}/resume",
    "DELETE /api/v1/dead-letters/{letter_id}",
    "DELETE /api/v1/keys/{key_id}",
    "DELETE /api/v1/schedules/{name}",
    "DELETE /api/v1/schedules/{name}/backfill",
    "DELETE /api/v1/secrets/{name}",
    "DELETE /api/v1/sessions/{session_id}",
    "DELETE /api/v1/sessions/{session_id}/messages/{message_id}",
    "DELETE /api/v1/users/{name}",
    "DELETE /mcp",
    "PATCH /api/v1/schedules/{name}",
    "PATCH /api/v1/sessions/{session_id}",
    "PATCH /api/v1/sessions/{session_id}/messages/{message_id}",
    "PATCH /api/v1/settings",
    "PATCH /api/v1/users/{name}",
    "POST /api/v1/agents/validate",
    "POST /api/v1/db/backup",
    "POST /api/v1/dead-letters/{letter_id}/replay",
    "POST /api/v1/gc",
    "POST /api/v1/keys",
    "POST /api/v1/login",
    "POST /api/v1/login/end",
    "POST /api/v1/login/renew",
    "POST /api/v1/me/logout",
    "POST /api/v1/policy/check",
    "POST /api/v1/policy/simulate",
    "POST /api/v1/schedules",
    "POST /api/v1/schedules/import",
    "POST /api/v1/schedules/preview",
    "POST /api/v1/schedules/{name}/pause",
    "POST /api/v1/schedules/{name}/resume",
    "POST /api/v1/secrets/rotate",
    "POST /api/v1/sensors/{name}/look",
    "POST /api/v1/sessions",
    "POST /api/v1/sessions/{session_id}/fork",
    "POST /api/v1/sessions/{session_id}/messages/{message_id}/undo",
    "POST /api/v1/sessions/{session_id}/read",
    "POST /api/v1/sessions/{session_id}/stop",
    "POST /api/v1/tool-servers/inspect",
    "POST /api/v1/channels/deliveries/resend",
    "POST /api/v1/channels/notify",
    "POST /api/v1/channels/pair",
    "POST /api/v1/channels/test",
    "POST /api/v1/channels/unpair",
    "POST /api/v1/channels/slack",
    "POST /api/v1/channels/telegram",
    "POST /api/v1/channels/whatsapp",
    "DELETE /api/v1/subscriptions/{name}",
    "POST /api/v1/subscriptions",
    "POST /api/v1/subscriptions/{name}/rotate",
    "POST /api/v1/subscriptions/{name}/test",
    "POST /api/v1/users",
    "POST /api/v1/users/{name}/password",
    "POST /api/v1/users/{name}/tokens",
    "POST /api/v1/web/codes",
    "POST /api/v1/web/logout",
    "POST /api/v1/web/session",
    "POST /api/v1/workflows/runs/{run_id}/cancel",
    "POST /api/v1/workflows/runs/{run_id}/signal",
    "POST /api/v1/workflows/validate",
    "POST /approvals/{approval_id}",
    "POST /models/probe",
    "POST /models/pull",
    "POST /models/server/restart",
    "POST /runs/{run_id}/cancel",
    "POST /runs/{run_id}/undo",
    "POST /v1/responses/{response_id}/cancel",
    "PUT /api/v1/me/password",
    "PUT /api/v1/secrets/{name}",
    "PUT /models/server",
}
"""Doors that start no run. An answer lets a run continue that was started before; an evaluation was counted then.
What an admin replays was counted when it was due."""
SENDING = {Method.SEND, Method.STREAM}
"""Methods of A2A that start runs."""
LIMITED = {"limits": {"local": True, "starts": "2/hour"}}


async def doors(server: Served) -> set[str]:
    """Return every way in that changes something: those of the description, and those that are not described."""
    paths = (await server.client.get("/openapi.json")).json()["paths"]
    found = {(method.upper(), path) for path, item in paths.items() for method in item}
    for route in server.routes:
        if isinstance(route, Route):
            found |= {(method, re.sub(":[a-z]+}", "}", route.path)) for method in route.methods}
    return {f"{method} {canonical(path)}" for method, path in found if method in {"POST", "PUT", "PATCH", "DELETE"}}


async def use_up(server: Served) -> tuple[str, str]:
    """Start as many runs as may be; return one that waits and a workflow that has failed."""
    waiting = (await server.client.post("/run", json=task())).json()["_meta"]
    assert waiting["status"] == "waiting"
    failed = (await server.client.post("/api/v1/workflows/fails/execute", json={})).json()["run_id"]
    return waiting["run_id"], failed


async def runs(server: Served) -> int:
    return len((await server.client.get("/runs?limit=100")).json()["runs"])


async def test_every_door_that_starts_a_run_counts(tmp_path: Path) -> None:
    define(tmp_path, GREET, FAILS)
    write(tmp_path)
    async with served(tmp_path, ASKS, also=LIMITED) as server:
        assert await doors(server) == {*STARTING, *ELSEWHERE, *OTHERS}
        waiting, failed = await use_up(server)
        for door, body in STARTING.items():
            method, path = door.split(" ")
            of_workflow = "workflows/runs" in path
            name = "greeter" if "agents" in path else "greet"
            url = path.replace("{run_id}", failed if of_workflow else waiting).replace("{name}", name)
            refused = await server.client.request(method, url, json=body)
            assert refused.status_code == 429, (door, refused.text)
            assert "limits.starts" in refused.text, door
        assert await runs(server) == 2


@pytest.mark.parametrize("name", sorted(name for name, method in METHODS.items() if method in SENDING))
async def test_every_way_to_send_a_message_over_a2a_counts(tmp_path: Path, name: str) -> None:
    others = {Method.GET, Method.LIST, Method.CANCEL, Method.SUBSCRIBE, Method.PUSH, Method.CARD}
    assert set(Method) == SENDING | others
    define(tmp_path, FAILS)
    async with served(tmp_path, ASKS, also=LIMITED) as server:
        await use_up(server)
        message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "do it"}]}
        call = {"jsonrpc": "2.0", "id": 1, "method": name, "params": {"message": message}}
        answer = await server.client.post("/a2a", json=call, headers={"A2A-Version": "1.0"})
        assert "started too many runs" in answer.text
        assert await runs(server) == 2


async def test_the_tool_that_starts_runs_over_mcp_counts(tmp_path: Path) -> None:
    define(tmp_path, FAILS)
    async with served(tmp_path, ASKS, also=LIMITED) as server, connected(server, bearer(server.token)) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        assert tools - {"run_task"} == {"cancel_run", "follow_run", "search_runs", "list_approvals", "answer_approval"}
        await use_up(server)
        answer = await client.call_tool("run_task", {"task": "do it", "pack": "engineering"})
        assert answer.is_error
        assert "started too many runs" in str(answer.content)
        assert await runs(server) == 2


async def test_deliveries_of_one_webhook_count_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path, also={**configured(tmp_path, monkeypatch), **LIMITED}) as server:
        statuses = []
        for number in range(3):
            body = json.dumps({"ref": str(number)}).encode()
            headers = signed(body, **{"X-GitHub-Event": "push", "X-GitHub-Delivery": str(number)})
            statuses.append((await deliver(server, "code", body, headers)).status_code)
        assert statuses == [202, 202, 429]
        assert await runs(server) == 2


async def test_a_schedule_that_is_fired_by_hand_counts(tmp_path: Path) -> None:
    async with served(tmp_path, also={"limits": {"local": True, "starts": "1/hour"}}) as server:
        wish = {"name": "job", "cron_expression": "0 3 * * *", "task_instruction": "do it"}
        assert (await server.client.post("/api/v1/schedules", json=wish)).status_code == 201
        assert (await server.client.post("/api/v1/schedules/job/fire")).status_code == 202
        assert (await server.client.post("/api/v1/schedules/job/fire")).status_code == 429
        period = {"from": 1_700_000_000, "to": 1_700_000_001}
        assert (await server.client.post("/api/v1/schedules/job/backfill", json=period)).status_code == 429


async def test_a_message_in_a_session_counts(tmp_path: Path) -> None:
    async with served(
        tmp_path, Script(turns=(Say("Hello."),)), also={"limits": {"local": True, "starts": "1/hour"}}
    ) as server:
        session = (await server.client.post("/api/v1/sessions", json={})).json()["id"]
        said = f"/api/v1/sessions/{session}/messages"
        assert (await server.client.post(said, json={"content": "Hello"})).status_code == 202
        assert (await server.client.post(said, json={"content": "Hello again"})).status_code == 429
