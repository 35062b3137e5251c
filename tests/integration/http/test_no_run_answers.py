"""No run ever answers a question: every door that answers, with every credential that a run can get hold of."""

import ast
import json
import sys
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from mcp_types import RequestParamsMeta

import agent_fabric
from agent_fabric.bootstrap.records import owner_here
from agent_fabric.client import FabricClient
from agent_fabric.client.approvals import Approvals
from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.domain.errors import Forbidden
from agent_fabric.domain.identity.principals import RUN_HEADER, RUN_META, Scope
from agent_fabric.interfaces.cli.approvals import approvals as approval_commands
from agent_fabric.interfaces.http.a2a.calls import Method
from agent_fabric.interfaces.http.routing import Route
from agent_fabric.testing.scripted_model import Call, Script
from e2e.inside_a_run import DISGUISES, FABRIC, inside_a_run
from integration.http.served import DONE, SCRIPT, Served, bearer, served
from integration.http.test_mcp_door import connected

PUSH = Call("shell", {"command": "make deploy"})
ASKING = Script(named={**SCRIPT.named, "ask": (PUSH, DONE)}, turns=SCRIPT.turns)
RUN = "d36e290e-7d5f-461f-ac8b-f676532571ff"

ANSWERING_MODULES = {
    "interfaces/cli/chat/chat_places.py",
    "interfaces/cli/runs/foreground.py",
    "interfaces/cli/place_local.py",
    "interfaces/cli/place_remote.py",
    "interfaces/http/a2a/messages.py",
    "interfaces/http/approvals/approvals.py",
    "interfaces/mcp/tools.py",
}
"""Where answers reach the use case or the client. A new one needs a door, and so a line, in the tests below."""
ANSWERING_ROUTES = {("POST", "/approvals/{approval_id}")}
OTHER_ROUTES = {"/a2a", "/mcp"}
"""Routes that carry many calls, of which some answer."""
MCP_TOOLS = {
    "run_task": False,
    "cancel_run": False,
    "follow_run": False,
    "search_runs": False,
    "list_approvals": False,
    "answer_approval": True,
}
A2A_METHODS = {
    Method.SEND: True,
    Method.STREAM: True,
    Method.GET: False,
    Method.LIST: False,
    Method.CANCEL: False,
    Method.SUBSCRIBE: False,
    Method.PUSH: False,
    Method.CARD: False,
}
COMMANDS = {"list": False, "show": False, "approve": True, "deny": True, "done": True}
CLIENT = {"list": False, "show": False, "answer": True}


