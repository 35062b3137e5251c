"""The official client of A2A drives packs, agents and workflows."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError, AgentCardResolutionError
from a2a.compat.v0_3.jsonrpc_transport import CompatJsonRpcTransport
from a2a.helpers import get_data_parts, new_data_part
from a2a.types import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    A2AError,
    ContentTypeNotSupportedError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from agent_fabric.domain.ids import RunId
from agent_fabric.interfaces.http.views import look_at
from agent_fabric.testing.scripted_model import Call, Finish, Hang, Script, Slow, Status, Turn
from e2e.workflows.test_workflows import ASKS, FAILS, GREET
from integration.http.served import LOOK, PATIENCE_S, Served, bearer, served
from integration.http.test_agents import write as write_agent
from integration.http.test_openai import prompts_of
from integration.http.test_workflows import define
from long_calls import script

DONE = Finish(summary="Grüße, 世界 👋", artifacts=["hello.py"], next_steps=[], notes="")
SCRIPT = Script(
    turns=(LOOK, DONE),
    named={
        "hang": (Hang(times=99),),
        "slow": (LOOK, Slow(DONE, 0.5)),
        "push": (Call("shell", {"command": "make deploy"}), DONE),
        "broken": (Turn(LOOK, (Status(400),)),),
        "agent": (Finish(greeting="Hello!"),),
    },
)
PUSHER = """\
name: pusher
description: Pushes.
capabilities: [code-execution]
inputs:
  what: {type: string, required: true}
prompts: {system: You push., user: "{{ inputs.what }}"}
"""
WORKING, COMPLETED = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED
INPUT_REQUIRED, FAILED = TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_FAILED
CANCELED = TaskState.TASK_STATE_CANCELED


@asynccontextmanager
async def client_of(
    server: Served, *, streaming: bool = False, polling: bool = False, token: str = ""
) -> AsyncIterator[Client]:
    """Give the official client, which finds its way by the card."""
    headers = bearer(token or server.token)
    async with httpx.AsyncClient(headers=headers, timeout=PATIENCE_S) as http:
        card = await A2ACardResolver(http, f"http://127.0.0.1:{server.port}").get_agent_card()
        config = ClientConfig(httpx_client=http, streaming=streaming, polling=polling)
        yield ClientFactory(config).create(card)


def said(text: str, script: str = "", *, skill: str = "pack/engineering", **more: Any) -> SendMessageRequest:
    """Return a request that says something."""
    shown = f"{text} [[script={script}]]" if script else text
    message = Message(message_id="m1", role=Role.ROLE_USER, parts=[Part(text=shown)], **more)
    request = SendMessageRequest(message=message)
    if skill:
        request.metadata.update({"skill": skill})
    return request


def gives(data: Any, **more: Any) -> SendMessageRequest:
    """Return a request that gives data."""
    message = Message(message_id="m2", role=Role.ROLE_USER, parts=[new_data_part(data)], **more)
    return SendMessageRequest(message=message)


async def collected(stream: AsyncIterator[StreamResponse]) -> list[StreamResponse]:
    """Return everything that a stream sends."""
    return [each async for each in stream]


async def task_for(client: Client, request: SendMessageRequest) -> Task:
    """Send a message and return the task that it becomes."""
    (answer,) = await collected(client.send_message(request))
    return answer.task


def words(task: Task) -> str:
    """Return what a task's state says."""
    return "\n".join(part.text for part in task.status.message.parts if part.text)


async def test_the_card_names_the_server_its_locks_and_a_skill_for_each_who_does_tasks(tmp_path: Path) -> None:
    write_agent(tmp_path)
    define(tmp_path, GREET)
    async with served(tmp_path, SCRIPT) as server:
        url = f"http://127.0.0.1:{server.port}"
        async with httpx.AsyncClient(headers=bearer(server.token)) as http:
            card = await A2ACardResolver(http, url).get_agent_card()
            assert (card.name, card.capabilities.streaming) == ("agent-fabric", True)
            assert {(each.url, each.protocol_binding, each.protocol_version) for each in card.supported_interfaces} == {
                (f"{url}/a2a", "JSONRPC", "1.0"),
            }
            skills = {skill.id: skill for skill in card.skills}
            assert {"fabric", "pack/engineering", "agent/greeter", "workflow/greet"} <= skills.keys()
            assert all(skill.name and skill.description and skill.tags for skill in card.skills)
            assert card.security_schemes["key"].api_key_security_scheme.name == "X-API-Key"
            assert card.security_schemes["bearer"].http_auth_security_scheme.scheme.lower() == "bearer"
            proxied = await http.get(f"{url}/.well-known/agent-card.json", headers={"X-Forwarded-Proto": "https"})
            assert proxied.json()["supportedInterfaces"][0]["url"] == f"https://127.0.0.1:{server.port}/a2a"
        async with httpx.AsyncClient() as stranger:
            with pytest.raises(AgentCardResolutionError) as refused:
                await A2ACardResolver(stranger, url).get_agent_card()
            assert refused.value.status_code == 401


