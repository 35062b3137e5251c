"""Attempts on enrolment, identity, replay and the floor, against a real hub. What they found stands in the guide."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.fleet.json_rpc import LinkLost, RpcFailed, RpcPeer
from agent_fabric.domain.fleet.node_tools import NODE_TOOLS
from agent_fabric.domain.fleet.protocol import SOCKET_PATH, Method, RpcCode, node_message
from agent_fabric.infrastructure.fleet.signing import SigningKey
from agent_fabric.infrastructure.node.websocket import ConnectionEnded, WebSocket
from integration.fleet.machines import until_settled, until_status
from integration.http.served import Served, served

pytestmark = pytest.mark.slow

WEAK = ("01" + "00" * 31, "00" * 32, "ec" + "ff" * 30 + "7f", "ee" + "ff" * 30 + "7f", "01" + "00" * 30 + "80")


@dataclass
class Intruder:
    """Somebody who speaks the protocol, with whichever key and state they like."""

    hub: Served
    key: SigningKey
    agent_id: str = ""
    hub_key: str = ""
    state: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def connected(self, query: str = "") -> AsyncIterator[RpcPeer]:
        url = str(self.hub.client.base_url).rstrip("/").replace("http", "ws")
        socket = await WebSocket.connect(f"{url}{SOCKET_PATH}{query}")
        peer = RpcPeer(socket.send, self._answer)

        async def read() -> None:
            try:
                while True:
                    await peer.receive(await socket.receive())
            except ConnectionEnded as ended:
                peer.close(ended)

        reading = asyncio.create_task(read())
        try:
            yield peer
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await socket.close()

    async def identify(self, peer: RpcPeer, **node: Any) -> dict[str, Any]:
        about = {"public_key": self.key.public, "nonce": "n", "uid": 1000, "floor": {}, **node}
        tools = {"native_tools": list(NODE_TOOLS)}
        params = {"agent_id": self.agent_id, "os_info": {"hostname": "h"}, "capabilities": tools, "node": about}
        told: dict[str, Any] = await peer.call(Method.IDENTIFY, params, timeout_s=10)
        return told

    async def prove(self, peer: RpcPeer, challenge: str) -> dict[str, Any]:
        message = node_message(self.agent_id, self.hub_key, challenge, self.state)
        proof = {"signature": self.key.sign(message), "state": self.state}
        told: dict[str, Any] = await peer.call(Method.PROVE, proof, timeout_s=10)
        self.state = told["state"]
        return told

    async def _answer(self, method: str, params: Mapping[str, Any]) -> Any:
        self.heard.append(method)
        if method == Method.EXECUTE:
            return self.answers.get("execute", {"status": "success", "exit_code": 0})
        return {}


async def invited(hub: Served, **wish: Any) -> str:
    return str((await hub.client.post("/api/v1/nodes/invites", json=wish)).json()["token"])


def joining(token: str, key: str, name: str = "web") -> dict[str, Any]:
    return {"token": token, "public_key": key, "name": name, "os_info": {}}


async def joined(hub: Served, name: str) -> Intruder:
    """Return a machine that has joined as it should."""
    key = SigningKey.new()
    told = (await hub.client.post("/api/v1/nodes/join", json=joining(await invited(hub, name=name), key.public))).json()
    return Intruder(hub, key, told["agent_id"], told["hub_key"])


@pytest.mark.proves("FL-1", "FL-3", "FL-4", "FL-5", "FL-6", "FL-16", "FL-19")
async def test_attempts_on_a_hub_come_to_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as hub:
        await one_token_makes_one_node(hub)
        await weak_and_foreign_keys_join_nothing(hub)
        await nobody_speaks_for_a_node_without_its_key(hub)
        await old_proofs_and_states_are_worth_nothing(hub)
        await results_of_others_and_odd_ones_do_no_harm(hub)
        await variables_make_a_reading_command_ask(hub)
        await shells_and_signatures_are_for_those_they_are_for(hub)
        for name in ("shells", "reading", "one", "other", "true"):  # no connection is ended by both ends at once
            await until_status(hub.client, name, "offline")


async def one_token_makes_one_node(hub: Served) -> None:
    token = await invited(hub, name="once")
    keys = [SigningKey.new().public for _ in range(20)]
    answers = await asyncio.gather(
        *(hub.client.post("/api/v1/nodes/join", json=joining(token, key)) for key in keys), return_exceptions=True
    )
    codes = [each.status_code for each in answers if not isinstance(each, BaseException)]
    assert sorted(codes) == [201, *[401] * 19]
    expired = await invited(hub, expires_in_s=0.01)
    await asyncio.sleep(0.05)
    told = [
        (await hub.client.post("/api/v1/nodes/join", json=joining(each, keys[0]))).json()
        for each in (token + "x", "fnj_" + "a" * 43, expired, "", "fnj_")
    ]
    assert len({(each["code"], each["detail"]) for each in told}) == 1


async def weak_and_foreign_keys_join_nothing(hub: Served) -> None:
    for key in WEAK:
        refused = await hub.client.post("/api/v1/nodes/join", json=joining(await invited(hub), key))
        assert refused.status_code == 401, key
    victim = await joined(hub, "victim")
    again = await hub.client.post("/api/v1/nodes/join", json=joining(await invited(hub), victim.key.public))
    assert again.status_code != 201 or again.json()["agent_id"] != victim.agent_id


async def nobody_speaks_for_a_node_without_its_key(hub: Served) -> None:
    """The id of a node is no secret: whoever knows it may begin to identify, and changes nothing by that."""
    true = await joined(hub, "true")
    async with true.connected() as peer:
        await true.prove(peer, (await true.identify(peer, approvals="signed", approvers=["ada"]))["challenge"])
        before = await until_status(hub.client, "true", "online")
        forger = Intruder(hub, SigningKey.new(), true.agent_id, true.hub_key, true.state)
        async with forger.connected() as other:
            told = await forger.identify(other, approvals="hub", floor={"profile": "open"}, uid=0)
            for method in (Method.HEARTBEAT, Method.RESULT, Method.EXECUTE, Method.AUDIT, Method.IDENTIFY):
                with pytest.raises(RpcFailed) as refused:
                    await other.call(method, {}, timeout_s=10)
                assert refused.value.code == RpcCode.UNPROVEN
            with pytest.raises((RpcFailed, LinkLost)):
                await forger.prove(other, told["challenge"])
        after = (await hub.client.get("/api/v1/nodes/true")).json()
        assert (after["reported"], after["status"], after["note"]) == (before["reported"], "online", "")
        await peer.call(Method.HEARTBEAT, {"busy": 0}, timeout_s=10)  # the true one is still connected


async def old_proofs_and_states_are_worth_nothing(hub: Served) -> None:
    node = await joined(hub, "replayed")
    async with node.connected() as peer:
        challenge = (await node.identify(peer))["challenge"]
        seen = {"signature": node.key.sign(node_message(node.agent_id, node.hub_key, challenge, "")), "state": ""}
        told = await peer.call(Method.PROVE, seen, timeout_s=10)
        node.state = told["state"]
    await until_status(hub.client, "replayed", "offline")
    async with node.connected() as peer:  # what was overheard is for another challenge
        await node.identify(peer)
        with pytest.raises((RpcFailed, LinkLost)):
            await peer.call(Method.PROVE, seen, timeout_s=10)
    found = (await hub.client.get("/api/v1/nodes/replayed")).json()
    assert (found["status"], found["note"]) == ("offline", "")
    for _ in range(2):
        async with node.connected() as peer:
            await node.prove(peer, (await node.identify(peer))["challenge"])
        await until_status(hub.client, "replayed", "offline")
    copy = Intruder(hub, node.key, node.agent_id, node.hub_key, "")  # a folder of long ago
    async with copy.connected() as peer:
        with pytest.raises((RpcFailed, LinkLost)):
            await copy.prove(peer, (await copy.identify(peer))["challenge"])
    assert "old state" in (await until_status(hub.client, "replayed", "conflict"))["note"]
    async with node.connected() as peer:  # nor the true one, until a person has decided
        with pytest.raises((RpcFailed, LinkLost)):
            await node.prove(peer, (await node.identify(peer))["challenge"])


async def results_of_others_and_odd_ones_do_no_harm(hub: Served) -> None:
    one, other = await joined(hub, "one"), await joined(hub, "other")
    await hub.client.put("/api/v1/nodes/one/policy", json={"profile": "open"})
    one.answers["execute"] = {"status": "in_doubt"}
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    async with one.connected() as peer, other.connected() as beside:
        await one.prove(peer, (await one.identify(peer, floor={"profile": "open"}))["challenge"])
        await other.prove(beside, (await other.identify(beside))["challenge"])
        queued = await hub.client.post(
            "/api/v1/nodes/other/execute", json={"tool_name": "run_command", "arguments": {"command": "touch /srv/x"}}
        )
        waiting = queued.json()["execution_id"]
        for whose in (peer, beside):  # neither another node nor the node itself settles what a person has not approved
            lie = {"execution_id": waiting, "result": {"status": "success", "stdout": "done"}}
            await whose.call(Method.RESULT, lie, timeout_s=10)
        kept = (await hub.client.get(f"/api/v1/nodes/other/commands/{waiting}")).json()
        assert kept["status"] == "waiting"
        odd: tuple[dict[str, Any], ...] = (
            {"status": "success", "deep": deep},
            {"status": "success", "n": 10**40},
            {"status": "nothing we know"},
            {},
        )
        for result in odd:
            one.answers["execute"] = result
            body = {"tool_name": "run_command", "arguments": {"command": "uptime"}}
            answer = (await hub.client.post("/api/v1/nodes/one/execute", json=body)).json()
            settled = await until_settled(hub.client, "one", answer["execution_id"])
            assert settled["status"] in {"success", "error"}, settled


async def variables_make_a_reading_command_ask(hub: Served) -> None:
    node = await joined(hub, "reading")
    async with node.connected() as peer:
        await node.prove(peer, (await node.identify(peer))["challenge"])
        plain = {"tool_name": "run_command", "arguments": {"command": "uptime"}, "dry_run": True}
        assert (await hub.client.post("/api/v1/nodes/reading/execute", json=plain)).json()["status"] == "allow"
        for name in ("PATH", "LD_PRELOAD", "BASH_ENV", "ANYTHING"):
            arguments = {"command": "uptime", "environment": {name: "/tmp/x"}}
            asked = await hub.client.post("/api/v1/nodes/reading/execute", json={**plain, "arguments": arguments})
            assert asked.json()["status"] == "ask", name


async def shells_and_signatures_are_for_those_they_are_for(hub: Served) -> None:
    node = await joined(hub, "shells")
    made = (await hub.client.post("/api/v1/keys", json={"name": "eve", "scopes": ["nodes", "runs:read"]})).json()
    async with node.connected() as peer:
        await node.prove(peer, (await node.identify(peer, approvals="signed", approvers=["ada"]))["challenge"])
        asked = (await hub.client.post("/api/v1/nodes/shells/execute", json={"tool_name": "shell"})).json()
        path = f"/api/v1/nodes/shells/commands/{asked['execution_id']}"
        async with hub.another_client() as eve:
            eve.headers = {"x-api-key": made["key"]}
            assert (await eve.get("/api/v1/nodes/shells")).status_code == 200
            assert (await eve.get(f"{path}/terminal")).status_code == 403
            assert (await eve.post(f"{path}/terminal", json={"data": "bHMK"})).status_code == 403
            forged = {"approver": "eve", "signature": "00"}
            assert (await eve.post(f"{path}/signatures", json=forged)).status_code == 422
        assert (await hub.client.post("/api/v1/nodes/shells/commands", json={"approval_id": "nothing-at-all"})).is_error


@pytest.mark.proves("FL-4")
async def test_a_connection_that_never_says_who_it_is_gets_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as hub:
        silent = Intruder(hub, SigningKey.new(), "00000000-0000-4000-8000-000000000000")
        async with silent.connected("?token=fnj_guessed") as peer:
            with pytest.raises((RpcFailed, LinkLost)):
                await silent.identify(peer)
        for text in ("[]", "{}", "null", json.dumps({"jsonrpc": "2.0", "method": 7}), "[" * 5_000, "\x00"):
            url = str(hub.client.base_url).rstrip("/").replace("http", "ws")
            socket = await WebSocket.connect(f"{url}{SOCKET_PATH}")
            await socket.send(text)
            with pytest.raises(ConnectionEnded):
                await asyncio.wait_for(socket.receive(), 60)
            await socket.close()
        assert (await hub.client.get("/ready")).status_code == 200
