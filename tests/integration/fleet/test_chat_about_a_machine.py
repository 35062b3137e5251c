"""Sessions about a machine: a real one at a real server, by HTTP and in the terminal."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Answer, Call, Say
from e2e.cli.test_chat import piped
from e2e.fabric_process import Fabric, settings
from integration.fleet.machines import ASKING, enrol, until_status
from integration.http.served import PATIENCE_S, Served, bearer, served
from integration.http.test_sessions import BASE, answered, new_session, say

pytestmark = pytest.mark.slow


def operating(request: dict[str, Any], _: int) -> Answer:
    """Look at a machine without naming it, unless the person names one; then say what came."""
    said = [message for message in request["messages"] if message["role"] == "user"]
    last, words = request["messages"][-1], str(said[-1]["content"])
    if last["role"] == "tool":
        return Say(f"it said {last['content']}")
    if "hello" in words:
        return Say("Hello.")
    named = {"node": "nowhere"} if "nowhere" in words else {}
    if "change" in words:
        return Call("node_run_command", {"command": "systemctl restart nothing-at-all", **named})
    return Call("node_run_command", {"command": "uname -s", **named})


async def events_of(server: Served, run_id: str) -> list[dict[str, Any]]:
    answer = await server.client.get(f"/runs/{run_id}/events?full=true&limit=500")
    found: list[dict[str, Any]] = answer.json()["events"]
    return found


def payload(events: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each["payload"] for each in events if each["kind"] == kind)
    return found


@pytest.mark.proves("CO-9", "CO-10", "CO-22", "FL-22", "FL-25", "FC-022")
async def test_the_server_takes_a_session_to_the_machine_that_was_chosen(tmp_path: Path) -> None:
    async with served(tmp_path, operating) as server:
        web = await enrol(server.client, tmp_path / "web", "web", ASKING)
        web.start()
        try:
            await until_status(server.client, "web", "online")
            await _turns_go_to_it(server)
            await _every_door_refuses_alike(server)
            await _the_terminal_has_it(server, tmp_path)
            web.kill()
            await until_status(server.client, "web", "offline")
            session = await new_session(server, node="web")  # it may come back
            refused = await server.client.post(f"{BASE}/{session}/messages", json={"content": "how is it?"})
            assert (refused.status_code, refused.json()["code"]) == (409, "node_unavailable")
            assert "last seen" in refused.json()["detail"]
        finally:
            web.kill()


async def _turns_go_to_it(server: Served) -> None:
    session = await new_session(server)
    before = await say(server, session, "hello")
    await answered(server, session, before["run_id"])
    changed = await server.client.patch(f"{BASE}/{session}", json={"node": "web"})
    assert (changed.status_code, changed.json()["node"]) == (200, "web")
    sent = await say(server, session, "how is it?")
    answer = await answered(server, session, sent["run_id"])
    assert "Linux" in answer["content"], answer
    events = await events_of(server, sent["run_id"])
    assert payload(events, "run_created")["node"] == "web"
    assert payload(events, "run_created")["prompt"] == "how is it?", "nothing was added to what was said"
    recruited = payload(events, "recruitment")
    assert (recruited["specialist_ids"], recruited["reasons"]) == (["sysadmin"], ["the machine web was chosen"])
    assert payload(events, "tool_call")["args"] == {"node": "web", "command": "uname -s"}
    asked = server.model.requests[-2].body
    assert "the machine web" in asked["messages"][0]["content"]
    (offered,) = [each["function"] for each in asked["tools"] if each["function"]["name"] == "node_run_command"]
    assert offered["parameters"]["required"] == ["command"]
    shown = (await server.client.get(f"/runs/{sent['run_id']}")).json()["_meta"]
    assert (shown["node"], shown["specialist_ids"]) == ("web", ["sysadmin"])
    elsewhere = await answered(server, session, (await say(server, session, "and nowhere?"))["run_id"])
    assert "There is no node 'nowhere'" in elsewhere["content"], "a call may name another machine"
    asking = (await say(server, session, "change it"))["run_id"]
    await _agrees(server, asking)
    assert "exit_code" in (await answered(server, session, asking))["content"]
    await server.client.patch(f"{BASE}/{session}", json={"node": "", "pack": "engineering"})
    without = await say(server, session, "hello")
    await answered(server, session, without["run_id"])
    assert payload(await events_of(server, without["run_id"]), "run_created")["node"] == ""


async def _agrees(server: Served, run_id: str) -> None:
    cards: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE_S):
        while not cards:
            cards = (await server.client.get(f"/approvals?run_id={run_id}")).json()["approvals"]
            await asyncio.sleep(0.02)
    (card,) = cards
    assert card["args"] == {"node": "web", "command": "systemctl restart nothing-at-all"}, (
        "whoever agrees sees which machine"
    )
    decided = await server.client.post(f"/approvals/{card['id']}", json={"decision": "approve"})
    assert decided.status_code == 200, decided.text


async def _every_door_refuses_alike(server: Served) -> None:
    unknown = await server.client.post(BASE, json={"node": "nowhere"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "node_not_found")
    session = await new_session(server)
    unknown = await server.client.patch(f"{BASE}/{session}", json={"node": "nowhere"})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "node_not_found")
    made = await server.client.post("/api/v1/keys", json={"name": "talker", "scopes": ["runs"]})
    talker = bearer(made.json()["key"])
    forbidden = await server.client.post(BASE, json={"node": "web"}, headers=talker)
    assert (forbidden.status_code, forbidden.json()["code"]) == (403, "forbidden")
    assert "'nodes'" in forbidden.json()["detail"]
    theirs = (await server.client.post(BASE, json={"pack": "sysadmin"}, headers=talker)).json()["id"]
    forbidden = await server.client.patch(f"{BASE}/{theirs}", json={"node": "web"}, headers=talker)
    assert forbidden.status_code == 403
    # Whoever may not operate machines does not do it through a model that names one, either.
    sent = await server.client.post(
        f"{BASE}/{theirs}/messages", json={"content": "how is web? [[nowhere]]"}, headers=talker
    )
    run_id = sent.json()["run_id"]
    await server.settled(run_id)
    refused = payload(await events_of(server, run_id), "tool_error")
    assert refused["rule"] == "scope", refused


async def _the_terminal_has_it(server: Served, folder: Path) -> None:
    there = Fabric(
        folder / "there",
        settings(server.model.base_url),
        {"FABRIC_TOKEN": server.token},
        server=f"http://127.0.0.1:{server.port}",
    )
    there.folder.mkdir()
    (there.folder / "fabric-config.json").write_text("{}")
    told = await piped(there, "how is it?", "--node", "web", "--json")
    assert told.code == 0, told.err
    assert (told.json["session"]["node"], told.json["session"]["pack"]) == ("web", "")
    assert "Linux" in told.json["content"]
    unknown = await piped(there, "how is it?", "--session", told.json["session_id"], "--node", "nowhere")
    assert unknown.code == 2, unknown
    assert "There is no node 'nowhere'" in unknown.err
    without = await piped(there, "hello", "--session", told.json["session_id"], "--node", "", "--json")
    assert without.json["session"]["node"] == ""