async def test_a_message_becomes_a_run_whose_answer_is_an_artifact(tmp_path: Path) -> None:
    define(tmp_path, GREET)
    write_agent(tmp_path)
    async with served(tmp_path, SCRIPT) as server, client_of(server) as client:
        for skill in ("pack/engineering", "engineering", ""):
            task = await task_for(client, said("implement hello.py", skill=skill))
            assert task.status.state == COMPLETED
            (artifact,) = task.artifacts
            assert artifact.parts[0].text.startswith("Grüße, 世界 👋\n\nFiles:\n- hello.py")
            assert get_data_parts(artifact.parts)[0]["summary"] == "Grüße, 世界 👋"
            run = (await server.client.get(f"/runs/{task.id}")).json()
            assert run["_meta"]["specialist_ids"] == ["engineering"]
        greeted = await task_for(client, said("Ada L", skill="workflow/greet"))
        assert greeted.artifacts[0].parts[0].text == "hello Ada L"
        request = gives({"who": "Grace", "times": 1})
        request.message.metadata.update({"skill": "workflow/greet"})
        assert (await task_for(client, request)).artifacts[0].parts[0].text == "hello Grace"
        helped = await task_for(client, said("Ada", "agent", skill="agent/greeter"))
        assert helped.artifacts[0].parts[0].text == "Hello!"
        seen = await client.get_task(GetTaskRequest(id=helped.id))
        assert seen.status.state == COMPLETED
        assert seen.context_id == helped.context_id != helped.id


async def test_a_caller_that_does_not_wait_asks_later(tmp_path: Path) -> None:
    async with served(tmp_path, SCRIPT) as server, client_of(server, polling=True) as client:
        task = await task_for(client, said("do it", "slow"))
        assert task.status.state == WORKING
        assert [part.text for part in task.history[0].parts] == ["do it [[script=slow]]"]
        await server.settled(task.id)
        seen = await client.get_task(GetTaskRequest(id=task.id, history_length=0))
        assert (seen.status.state, seen.context_id, list(seen.history)) == (COMPLETED, task.context_id, [])


async def test_a_stream_brings_the_task_what_it_does_and_what_came_of_it(tmp_path: Path) -> None:
    define(tmp_path, FAILS)
    async with served(tmp_path, SCRIPT) as server, client_of(server, streaming=True) as client:
        events = await collected(client.send_message(said("do it", "slow")))
        assert events[0].task.status.state == WORKING
        told = [part.text for each in events[1:-2] for part in each.status_update.status.message.parts]
        assert "list_files ." in told
        assert events[-2].artifact_update.artifact.parts[0].text.startswith("Grüße, 世界 👋")
        assert events[-1].status_update.status.state == COMPLETED
        failed = await collected(client.send_message(said("go", skill="workflow/fails")))
        last = failed[-1].status_update.status
        assert last.state == FAILED
        assert "second" in last.message.parts[0].text
        assert not server.live.feeds()


