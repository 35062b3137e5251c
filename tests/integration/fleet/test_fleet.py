"""Machines join, show who they are, and do what they are told and allowed to."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.domain.fleet.node_policy import version_in_force
from agent_fabric.domain.fleet.nodes import NodeId
from agent_fabric.infrastructure.fleet.signing import SigningKey
from agent_fabric.infrastructure.node.node_folder import NodeFolder
from agent_fabric.infrastructure.node.websocket import ConnectionEnded, ConnectionRefused, WebSocket
from e2e.fabric_process import long_sleep, running, until
from integration.fleet.machines import (
    ASKING,
    Machine,
    enrol,
    execute,
    until_settled,
    until_status,
)
from integration.http.served import Served, served

pytestmark = pytest.mark.slow


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Served]:
    async with served(tmp_path) as server:
        yield server


@pytest.fixture
async def machine(hub: Served, tmp_path: Path) -> AsyncIterator[Machine]:
    made = await enrol(hub.client, tmp_path / "web", "web", labels={"role": "web"})
    made.start()
    await until_status(hub.client, "web", "online")
    yield made
    made.kill()


@pytest.mark.proves("FL-1", "FL-2", "FL-4", "FL-9", "FC-001", "FC-005", "FC-010", "FC-014", "FC-063", "FC-073", "C08")
@pytest.mark.proves("FL-13", "FC-060", "FC-008", "C12")
async def test_a_machine_joins_with_one_token_and_shows_who_it_is(hub: Served, machine: Machine) -> None:
    found = await until_status(hub.client, "web", "online")
    assert found["labels"] == {"role": "web"}
    assert "run_command" in found["supported_tools"]
    assert not {"file_put", "file_get", "shell", "mcp_proxy", "upgrade"} & set(found["supported_tools"])
    assert (found["reported"]["file_transfer"], found["reported"]["pty_support"]) == (False, False)
    assert found["platform"] == "linux"
    again = await hub.client.post(
        "/api/v1/nodes/join", json={"token": "fnj_unknown", "public_key": "0" * 64, "name": "x", "os_info": {}}
    )
    assert again.status_code == 401
    listed = (await hub.client.get("/api/v1/nodes")).json()["nodes"]
    assert [node["name"] for node in listed] == ["web"]
    agents = (await hub.client.get("/api/v1/agents")).json()["agents"]
    assert "web" not in {agent["name"] for agent in agents}, "an agent is a definition, a node is a machine"
    assert (await hub.client.get("/api/v1/agents/web")).status_code == 404
    assert (machine.folder / "key").stat().st_mode & 0o777 == 0o600
    archive = await hub.client.get("/node/fabric-node.pyz")
    assert archive.content[:2] == b"#!"


@pytest.mark.proves("FL-10", "FL-11", "FL-17", "FC-011", "FC-033", "FC-036", "FC-037", "FC-062", "FC-064", "C40", "C41")
async def test_reading_runs_at_once_and_changing_waits_for_a_person(
    hub: Served, machine: Machine, tmp_path: Path
) -> None:
    read = await execute(hub.client, "web", "uname -s")
    assert (read.status_code, read.json()["result"]["stdout"]) == (200, "Linux\n")
    trace = tmp_path / "trace"
    asked = await execute(hub.client, "web", f"echo {{{{ not.a.template }}}} >> {trace}")
    assert asked.status_code == 202, asked.text
    told = asked.json()
    assert not trace.exists()
    answer = await hub.client.post(f"/approvals/{told['approval_id']}", json={"decision": "approve"})
    assert answer.status_code == 200, answer.text
    settled = await until_settled(hub.client, "web", told["execution_id"])
    assert settled["status"] == "success", settled
    assert settled["approver"]
    assert trace.read_text() == "{{ not.a.template }}\n"
    denied = (await execute(hub.client, "web", f"echo no >> {trace}")).json()
    await hub.client.post(f"/approvals/{denied['approval_id']}", json={"decision": "deny"})
    assert (await until_settled(hub.client, "web", denied["execution_id"]))["status"] == "denied"
    assert trace.read_text() == "{{ not.a.template }}\n"
    verified = (await hub.client.get("/api/v1/nodes/web/audit")).json()
    assert (verified["intact"], verified["only_node"], verified["only_hub"]) == (True, [], [])


@pytest.mark.proves("FL-16", "FC-032", "FC-056", "C39")
async def test_the_hubs_policy_tightens_what_the_floor_allows_and_never_loosens_it(
    hub: Served, machine: Machine
) -> None:
    blocked = {"profile": "node", "blocked_commands": ["uname"]}
    set_ = await hub.client.put("/api/v1/nodes/web/policy", json=blocked)
    assert set_.status_code == 200, set_.text
    refused = await execute(hub.client, "web", "uname -s")
    assert (refused.status_code, refused.json()["code"]) == (403, "node_blocked")
    await hub.client.put("/api/v1/nodes/web/policy", json={"profile": "open"})
    asked = await execute(hub.client, "web", "systemctl restart nothing-at-all")
    assert asked.status_code == 202  # the floor asks, whatever the hub thinks
    in_force = (await hub.client.get("/api/v1/nodes/web/policy")).json()
    assert in_force["version"] == version_in_force(in_force["floor"], in_force["hub"])
    wrong = await hub.client.put("/api/v1/nodes/web/policy", json={"profile": "workspace"})
    assert wrong.status_code == 422


@pytest.mark.proves("FC-032", "FC-010", "FC-033")
async def test_with_hitl_enabled_in_the_hubs_policy_or_on_the_machine_reading_waits_for_a_person(
    hub: Served, machine: Machine
) -> None:
    asking = {"profile": "node", "hitl_enabled": True}
    assert (await hub.client.put("/api/v1/nodes/web/policy", json=asking)).status_code == 200
    told = await execute(hub.client, "web", "uname -s")
    assert (told.status_code, told.json()["status"]) == (202, "waiting")
    await hub.client.post(f"/approvals/{told.json()['approval_id']}", json={"decision": "approve"})
    assert (await until_settled(hub.client, "web", told.json()["execution_id"]))["result"]["stdout"] == "Linux\n"
    (rule,) = [
        each for each in (await hub.client.get("/api/v1/nodes/web/policy")).json()["rules"] if each["source"] == "hub"
    ]
    assert (rule["id"], rule["verdict"], rule["about"]) == ("hitl_enabled", "ask", [])
    assert (await hub.client.put("/api/v1/nodes/web/policy", json={"hitl_enabled": False})).status_code == 200
    assert (await execute(hub.client, "web", "uname -s")).status_code == 200
    before = await until_status(hub.client, "web", "online")
    machine.kill()
    (machine.folder / "node.toml").write_text('profile = "open"\nhitl_enabled = true\nallow_root = true\n')
    machine.start()
    back = await until_status(hub.client, "web", "online", after=before["generation"])
    assert back["reported"]["floor"]["hitl_enabled"] is True
    assert (await execute(hub.client, "web", "uname -s")).status_code == 202


@pytest.mark.proves("FL-22", "FL-8")
async def test_a_machine_that_is_away_refuses_at_once_or_queues(hub: Served, machine: Machine) -> None:
    machine.kill()
    await until_status(hub.client, "web", "offline")
    refused = await execute(hub.client, "web", "uname -s")
    assert (refused.status_code, refused.json()["code"]) == (409, "node_unavailable")
    assert "last seen" in refused.json()["detail"]
    queued = await execute(hub.client, "web", "uname -s", queue=True)
    other = (await execute(hub.client, "web", "uname -m", queue=True)).json()
    assert queued.status_code == 202
    cancelled = await hub.client.delete(f"/api/v1/nodes/web/commands/{other['execution_id']}")
    assert cancelled.json()["status"] == "cancelled"
    machine.start()
    settled = await until_settled(hub.client, "web", queued.json()["execution_id"])
    assert settled["result"]["stdout"] == "Linux\n"


@pytest.mark.proves("FL-5")
async def test_a_copy_of_a_machine_stops_both_until_a_person_decides(
    hub: Served, machine: Machine, tmp_path: Path
) -> None:
    copy = Machine(tmp_path / "copy", machine.node_id, "web")
    shutil.copytree(machine.folder, copy.folder, ignore=shutil.ignore_patterns("lock", "log"))
    copy.start()
    try:
        found = await until_status(hub.client, "web", "conflict")
        assert "second machine" in found["note"]
        refused = await execute(hub.client, "web", "uname -s")
        assert (refused.status_code, refused.json()["code"]) == (409, "node_unavailable")
        copy.kill()
        await hub.client.post("/api/v1/nodes/web/resolve", json={"keep": True})
        await until_status(hub.client, "web", "online")
        assert (await execute(hub.client, "web", "uname -s")).status_code == 200
        machine.kill()
        await until_status(hub.client, "web", "offline")
        copy.start()  # alone now, and in the state before the last, as after a power cut
        await until_status(hub.client, "web", "online")
        copy.kill()
        await until_status(hub.client, "web", "offline")
        machine.start()  # what it remembers is older than what the copy was given
        found = await until_status(hub.client, "web", "conflict")
        assert "old state" in found["note"]
    finally:
        copy.kill()


@pytest.mark.proves("FL-6")
async def test_a_new_key_takes_over_and_a_revoked_machine_is_gone_for_good(hub: Served, machine: Machine) -> None:
    before = (machine.folder / "key").read_text()
    assert (await hub.client.post("/api/v1/nodes/web/rotate")).status_code == 200
    assert (await execute(hub.client, "web", "uname -s")).status_code == 200
    assert (machine.folder / "key").read_text() != before
    machine.kill()
    await until_status(hub.client, "web", "offline")
    machine.start()
    await until_status(hub.client, "web", "online")
    await a_change_of_keys_that_a_kill_cut_off(hub, machine)
    assert (await hub.client.get("/api/v1/nodes/web/audit")).json()["intact"]
    revoked = await hub.client.delete("/api/v1/nodes/web")
    assert revoked.json()["status"] == "revoked"
    assert len(hub.fabric.fleet.hub.live) == 0  # its connection is closed before the answer comes
    assert machine.process is not None
    async with asyncio.timeout(60):
        while machine.process.poll() is None:
            await asyncio.sleep(0.02)
    assert machine.process.returncode == 4
    assert "revoked" in machine.told()
    assert (await hub.client.get("/api/v1/nodes")).json()["nodes"] == []


async def a_change_of_keys_that_a_kill_cut_off(hub: Served, machine: Machine) -> None:
    """The node has made a new key and was killed: whichever the hub knows then is the one that works."""
    for known_to_hub in (False, True):
        machine.kill()
        await until_status(hub.client, "web", "offline")
        made = NodeFolder(machine.folder).new_key()
        if known_to_hub:
            changes = {"public_key": made.public}
            await hub.fabric.records.storage.nodes.update(NodeId(machine.node_id), changes)
        machine.start()
        await until_status(hub.client, "web", "online")
        assert (NodeFolder(machine.folder).key().public == made.public) is known_to_hub
        assert NodeFolder(machine.folder).pending_key() is None


@pytest.mark.proves("FL-2")
async def test_a_machine_that_has_to_be_confirmed_waits_with_a_code(hub: Served) -> None:
    made = (await hub.client.post("/api/v1/nodes/invites", json={"confirm": True})).json()
    key = SigningKey.new().public
    body = {"token": made["token"], "public_key": key, "name": "new host!", "os_info": {"hostname": "h"}}
    first = await hub.client.post("/api/v1/nodes/join", json=body)
    assert (first.status_code, first.json()["status"]) == (202, "pending")
    (pending,) = (await hub.client.get("/api/v1/nodes")).json()["nodes"]
    assert pending["note"] == first.json()["code"]
    assert pending["name"] == "new-host"
    await hub.client.post(f"/api/v1/nodes/{pending['id']}/resolve", json={"keep": True})
    second = await hub.client.post("/api/v1/nodes/join", json=body)
    assert (second.status_code, second.json()["agent_id"]) == (201, pending["id"])
    other = await hub.client.post("/api/v1/nodes/join", json={**body, "public_key": SigningKey.new().public})
    assert other.status_code == 401  # its one use is used up


@pytest.mark.proves("FL-3", "FL-4", "FL-7")
async def test_nothing_is_answered_before_a_connection_has_shown_who_it_is(hub: Served, machine: Machine) -> None:
    url = f"ws://127.0.0.1:{hub.port}/api/v1/ws"

    async def say(socket: WebSocket, method: str, **params: Any) -> dict[str, Any]:
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        found: dict[str, Any] = json.loads(await socket.receive())
        return found

    socket = await WebSocket.connect(url)
    for method in ("agent.heartbeat", "tool.result", "agent.prove", "audit.entries"):
        assert (await say(socket, method))["error"]["code"] == -32010
    told = await say(socket, "agent.identify", agent_id=machine.node_id, node={"nonce": "n"})
    assert set(told["result"]) == {"challenge", "hub_signature", "key"}
    assert "error" in await say(socket, "agent.prove", signature="00" * 64, state="")
    with pytest.raises(ConnectionEnded) as ended:
        await socket.receive()
    assert ended.value.code == 4401
    await socket.close()
    socket = await WebSocket.connect(url)
    assert "error" in await say(socket, "agent.identify", agent_id="unknown")
    with pytest.raises(ConnectionEnded):
        await socket.receive()
    await socket.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", hub.port)
    head = f"GET /api/v1/ws HTTP/1.1\r\nHost: 127.0.0.1:{hub.port}\r\nOrigin: http://127.0.0.1:{hub.port}\r\n"
    keys = "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
    writer.write(f"{head}Upgrade: websocket\r\nConnection: Upgrade\r\n{keys}\r\n".encode())
    assert (await reader.readline()).startswith(b"HTTP/1.1 403")  # a page, even one of ours, is no node
    writer.close()
    with pytest.raises(ConnectionRefused):  # no encryption, and not this machine
        await WebSocket.connect("ws://192.0.2.1/api/v1/ws")


@pytest.mark.proves("FL-12")
async def test_commands_die_with_their_node(hub: Served, machine: Machine, tmp_path: Path) -> None:
    machine.kill()
    (machine.folder / "node.toml").write_text(f'{ASKING}profile = "open"\n')
    await hub.client.put("/api/v1/nodes/web/policy", json={"profile": "open"})
    machine.start()
    await until_status(hub.client, "web", "online")
    sleep = long_sleep()
    executing = asyncio.create_task(execute(hub.client, "web", f"setsid {sleep} & {sleep}"))
    await until(lambda: len(running(sleep)) >= 2, "the command runs")
    machine.kill()
    await until(lambda: not running(sleep), "its processes ended")
    machine.start()
    answer = await executing
    assert answer.json()["status"] == "in_doubt", answer.text
