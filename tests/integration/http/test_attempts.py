"""Attempts by someone who knows only the documents, on people, pages, machines and memory (WB-10)."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agent_fabric.application.fleet.json_rpc import RpcPeer
from agent_fabric.bootstrap.records import owner_here
from agent_fabric.domain.errors import MissingExtra
from agent_fabric.infrastructure.fleet.signing import SigningKey
from agent_fabric.infrastructure.memory.embeddings.sentence_encoder import SentenceEncoder
from agent_fabric.testing.scripted_model import Answer, Call, Finish, Say, Slow
from integration.fleet.machines import until_status
from integration.fleet.test_attacks import Intruder, invited, joined, joining
from integration.http.served import TLS, Served, bearer, served
from integration.page.page_client import browser

pytestmark = pytest.mark.proves("WB-10")

PASSWORD = "quiet lantern over 57 hills"
WORDS = "words of an axolotl"
AFTER_RECHECK_S = 7.0
"""Longer than it takes until a stream is checked again."""
SESSIONS = "/api/v1/sessions"
FACTS = "/api/v1/memory/facts"


@pytest.fixture(autouse=True)
def words_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading the encoder would take longer than all of this."""

    def missing(_: object) -> None:
        raise MissingExtra("embeddings", needed_for="Search by meaning")

    monkeypatch.setattr(SentenceEncoder, "__init__", missing)


def obeying(request: dict[str, Any], _: int) -> Answer:
    """Do once what the newest message says."""
    messages = request["messages"]
    newest = max(index for index, each in enumerate(messages) if each["role"] == "user")
    words = str(messages[newest]["content"])
    called = any(each.get("tool_calls") for each in messages[newest:])
    if "write" in words and not called:
        return Call("write_file", {"path": "a.txt", "content": "one"})
    if "look at web" in words and not called:
        return Call("node_run_command", {"node": "web", "command": "cat /etc/motd"})
    if "slowly" in words:
        return Slow(Say(WORDS), AFTER_RECHECK_S)
    speaks = all(tool["function"]["name"] != "finish_task" for tool in request.get("tools", []))
    return Say("done") if speaks else Finish(summary="done", artifacts=[], next_steps=[], notes="")


async def person(server: Served, name: str, role: str) -> dict[str, str]:
    """Add somebody, and return what a token of theirs shows."""
    made = await server.client.post("/api/v1/users", json={"name": name, "role": role})
    assert made.status_code == 201, made.text
    return bearer((await server.fabric.identity.issue(name, by=owner_here())).token)


async def ask(server: Served, who: Mapping[str, str], method: str, path: str, body: Any = None) -> httpx2.Response:
    return await server.client.request(method, path, json=body, headers=dict(who))


async def turn(server: Served, who: Mapping[str, str], session: str, content: str, *, wait: bool = True) -> str:
    """Say something in a session, and return its run."""
    said = await ask(server, who, "POST", f"{SESSIONS}/{session}/messages", {"content": content})
    assert said.status_code == 202, said.text
    run_id = str(said.json()["run_id"])
    if wait:
        await server.settled(run_id)
    return run_id