async def test_a_task_is_watched_again_and_ended_from_elsewhere(tmp_path: Path) -> None:
    async with served(tmp_path, SCRIPT) as server, client_of(server, streaming=True) as client:
        stream = aiter(client.send_message(said("do it", "hang")))
        task = (await anext(stream)).task
        await server.model.wait_for_requests(1, timeout_s=PATIENCE_S)
        again = aiter(client.subscribe(SubscribeToTaskRequest(id=task.id)))
        assert (await anext(again)).task.id == task.id
        ended = await client.cancel_task(CancelTaskRequest(id=task.id))
        assert (ended.status.state, ended.context_id) == (CANCELED, task.context_id)
        for each in (stream, again):
            rest = await collected(each)
            assert rest[-1].status_update.status.state == CANCELED
        with pytest.raises(TaskNotCancelableError):
            await client.cancel_task(CancelTaskRequest(id=task.id))
        with pytest.raises(UnsupportedOperationError, match="has ended"):
            await collected(client.subscribe(SubscribeToTaskRequest(id=task.id)))
        with pytest.raises(UnsupportedOperationError, match="contextId"):
            await collected(client.send_message(said("and now?", task_id=task.id)))


async def test_messages_of_one_context_are_a_conversation_also_after_a_restart(tmp_path: Path) -> None:
    async with served(tmp_path, SCRIPT) as server, client_of(server) as client:
        first = await task_for(client, said("Who was Ada?"))
        second = await task_for(client, said("Write that down.", skill="", context_id=first.context_id))
        assert second.context_id == first.context_id
        assert second.id != first.id
        assert second.metadata["skill"] == "pack/engineering"
        task, _, quoted = prompts_of(server)[-1].partition("\n\n---")
        assert task == "Write that down."
        assert quoted.split("\n")[1:5] == ["| user:", "|   Who was Ada?", "| assistant:", "|   Grüße, 世界 👋"]
        own = await task_for(client, said("my own name", context_id="mine"))
        assert own.context_id == "mine"
    async with served(tmp_path, SCRIPT) as server, client_of(server) as client:
        third = await task_for(client, said("Go on.", context_id=first.context_id))
        assert third.context_id == first.context_id
        assert "|   Write that down." in prompts_of(server)[-1]
        assert "my own name" not in prompts_of(server)[-1]
        listed = await client.list_tasks(ListTasksRequest(context_id=first.context_id, page_size=2))
        assert [task.id for task in listed.tasks] == [third.id, second.id]
        rest = await client.list_tasks(
            ListTasksRequest(context_id=first.context_id, page_token=listed.next_page_token, include_artifacts=True)
        )
        assert [task.id for task in rest.tasks] == [first.id]
        assert rest.tasks[0].artifacts[0].parts[0].text.startswith("Grüße")
        assert not (await client.list_tasks(ListTasksRequest(status=WORKING))).tasks
        assert len((await client.list_tasks(ListTasksRequest(status=COMPLETED))).tasks) == 4
        run = (await server.client.post("/run", json={"prompt": "by hand", "pack": "engineering"})).json()
        on = await task_for(client, said("and then", context_id=run["_meta"]["run_id"]))
        assert on.context_id == run["_meta"]["run_id"]
        assert "|   by hand" in prompts_of(server)[-1]
        secret = await server.client.post("/run", json={"prompt": "hush", "pack": "engineering", "encrypt": True})
        secret_id = secret.json()["_meta"]["run_id"]
        quoting = await task_for(client, said("and then", context_id=secret_id))
        assert "|   hush" in prompts_of(server)[-1]
        assert (await look_at(server.fabric.runs, RunId(quoting.id))).task.encrypted


async def test_a_task_that_waits_for_a_person_is_answered_by_a_message(tmp_path: Path) -> None:
    define(tmp_path, ASKS)
    async with served(tmp_path, SCRIPT) as server, client_of(server) as client:
        task = await task_for(client, said("push", "push"))
        assert task.status.state == INPUT_REQUIRED
        assert "make deploy" in words(task)
        assert get_data_parts(task.status.message.parts)[0]["approvals"][0]["tool"] == "shell"
        with pytest.raises(InvalidParamsError, match="yes or no"):
            await task_for(client, said("yes, but not to main", task_id=task.id))
        denied = await task_for(client, said("Deny: not today", task_id=task.id))
        assert (denied.id, denied.status.state) == (task.id, COMPLETED)
        (card,) = (await server.client.get(f"/approvals?run_id={task.id}&settled=true")).json()["approvals"]
        assert (card["status"], card["decided_because"]) == ("denied", "not today")

        asks = await task_for(client, said("go", skill="workflow/asks"))
        assert asks.status.state == INPUT_REQUIRED
        with pytest.raises(InvalidParamsError, match="count"):
            await task_for(client, said("approve", task_id=asks.id))
        filled = await task_for(client, gives({"count": 3}, task_id=asks.id))
        assert filled.status.state == COMPLETED
        assert '"next": 4\n' in filled.artifacts[0].parts[0].text
    async with served(tmp_path, SCRIPT) as server, client_of(server, streaming=True) as client:
        events = await collected(client.send_message(said("go", skill="workflow/asks")))
        assert events[-1].status_update.status.state == INPUT_REQUIRED
        (card,) = (await server.client.get("/approvals")).json()["approvals"]
        answer = {"approval": card["id"], "decision": "approve", "args": {"count": 1}}
        events = await collected(client.send_message(gives(answer, task_id=events[0].task.id)))
        assert events[-1].status_update.status.state == COMPLETED