def test_every_module_that_can_answer_is_known() -> None:
    package = Path(agent_fabric.__file__).parent
    found = set()
    for file in (package / "interfaces").rglob("*.py"):
        text = file.read_text()
        named = {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
        called = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        if "decide_approval" in named | called or "approvals.answer(" in text:
            found.add(str(file.relative_to(package)))
    assert found == ANSWERING_MODULES


def test_every_command_and_method_about_approvals_is_known() -> None:
    commands = {
        each.name or getattr(each.callback, "__name__", "") for each in approval_commands.app.registered_commands
    }
    assert commands == set(COMMANDS)
    assert {name for name in vars(Approvals) if not name.startswith("_")} == set(CLIENT)
    assert set(A2A_METHODS) == set(Method)


async def test_every_route_that_answers_is_known(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        routes = [route for route in server.routes if isinstance(route, Route)]
        answering = {
            (method, route.path) for route in routes if route.access is Scope.APPROVALS for method in route.methods
        }
        assert answering == ANSWERING_ROUTES
        posts = {
            route.path
            for route in routes
            if "POST" in route.methods and route.access is Scope.RUNS_READ and not route.summary
        }
        assert posts == OTHER_ROUTES
        async with connected(server, bearer(server.token)) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == set(MCP_TOOLS)


async def credentials(server: Served) -> dict[str, dict[str, str]]:
    """Return every kind of credential that opens answering, as a run could read it from a file or a variable."""
    identity, by = server.fabric.identity, owner_here()
    key = await identity.keys.create("answers", scopes=[Scope.APPROVALS], by=by)
    everything = await identity.keys.create("everything", scopes=[Scope.ADMIN], by=by)
    assert (await server.client.post("/api/v1/users", json={"name": "ada", "role": "admin"})).status_code == 201
    token = await identity.issue("ada", by=by)
    return {
        "the token of the folder": bearer(server.token),
        "a key that may answer": {"X-API-Key": key.secret},
        "a key that may do everything": {"X-API-Key": everything.secret},
        "the login of an admin": bearer(token.token),
    }


async def asked(server: Served) -> tuple[str, str]:
    """Let a run ask; return its id and that of the question."""
    answer = await server.client.post("/run", json={"prompt": "[[script=ask]]", "pack": "engineering"})
    assert answer.status_code == 202, answer.text
    (question,) = answer.json()["_meta"]["approvals"]
    return answer.json()["_meta"]["run_id"], question


async def still_open(server: Served, question: str) -> bool:
    return str((await server.client.get(f"/approvals/{question}")).json()["status"]) == "pending"


def a2a(method: str, run_id: str) -> dict[str, Any]:
    message = {"role": "ROLE_USER", "messageId": "1", "taskId": run_id, "parts": [{"text": "approve"}]}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}


@pytest.mark.proves("WA-5")
async def test_a_request_on_behalf_of_a_run_answers_nothing_at_any_door(tmp_path: Path) -> None:
    async with served(tmp_path, ASKING) as server:
        run_id, question = await asked(server)
        for name, headers in (await credentials(server)).items():
            acting = httpx2.AsyncClient(base_url=server.client.base_url, headers={**headers, RUN_HEADER: RUN})
            for decision in ("approve", "deny", "done"):
                answer = await acting.post(f"/approvals/{question}", json={"decision": decision})
                assert answer.status_code == 403, (name, answer.text)
            for method in ("SendMessage", "SendStreamingMessage"):
                answer = await acting.post("/a2a", json=a2a(method, run_id))
                assert "error" in answer.json(), (name, method, answer.text)
            token, key = headers.get("Authorization", "").removeprefix("Bearer "), headers.get("X-API-Key")
            async with FabricClient(f"http://127.0.0.1:{server.port}", token=token, key=key, run=RUN) as client:
                with pytest.raises(Forbidden):
                    await client.approvals.answer(question, Decision.APPROVE)
            answer = await acting.post("/api/v1/keys", json={"name": "mine"})
            assert answer.status_code == 403, (name, "a run makes no key, either")
            await acting.aclose()
            assert await still_open(server, question), name


@pytest.mark.proves("WA-5")
async def test_over_mcp_the_run_that_calls_is_announced_and_the_token_of_the_folder_answers_nothing(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, ASKING) as server:
        _, question = await asked(server)
        wish = {"approval_id": question, "decision": "approve"}
        for name, headers in (await credentials(server)).items():
            async with connected(server, headers) as client:
                refused = await client.call_tool(
                    "answer_approval", wish, meta=cast("RequestParamsMeta", {RUN_META: RUN})
                )
                assert refused.is_error, name
                assert await still_open(server, question), name
        async with connected(server, bearer(server.token)) as client:
            refused = await client.call_tool("answer_approval", wish)
            assert "keys create" in str(refused.content)
        key = await server.fabric.identity.keys.create("mine", scopes=[Scope.APPROVALS], by=owner_here())
        async with connected(server, {"X-API-Key": key.secret}) as client:
            answered = await client.call_tool("answer_approval", {**wish, "decision": "deny"})
            assert not answered.is_error, answered.content


SENDS = """
import http.client, json, os, socket, struct, sys
port, leave, wishes = json.loads(sys.argv[1])
for path, headers, body in wishes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("POST", path, json.dumps(body), headers)
    if leave == "at once":
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if leave:
        os._exit(0)
    answer = connection.getresponse()
    print(answer.status, " ".join(answer.read().decode().split()))
print("DONE")
"""
"""What a command of a run would do with credentials that it has read."""


@pytest.mark.proves("WA-5")
@pytest.mark.parametrize("disguise", DISGUISES.values(), ids=DISGUISES)
async def test_a_process_of_a_run_answers_nothing_whatever_it_shows(tmp_path: Path, disguise: str) -> None:
    async with served(tmp_path, ASKING) as server:
        run_id, question = await asked(server)
        call = {"name": "answer_approval", "arguments": {"approval_id": question, "decision": "approve"}}
        doors: tuple[tuple[str, Any], ...] = (
            (f"/approvals/{question}", {"decision": "approve"}),
            ("/a2a", a2a("SendMessage", run_id)),
            ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}),
            ("/api/v1/users", {"name": "mallory", "role": "admin"}),
        )
        head = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        wishes = [
            (path, {**head, **headers}, body)
            for headers in (await credentials(server)).values()
            for path, body in doors
        ]
        wish = json.dumps([server.port, "", wishes])
        outcome = await inside_a_run(tmp_path, sys.executable, "-c", SENDS, wish, disguise=disguise)
        said = outcome.stdout.decode().splitlines()
        assert said[-1:] == ["DONE"], outcome
        assert len(said) == len(wishes) + 1
        for (path, _, _), answer in zip(wishes, said, strict=False):
            assert answer.startswith("403") or '"error"' in answer or '"isError":true' in answer, (path, answer)
        assert await still_open(server, question)