async def test_a_token_for_scripts_opens_no_page_and_changes_no_password(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        made = {"name": "bob", "role": "operator", "password": PASSWORD}
        assert (await server.client.post("/api/v1/users", json=made)).status_code == 201
        limited = await server.client.post("/api/v1/users/bob/tokens", json={"scopes": ["runs:read"]})
        script = bearer(limited.json()["access_token"])
        refused = await ask(server, script, "POST", "/api/v1/web/codes")
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        new = {"old_password": PASSWORD, "new_password": PASSWORD + " too"}
        assert (await ask(server, script, "PUT", "/api/v1/me/password", new)).status_code == 403
        logged_in = await server.client.post("/api/v1/login", json={"username": "bob", "password": PASSWORD})
        code = await ask(server, bearer(logged_in.json()["access_token"]), "POST", "/api/v1/web/codes")
        async with browser(server, code=code.json()["code"]) as page:
            assert (await page.client.post("/api/v1/web/codes", headers=page.both)).status_code == 201
            assert (await page.client.put("/api/v1/me/password", json=new, headers=page.both)).status_code == 204


async def test_a_token_that_may_less_changes_nothing_that_is_done_with_more_rights(tmp_path: Path) -> None:
    async with served(tmp_path, obeying) as server:
        bob = await person(server, "bob", "operator")
        limited = await server.client.post("/api/v1/users/bob/tokens", json={"scopes": ["runs", "tools:none"]})
        script = bearer(limited.json()["access_token"])
        session = (await ask(server, bob, "POST", SESSIONS, {"pack": "engineering"})).json()["id"]
        first = await turn(server, bob, session, "slowly", wait=False)
        queued = {"sent by bob": bob, "write by a script": script}
        for content, who in queued.items():
            said = await ask(server, who, "POST", f"{SESSIONS}/{session}/messages", {"content": content})
            path = f"{SESSIONS}/{session}/messages/{said.json()['message_id']}"
            changed = await ask(server, script, "PATCH", path, {"content": "write it"})
            assert changed.status_code == (403 if who is bob else 200), changed.text
        assert (await ask(server, bob, "PATCH", path, {"content": "write this"})).status_code == 200
        await ask(server, bob, "POST", f"{SESSIONS}/{session}/stop", {"withdraw": True})
        await server.settled(first)

        wish = {"name": "x", "cron_expression": "0 8 * * *", "task_instruction": "hello", "agent_id": "engineering"}
        assert (await ask(server, bob, "POST", "/api/v1/schedules", wish)).status_code == 201
        changed = await ask(server, script, "PATCH", "/api/v1/schedules/x", {"task_instruction": "write it"})
        assert changed.status_code == 200, changed.text
        fired = (await ask(server, bob, "POST", "/api/v1/schedules/x/fire")).json()["run_id"]
        await server.settled(fired)
        assert '"rule":"scope"' in (await ask(server, bob, "GET", f"/runs/{fired}/events")).text


async def test_a_schedule_has_no_more_rights_than_its_owner_has_left(tmp_path: Path) -> None:
    async with served(tmp_path, obeying) as server:
        bob, path = await person(server, "bob", "operator"), "/api/v1/schedules/x"
        wish = {"name": "x", "cron_expression": "0 8 * * *", "task_instruction": "write it", "agent_id": "engineering"}
        assert (await ask(server, bob, "POST", "/api/v1/schedules", wish)).status_code == 201
        less = {"role": "member", "scopes": ["tools:none"]}
        assert (await server.client.patch("/api/v1/users/bob", json=less)).status_code == 200
        fired = (await server.client.post(f"{path}/fire")).json()["run_id"]
        await server.settled(fired)
        assert '"rule":"scope"' in (await server.client.get(f"/runs/{fired}/events")).text
        assert (await server.client.patch("/api/v1/users/bob", json={"disabled": True})).status_code == 200
        refused = await server.client.post(f"{path}/fire")
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert (await server.client.delete("/api/v1/users/bob")).status_code == 200
        assert (await server.client.post(f"{path}/fire")).status_code == 403


@pytest.mark.slow
async def test_a_stream_ends_within_seconds_when_what_it_shows_is_made_private(tmp_path: Path) -> None:
    async with served(tmp_path, obeying) as server:
        ada, eve = await person(server, "ada", "operator"), await person(server, "eve", "operator")
        made = {"name": "pat", "role": "viewer", "password": PASSWORD}
        assert (await server.client.post("/api/v1/users", json=made)).status_code == 201
        session = (await ask(server, ada, "POST", SESSIONS, {"visibility": "team"})).json()["id"]
        run_id = await turn(server, ada, session, "slowly", wait=False)
        doors: list[tuple[str, str, Any]] = [
            ("GET", f"/runs/{run_id}/events?deltas=true", None),
            ("GET", f"/v1/responses/resp_{run_id}?stream=true", None),
            ("POST", "/a2a", {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": run_id}}),
        ]
        version = {**eve, "A2A-Version": "1.0"}
        streams = [await server.open(method, path, body=body, headers=version) for method, path, body in doors]
        assert [stream.head.split()[1] for stream in streams] == ["200"] * 3
        async with browser(server, username="pat", password=PASSWORD) as page, page.page() as socket:
            await socket.say(type="follow", run=run_id, after=-1)
            await socket.until(kind="run_created")
            private = await ask(server, ada, "PATCH", f"{SESSIONS}/{session}", {"visibility": "private"})
            assert private.status_code == 200, private.text
            heard = await socket.until(type="notice", code="run_not_found")
        await server.settled(run_id)
        assert WORDS not in str(heard)
        for stream in streams:
            assert WORDS not in str(await stream.frames())
        assert (await ask(server, eve, "GET", "/api/v1/me")).status_code == 200
        assert WORDS in (await ask(server, ada, "GET", f"/runs/{run_id}")).text


async def test_files_of_a_shared_session_are_taken_back_by_its_owner_only(tmp_path: Path) -> None:
    async with served(tmp_path, obeying) as server:
        ada, eve = await person(server, "ada", "operator"), await person(server, "eve", "operator")
        session = (await ask(server, ada, "POST", SESSIONS, {"visibility": "team", "pack": "engineering"})).json()["id"]
        run_id = await turn(server, ada, session, "write it")
        written = f"/runs/{run_id}/files/a.txt"
        refused = await ask(server, eve, "POST", f"/runs/{run_id}/undo", {})
        assert (refused.status_code, refused.json()["detail"]) == (403, "This is a session of user:ada")
        assert (await ask(server, eve, "GET", written)).text == "one"
        undone = await ask(server, ada, "POST", f"/runs/{run_id}/undo", {})
        assert undone.json()["done"] == ["a.txt"]
        assert (await ask(server, ada, "GET", written)).status_code == 404


@asynccontextmanager
async def connected(server: Served, name: str, said: str = "") -> AsyncIterator[tuple[Intruder, RpcPeer]]:
    """Let a machine join and connect, which answers every command with what is `said`."""
    machine = await joined(server, name)
    machine.answers["execute"] = {"status": "success", "exit_code": 0, "stdout": said, "stderr": ""}
    async with machine.connected() as peer:
        await machine.prove(peer, (await machine.identify(peer))["challenge"])
        await until_status(server.client, name, "online")
        yield machine, peer
    await until_status(server.client, name, "offline")


async def test_what_a_private_conversation_did_on_a_machine_is_shown_to_nobody_else(tmp_path: Path) -> None:
    async with served(tmp_path, obeying) as server:
        ada, eve = await person(server, "ada", "operator"), await person(server, "eve", "operator")
        async with connected(server, "web", WORDS):
            session = (await ask(server, ada, "POST", SESSIONS, {"pack": "sysadmin"})).json()["id"]
            run_id = await turn(server, ada, session, "look at web")
        commands = "/api/v1/nodes/web/commands"
        [own] = (await ask(server, ada, "GET", commands)).json()["commands"]
        assert (own["arguments"]["command"], own["result"]["stdout"], own["run_id"]) == ("cat /etc/motd", WORDS, run_id)
        [others] = (await ask(server, eve, "GET", commands)).json()["commands"]
        kept = {"withheld": True, "status": "success", "requested_by": own["requested_by"], "arguments": {}}
        assert others | kept == others
        one = f"{commands}/{own['execution_id']}"
        for path in (commands, one):
            told = (await ask(server, eve, "GET", path)).text
            assert WORDS not in told
            assert "motd" not in told
            assert run_id not in told
            assert own["args_hash"] not in told
        for path in (f"{one}/output", f"{one}/file"):
            assert (await ask(server, eve, "GET", path)).status_code == 404
        assert WORDS in (await server.client.get(one)).text, "an admin sees it"
        recorded = (await server.client.get("/api/v1/audit/acts")).json()["acts"]
        assert run_id in {act["about"] for act in recorded if act["act"] == "private_run_read"}


async def test_who_agrees_to_what_happens_on_a_machine_needs_the_scope_for_machines(tmp_path: Path) -> None:
    async with served(tmp_path, obeying) as server:
        bob, approver = await person(server, "bob", "operator"), await person(server, "ann", "approver")
        async with connected(server, "web") as (machine, _):
            wish = {"tool_name": "run_command", "arguments": {"command": "touch /tmp/x"}}
            asked = (await ask(server, bob, "POST", "/api/v1/nodes/web/execute", wish)).json()
            card = f"/approvals/{asked['approval_id']}"
            refused = await ask(server, approver, "POST", card, {"decision": "approve"})
            assert refused.status_code == 403
            assert "'nodes'" in refused.json()["detail"]
            reply = {"messageId": "1", "role": "ROLE_USER", "taskId": asked["run_id"], "parts": [{"text": "approve"}]}
            call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": reply}}
            over_a2a = await ask(server, {**approver, "A2A-Version": "1.0"}, "POST", "/a2a", call)
            assert "'nodes'" in over_a2a.json()["error"]["message"]
            assert (await ask(server, bob, "GET", card)).json()["status"] == "pending"
            assert (await ask(server, approver, "POST", card, {"decision": "deny"})).status_code == 200
        assert "tool.execute" not in machine.heard


async def test_a_fork_of_a_conversation_about_machines_gives_no_right_to_operate_them(tmp_path: Path) -> None:
    async with served(tmp_path, obeying) as server:
        bob, member = await person(server, "bob", "operator"), await person(server, "mem", "member")
        async with connected(server, "web") as (machine, _):
            wish = {"pack": "sysadmin", "visibility": "team"}
            session = (await ask(server, bob, "POST", SESSIONS, wish)).json()["id"]
            await turn(server, bob, session, "look at web")
            assert machine.heard.count("tool.execute") == 1
            said = (await ask(server, bob, "GET", f"{SESSIONS}/{session}/messages")).json()["messages"]
            at = {"message_id": said[-1]["id"]}
            fork = (await ask(server, member, "POST", f"{SESSIONS}/{session}/fork", at)).json()
            own = fork.get("id") or fork["session"]["id"]
            run_id = await turn(server, member, own, "look at web again")
            assert machine.heard.count("tool.execute") == 1
            assert '"rule":"scope"' in (await ask(server, member, "GET", f"/runs/{run_id}/events")).text


async def test_a_machine_cannot_take_a_name_that_means_others_or_change_what_it_has_answered(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        await joined(server, "web")
        for name in ("web", "all", "role=web", "web,db", "*", "../web", "web\u200b", "\x1b[31mweb", "-rf", "w\u0435b"):
            body = joining(await invited(server), SigningKey.new().public, name)
            told = (await server.client.post("/api/v1/nodes/join", json=body)).json()
            assert told.get("name") not in {"web", "all", "*"}, told
            assert set("=,/*\u200b\x1b\u0435 ").isdisjoint(told.get("name", "")), told
        async with connected(server, "db", "first") as (_, peer):
            wish = {"tool_name": "run_command", "arguments": {"command": "uptime"}}
            done = (await server.client.post("/api/v1/nodes/db/execute", json=wish)).json()
            again = {"status": "failed", "exit_code": 9, "stdout": "second", "stderr": ""}
            await peer.call("tool.result", {"execution_id": done["execution_id"], "result": again}, timeout_s=10)
            kept = (await server.client.get(f"/api/v1/nodes/db/commands/{done['execution_id']}")).json()
            assert (kept["status"], kept["result"]["stdout"]) == ("success", "first")


async def test_what_a_machine_says_about_itself_is_bounded_and_has_known_fields_only(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        machine = await joined(server, "web")
        long = "x" * 5_000
        async with machine.connected() as peer:
            about = {"public_key": machine.key.public, "nonce": "n", "uid": 0, "floor": {}, "version": long}
            told: dict[str, Any] = {
                "agent_id": machine.agent_id,
                "node": about,
                "labels": {"role": "db"},
                "name": "other",
            }
            told |= {"os_info": {f"fact{number}": long for number in range(40)} | {"hostname": "\x1b]0;x\x07"}}
            told |= {"mcp_servers": [5, None, {"name": long, "command": long, "env": {"TOKEN": "hidden"}}] * 8}
            told |= {"capabilities": {"native_tools": [long] * 20}}
            challenge = (await peer.call("agent.identify", told, timeout_s=10))["challenge"]
            await machine.prove(peer, challenge)
            await until_status(server.client, "web", "online")
            shown = await server.client.get("/api/v1/nodes/web")
            assert len(shown.content) < 40_000
            assert (shown.json()["name"], shown.json()["labels"]) == ("web", {})
            assert "hidden" not in shown.text
            assert (await server.client.get("/api/v1/nodes?selector=role=db")).json() == {"nodes": []}
        await until_status(server.client, "web", "offline")


async def test_a_schedule_for_somebody_elses_chat_is_refused_when_it_is_made(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        eve = await person(server, "eve", "operator")
        wish = {"name": "x", "cron_expression": "0 8 * * *", "target_kind": "channel", "task_instruction": "Hello"}
        for target, status in (("ann@telegram", 403), ("eve@telegram", 201)):
            made = await ask(server, eve, "POST", "/api/v1/schedules", {**wish, "target": target})
            assert made.status_code == status, made.text
        moved = await ask(server, eve, "PATCH", "/api/v1/schedules/x", {"target": "ann@telegram"})
        assert moved.status_code == 403


async def test_saying_the_same_or_the_opposite_tells_nothing_about_what_others_remember(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        ada, eve = await person(server, "ada", "member"), await person(server, "eve", "member")
        document = {"source": "/home/ada/plan.md", "text": "# Plan\n\nThe axolotl moves on Friday.\n", "labels": ["x"]}
        known = [
            (await ask(server, ada, "POST", FACTS, {"text": "The pool opens at 9"})).json()["id"],
            (await ask(server, ada, "POST", FACTS, {"text": "The sauna opens at 10"})).json()["id"],
            (await ask(server, ada, "POST", "/api/v1/documents", document)).json()["id"],
        ]
        same = await ask(server, eve, "POST", FACTS, {"text": "The pool opens at 9"})
        opposite = await ask(server, eve, "POST", FACTS, {"text": "The sauna opens at 11"})
        copy = await ask(server, eve, "POST", "/api/v1/documents", {**document, "source": "mine.md", "labels": []})
        over = await ask(server, eve, "POST", "/api/v1/documents", {**document, "text": "# Plan\n\nIt is off.\n"})
        exported = (await ask(server, ada, "GET", f"{FACTS}/export")).text
        imported = await ask(server, eve, "POST", f"{FACTS}/import", {"text": exported, "accept": True})
        for answer in (same, opposite, copy, over, imported):
            assert answer.status_code in {200, 201}, answer.text
            assert not [each for each in known if each in answer.text]
        assert "at 10" not in same.text + opposite.text
        assert "/home/ada" not in copy.text
        passages = (await ask(server, ada, "GET", f"/api/v1/documents/{known[2]}/passages")).text
        assert "moves on Friday" in passages
        mine = (await ask(server, ada, "GET", FACTS)).json()["facts"]
        assert {each["text"] for each in mine} == {"The pool opens at 9", "The sauna opens at 10"}


async def test_the_rate_of_an_endpoint_holds_however_its_path_is_written(tmp_path: Path) -> None:
    async with served(tmp_path, also={"limits": {"endpoints": {"POST /runs": "2/minute"}}}) as server:
        eve = await person(server, "eve", "member")
        async with httpx2.AsyncClient(base_url=server.client.base_url, headers=eve, verify=TLS) as client:
            statuses = [(await client.post(path, json={})).status_code for path in ("/runs", "/api/v1/runs")]
            assert statuses == [422, 422]
            for path in ("/runs", "/%72uns", "/runs/", "/runs?x=1", "/api/v1/runs"):
                assert (await client.post(path, json={})).status_code in {404, 429}, path