async def test_words_approve_only_what_the_words_showed(tmp_path: Path) -> None:
    turns = (Call("shell", {"command": script(403, "middle")}), DONE)
    async with served(tmp_path, Script(turns=turns)) as server, client_of(server) as client:
        task = await task_for(client, said("push"))
        assert "403 lines, hash" in words(task)
        (card,) = get_data_parts(task.status.message.parts)[0]["approvals"]
        assert card["args"]["command"] == script(403, "middle")
        with pytest.raises(InvalidParamsError, match="did not show all"):
            await task_for(client, said("approve", task_id=task.id))
        answer = {"approval": card["id"], "decision": "approve", "binding": card["binding"]}
        with pytest.raises(InvalidParamsError, match="not the call"):
            await task_for(client, gives({**answer, "binding": "0" * 64}, task_id=task.id))
        assert (await task_for(client, gives(answer, task_id=task.id))).status.state == COMPLETED


async def test_a_question_of_a_run_below_a_workflow_is_answered_through_the_workflow(tmp_path: Path) -> None:
    push = {"id": "a", "action": "invoke-agent", "agent": "pusher", "inputs": {"what": "push [[script=push]]"}}
    define(tmp_path, {"name": "pushes", "version": "1.0.0", "steps": [push]})
    write_agent(tmp_path, PUSHER, "pusher.yaml")
    async with served(tmp_path, SCRIPT) as server, client_of(server) as client:
        task = await task_for(client, said("go", skill="workflow/pushes"))
        assert task.status.state == INPUT_REQUIRED
        assert "make deploy" in words(task)
        answered = await task_for(client, said("deny", task_id=task.id))
        assert (answered.id, answered.status.state) == (task.id, WORKING)
        await server.settled(task.id)
        assert (await client.get_task(GetTaskRequest(id=task.id))).status.state == COMPLETED


async def test_a_run_of_another_process_is_watched_and_goes_on_when_it_was_interrupted(tmp_path: Path) -> None:
    async with served(tmp_path) as server, client_of(server, streaming=True) as client:
        process, run_id = await server.elsewhere("slower")
        assert (await client.get_task(GetTaskRequest(id=run_id))).status.state == WORKING
        with pytest.raises(UnsupportedOperationError, match="takes no messages"):
            await collected(client.send_message(said("hurry", task_id=run_id)))
        events = await collected(client.subscribe(SubscribeToTaskRequest(id=run_id)))
        assert events[-1].status_update.status.state == WORKING  # others drive it: ask again
        process.process.terminate()
        await process.ended()
        task = await client.get_task(GetTaskRequest(id=run_id))
        assert (task.status.state, task.context_id) == (INPUT_REQUIRED, run_id)
        assert "says: resume" in words(task)
        with pytest.raises(UnsupportedOperationError, match="resume"):
            await collected(client.send_message(said("hello?", task_id=run_id)))
        with pytest.raises(InvalidParamsError, match="another conversation"):
            await collected(client.send_message(said("resume", task_id=run_id, context_id="other")))
        events = await collected(client.send_message(said("Resume.", task_id=run_id)))
        assert events[-1].status_update.status.state == COMPLETED