@pytest.mark.proves("WA-5")
async def test_a_process_of_a_run_leaves_nothing_that_works_on_after_it(tmp_path: Path) -> None:
    schedule = {"name": "later", "cron_expression": "0 3 * * *", "task_instruction": "Go on."}
    trial = {"cases": [{"id": "one", "prompt": "do it", "check": "true"}]}
    wishes: tuple[tuple[str, Any], ...] = (
        ("/api/v1/memory/facts", {"text": "The key of the shop is under the mat."}),
        ("/api/v1/memory/facts/import", {"text": "- The key is under the mat.", "accept": True}),
        ("/api/v1/documents", {"source": "notes.md", "text": "The key is under the mat."}),
        ("/api/v1/schedules", schedule),
        ("/api/v1/schedules/import", {"crontab": "0 3 * * * fabric run 'Go on.'"}),
        ("/api/v1/evals", trial),
    )
    async with served(tmp_path) as server:
        head = {"Content-Type": "application/json", **bearer(server.token)}
        wish = json.dumps([server.port, "", [(path, head, body) for path, body in wishes]])
        outcome = await inside_a_run(tmp_path, sys.executable, "-c", SENDS, wish)
        *said, end = outcome.stdout.decode().splitlines()
        assert end == "DONE", outcome
        for (path, _), answer in zip(wishes, said, strict=True):
            assert answer.startswith("403"), (path, answer)
        for path, body in wishes[:-1]:  # an evaluation would be under way at the end
            by_person = await server.client.post(path, json=body)
            assert by_person.status_code != 403, (path, by_person.text, "a person may")


@pytest.mark.proves("WA-5")
@pytest.mark.parametrize("leave", ["after sending", "at once"])
async def test_a_program_that_is_gone_when_its_answer_is_looked_at_has_not_answered(tmp_path: Path, leave: str) -> None:
    async with served(tmp_path, ASKING) as server:
        _, question = await asked(server)
        headers = {"Content-Type": "application/json", **bearer(server.token)}
        wish = json.dumps([server.port, leave, [(f"/approvals/{question}", headers, {"decision": "approve"})]])
        for _ in range(5):
            await inside_a_run(tmp_path, sys.executable, "-c", SENDS, wish)
            assert await still_open(server, question)


@pytest.mark.proves("WA-5")
@pytest.mark.parametrize("disguise", DISGUISES.values(), ids=DISGUISES)
async def test_a_command_of_a_run_answers_nothing(tmp_path: Path, disguise: str) -> None:
    async with served(tmp_path, ASKING) as server:
        _, question = await asked(server)
        url = f"http://127.0.0.1:{server.port}"
        for place in (("--workspace", str(tmp_path / ".fabric")), ("--server", url)):
            outcome = await inside_a_run(
                tmp_path, *FABRIC, "approvals", "approve", question, *place, disguise=disguise.replace("DONE", "hint")
            )
            said = outcome.stdout.decode() + outcome.stderr.decode()
            assert "A run cannot answer" in said, said
            assert await still_open(server, question)
            (tmp_path / "daemon.out").unlink(missing_ok=True)


async def test_a_person_answers_with_the_same_credentials(tmp_path: Path) -> None:
    async with served(tmp_path, ASKING) as server:
        for headers in (await credentials(server)).values():
            _, question = await asked(server)
            async with httpx2.AsyncClient(base_url=server.client.base_url, headers=headers) as client:
                answer = await client.post(f"/approvals/{question}", json={"decision": "deny"})
            assert answer.status_code == 200, answer.text