async def test_each_deed_needs_its_scope(tmp_path: Path) -> None:
    define(tmp_path, GREET)
    async with served(tmp_path, SCRIPT) as server, client_of(server) as owner:
        waits = await task_for(owner, said("push", "push"))

        async def key(*scopes: str) -> str:
            made = await server.client.post(
                "/api/v1/keys", json={"name": "-".join(scopes).replace(":", "-"), "scopes": list(scopes)}
            )
            return str(made.json()["key"])

        async with client_of(server, token=await key("runs:read")) as reader:
            assert (await reader.get_task(GetTaskRequest(id=waits.id))).status.state == INPUT_REQUIRED
            for request in (said("do it"), said("go", skill="workflow/greet"), said("yes", task_id=waits.id)):
                with pytest.raises(A2AClientError, match="403"):
                    await task_for(reader, request)
            with pytest.raises(A2AClientError, match="403"):
                await reader.cancel_task(CancelTaskRequest(id=waits.id))
        token = await key("runs")
        async with client_of(server, token=token) as worker:
            mine = await task_for(worker, said("do it", context_id="ours"))
            assert mine.status.state == COMPLETED
            body = rpc("SendMessage", {"message": {"taskId": waits.id, "parts": [{"text": "yes"}]}})
            refused = await server.client.post("/a2a", json=body, headers=bearer(token))
            assert refused.status_code == 403
            assert refused.json()["id"] == 1
            assert "needs the scope 'approvals'" in refused.json()["error"]["message"]
            with pytest.raises(A2AClientError, match="403"):
                await task_for(worker, said("x", skill="workflow/greet"))
        with pytest.raises(InvalidParamsError, match="another user"):
            await task_for(owner, said("and me?", context_id="ours"))
        async with client_of(server, token=await key("runs:read", "approvals")) as approver:
            assert (await task_for(approver, said("approve", task_id=waits.id))).status.state == COMPLETED


async def test_what_cannot_be_done_is_an_error_of_the_protocol(tmp_path: Path) -> None:
    async with served(tmp_path, SCRIPT) as server, client_of(server) as client:
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id="nobody"))
        task = await task_for(client, said("do it"))
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id=task.id[:8]))
        with pytest.raises(InvalidParamsError, match="Did you mean"):
            await task_for(client, said("do it", skill="pack/enginering"))
        with pytest.raises(PushNotificationNotSupportedError):
            await client.create_task_push_notification_config(TaskPushNotificationConfig(task_id="x", url="http://x"))
        pushing = said("do it")
        wish = TaskPushNotificationConfig(url="http://x")
        pushing.configuration.CopyFrom(SendMessageConfiguration(task_push_notification_config=wish))
        with pytest.raises(PushNotificationNotSupportedError):
            await task_for(client, pushing)
        file = said("look at this")
        file.message.parts.append(Part(raw=b"x", media_type="image/png"))
        with pytest.raises(ContentTypeNotSupportedError):
            await task_for(client, file)
        failed = await task_for(client, said("do it", "broken"))
        assert failed.status.state == FAILED
        assert words(failed)
        assert len((await server.client.get("/runs")).json()["runs"]) == 2


def rpc(method: str, params: Any = None, **more: Any) -> dict[str, Any]:
    """Return a call."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {} if params is None else params, **more}


async def test_whatever_is_sent_the_answer_is_json_rpc(tmp_path: Path) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    deep = "[" * 100_000
    tries: list[tuple[Any, int, int]] = [
        (b"{", 200, -32700),
        (b"\xff", 200, -32700),
        (deep.encode(), 200, -32700),
        (b'{"a": "\\ud800"}', 200, -32700),
        ([rpc("GetTask", {"id": "x"})], 200, -32600),
        ([], 200, -32600),
        ("x", 200, -32600),
        ({"id": 1, "method": "GetTask"}, 200, -32600),
        (rpc("GetTask", {"id": "x"}, id={}), 200, -32600),
        (rpc("GetTask", {"id": "x"}, id=10**30), 200, -32600),
        (rpc("GetTask", {"id": "x"}, id=True), 200, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": 3}, 200, -32600),
        (rpc("nothing"), 200, -32601),
        (rpc("x" * 100_000), 200, -32601),
        (rpc("GetTask", []), 200, -32602),
        (rpc("GetTask", {}), 200, -32602),
        (rpc("GetTask", {"id": 3}), 200, -32602),
        (rpc("GetTask", {"id": "x" * 10_000}), 200, -32602),
        (rpc("GetTask", {"id": "%"}), 200, -32001),
        (rpc("SendMessage", {}), 200, -32602),
        (rpc("SendMessage", {"message": {**message, "parts": []}}), 200, -32602),
        (rpc("SendMessage", {"message": {**message, "parts": [{"text": " \n"}]}}), 200, -32602),
        (rpc("SendMessage", {"message": {**message, "parts": [{"text": "x" * 3_000_000}]}}), 200, -32602),
        (rpc("SendMessage", {"message": {**message, "role": "ROLE_AGENT"}}), 200, -32602),
        (rpc("SendMessage", {"message": {**message, "contextId": "x" * 1_000}}), 200, -32602),
        (rpc("SendMessage", {"message": message, "metadata": {"skill": ["x"]}}), 200, -32602),
        (rpc("SendMessage", {"message": message, "metadata": {"skill": "workflow/../x"}}), 200, -32602),
        (rpc("SendStreamingMessage", {"message": message, "metadata": {"pack": "nobody"}}), 200, -32602),
        (rpc("ListTasks", {"status": "sleepy"}), 200, -32602),
        (rpc("ListTasks", {"pageSize": 101}), 200, -32602),
        (rpc("ListTasks", {"pageToken": "x"}), 200, -32602),
        (rpc("ListTasks", {"statusTimestampAfter": "soon"}), 200, -32602),
        (rpc("GetExtendedAgentCard"), 200, -32007),
        (rpc("CreateTaskPushNotificationConfig"), 200, -32003),
        (b'"' + b"x" * 5_000_000 + b'"', 413, -32600),
    ]
    async with served(tmp_path, SCRIPT, max_body_bytes=4_000_000) as server:
        json_type = {"Content-Type": "application/json"}
        for body, status, code in tries:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            answer = await server.client.post("/a2a", content=content, headers=json_type)
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), content[:200]
            assert answer.json()["jsonrpc"] == "2.0"
        for more, status, code in [
            ({"A2A-Version": "7.0"}, 200, -32009),
            ({"A2A-Version": "0.3"}, 200, -32009),
            ({"Content-Type": "text/plain"}, 415, -32600),
            ({"Authorization": "Bearer x"}, 401, -32000),
        ]:
            call = json.dumps(rpc("ListTasks"))
            answer = await server.client.post("/a2a", content=call, headers={**json_type, **more})
            assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert (await server.client.get("/runs")).json()["runs"] == []
        await server.fabric.stop()
        body = rpc("SendMessage", {"message": message, "metadata": {"skill": "engineering"}})
        stopping = await server.client.post("/a2a", json=body)
        assert (stopping.status_code, stopping.json()["error"]["code"]) == (503, -32603)
        assert stopping.headers["retry-after"]


async def test_a_client_of_version_0_3_is_refused_in_words(tmp_path: Path) -> None:
    async with served(tmp_path, SCRIPT) as server:
        url = f"http://127.0.0.1:{server.port}"
        async with httpx.AsyncClient(headers=bearer(server.token), timeout=PATIENCE_S) as http:
            card = await A2ACardResolver(http, url).get_agent_card()
            older = CompatJsonRpcTransport(http, card, f"{url}/a2a")
            with pytest.raises(A2AError, match=r"not supported|no method"):
                await older.send_message(said("do it"))
        assert (await server.client.get("/runs")).json()["runs"] == []


async def test_a_message_that_is_sent_again_with_its_key_is_carried_out_once(tmp_path: Path) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "do it"}]}
    body = rpc("SendMessage", {"message": message, "metadata": {"pack": "engineering"}})
    async with served(tmp_path, SCRIPT) as server:
        both = await asyncio.gather(
            *(server.client.post("/a2a", json=body, headers={"Idempotency-Key": "one"}) for _ in range(2))
        )
        assert both[0].json() == both[1].json()
        assert len((await server.client.get("/runs")).json()["runs"]) == 1


async def test_somebody_who_starts_too_many_runs_is_told_when_to_ask_again(tmp_path: Path) -> None:
    async with served(tmp_path, SCRIPT, also={"limits": {"starts": "1/hour", "local": True}}) as server:
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "do it"}]}
        body = rpc("SendMessage", {"message": message, "metadata": {"pack": "engineering"}})
        answers = [await server.client.post("/a2a", json=body) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 429]
        assert answers[1].headers["retry-after"]
        assert "too many runs" in answers[1].json()["error"]["message"]
