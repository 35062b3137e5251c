"""The hub's end of a connection, without a socket: who may connect where, and what is sent under which rules."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from agent_fabric.application.fleet.call_nodes import CallNodes
from agent_fabric.application.fleet.dispatch_command import CommandRequest, DispatchCommand
from agent_fabric.application.fleet.enrol_node import JoinNode
from agent_fabric.application.fleet.hub import Hub
from agent_fabric.application.fleet.json_rpc import RpcFailed, RpcPeer
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.fleet.review_link import ReviewLink
from agent_fabric.application.fleet.serve_link import ServeLink
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.fleet.commands import CommandStatus
from agent_fabric.domain.fleet.nodes import Node, NodeStatus
from agent_fabric.domain.fleet.plans import PlanStatus
from agent_fabric.domain.fleet.protocol import Method, RpcCode, node_message
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.infrastructure.fleet.signing import SigningKey, is_signed
from agent_fabric.testing.fakes import FrozenClock
from memory_storage import MemoryCalls, MemoryCommands, MemoryInvites, MemoryNodes
from unit.application.fleet.stand_ins import WEB, StubPeer

HUB = SigningKey.of(hashlib.sha256(b"hub").digest())
KEY = SigningKey.of(hashlib.sha256(b"node").digest())


@dataclass
class Store:
    """What servers share."""

    nodes: MemoryNodes = field(default_factory=MemoryNodes)
    commands: MemoryCommands = field(default_factory=MemoryCommands)
    calls: MemoryCalls = field(default_factory=MemoryCalls)
    clock: FrozenClock = field(default_factory=FrozenClock)

    def __post_init__(self) -> None:
        self.nodes.kept[WEB] = Node(id=WEB, name="web-1", public_key=KEY.public, status=NodeStatus.OFFLINE)


class Server:
    """One server, with the connections that it holds."""

    def __init__(self, store: Store, hint: Callable[[Mapping[str, Any]], None] = lambda _: None) -> None:
        self.store, self.live, self.plan = store, LiveNodes(), PlanStatus.RUNNING
        self.dispatch = DispatchCommand(store.nodes, store.commands, self.live, store.clock, lambda _: None)
        self.hub = Hub(
            store.nodes,
            store.commands,
            JoinNode(MemoryInvites(store.nodes), store.clock),
            self.live,
            store.clock,
            HUB,
            is_signed,
            ReviewLink(store.nodes, self.live),
            CallNodes(self.live, store.calls, store.clock, shared=True),
            self.dispatch.judge,
            shared=True,
            hint=hint,
            plan_status=self.plan_status,
        )

    async def plan_status(self, _: str) -> PlanStatus | None:
        return self.plan

    async def connect(self, peer: StubPeer, state: str = "") -> tuple[ServeLink, dict[str, Any], list[int]]:
        closed: list[int] = []
        link = ServeLink(self.hub, lambda code, _: closed.append(code))
        link.attach(cast("RpcPeer", peer))
        told = await link.handle(Method.IDENTIFY, {"agent_id": WEB, "node": {"nonce": "n"}})
        message = node_message(WEB, HUB.public, told["challenge"], state)
        proven = await link.handle(Method.PROVE, {"signature": KEY.sign(message), "state": state})
        return link, proven, closed


def done(_: str, __: Mapping[str, Any]) -> Any:
    return {"status": "success"}


@pytest.mark.proves("FL-7")
@pytest.mark.parametrize("spoken", [0, "1", None])
async def test_a_node_that_is_too_old_is_told_to_upgrade(spoken: Any) -> None:
    closed: list[tuple[int, str]] = []
    link = ServeLink(Server(Store()).hub, lambda code, why: closed.append((code, why)))
    link.attach(cast("RpcPeer", StubPeer(None)))
    with pytest.raises(RpcFailed, match="too old"):
        await link.handle(Method.IDENTIFY, {"agent_id": WEB, "node": {"nonce": "n", "protocol": spoken}})
    ((code, why),) = closed
    assert (code, "too old" in why) == (4426, True)


@pytest.mark.proves("FL-8")
async def test_a_node_moves_to_another_server_and_the_old_one_does_not_call_it_offline() -> None:
    store = Store()
    one, two = Server(store), Server(store)
    first, proven, _ = await one.connect(StubPeer(None))
    second, _, _ = await two.connect(StubPeer(done), proven["state"])
    assert store.nodes.kept[WEB].generation == 2
    await first.end()
    assert store.nodes.kept[WEB].status is NodeStatus.ONLINE
    await second.end()
    assert store.nodes.kept[WEB].status is NodeStatus.OFFLINE


class UnhurriedClock(FrozenClock):
    """A clock whose sleep leaves the store time to write."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        await asyncio.sleep(0.02)


@pytest.mark.proves("FL-5")
async def test_a_server_is_asked_whether_its_connection_lives_before_another_takes_over() -> None:
    store = Store(clock=UnhurriedClock())
    one = Server(store)
    first, proven, _ = await one.connect(StubPeer(done))

    def hint(about: Mapping[str, Any]) -> None:
        one.live.review(about["node"], doubted=about.get("doubt") is True)

    two = Server(store, hint)
    with pytest.raises(RpcFailed, match="conflict"):
        await two.connect(StubPeer(done), proven["state"])
    assert store.nodes.kept[WEB].status is NodeStatus.CONFLICT
    assert one.live.find(WEB) is None
    assert two.live.find(WEB) is None
    await first.end()


async def test_two_connections_at_the_same_moment_are_not_both_taken() -> None:
    store = Store()

    class Racing(MemoryNodes):
        async def states(self, node_id: Any) -> Any:
            found = await super().states(node_id)
            self.kept[WEB] = Node(id=WEB, name="web-1", public_key=KEY.public, generation=5)
            return found

    store.nodes = Racing(store.nodes.database)
    one = Server(store)
    with pytest.raises(RpcFailed, match="same moment"):
        await one.connect(StubPeer(done))


async def settled(server: Server, document: Mapping[str, Any], command: str, verdict: Verdict) -> Any:
    """Queue a command while the node is away, change the policy, and return what came of it."""
    store = server.store
    wish = CommandRequest(node=store.nodes.kept[WEB], tool_name="run_command", arguments={"command": command}, by="ada")
    approver = "ada" if verdict is Verdict.ASK else ""
    queued = server.dispatch.command(wish, Ruling(verdict, "", "r", ""), CommandStatus.QUEUED, approver)
    await store.commands.add(queued)
    await store.nodes.update(WEB, {"security_policy_json": dict(document)})
    link, _, _ = await server.connect(StubPeer(done))
    async with asyncio.timeout(60):
        found = await server.dispatch.outcome(queued.execution_id)
    await link.end()
    return found, queued


@pytest.mark.proves("FL-22")
@pytest.mark.parametrize(
    ("document", "command", "verdict", "status"),
    [
        ({"blocked_commands": ["reboot"]}, "uptime", Verdict.ALLOW, CommandStatus.SUCCESS),
        ({"blocked_commands": ["uptime"]}, "uptime", Verdict.ALLOW, CommandStatus.BLOCKED),
        ({"blocked_commands": ["reboot"]}, "touch /srv/a", Verdict.ASK, CommandStatus.ERROR),
        ({}, "touch /srv/a", Verdict.ASK, CommandStatus.SUCCESS),
    ],
)
async def test_a_queued_command_is_judged_again_when_the_policy_has_changed(
    document: Mapping[str, Any], command: str, verdict: Verdict, status: CommandStatus
) -> None:
    found, queued = await settled(Server(Store()), document, command, verdict)
    assert found.status is status
    if status is CommandStatus.SUCCESS and document:
        assert found.bound_hash != queued.bound_hash


async def test_a_node_that_missed_a_change_of_policy_gets_it_and_is_asked_again() -> None:
    store, heard = Store(), list[str]()

    def behind(method: str, params: Mapping[str, Any]) -> Any:
        heard.append(method)
        if method == Method.EXECUTE and Method.POLICY_SYNC not in heard:
            raise RpcFailed(RpcCode.POLICY_CHANGED, "another policy is in force")
        return {"status": "success"}

    server = Server(store)
    wish = CommandRequest(
        node=store.nodes.kept[WEB], tool_name="run_command", arguments={"command": "uptime"}, by="ada"
    )
    command = server.dispatch.command(wish, Ruling(Verdict.ALLOW, "", "r", ""), CommandStatus.QUEUED)
    await store.commands.add(command)
    link, _, _ = await server.connect(StubPeer(behind))
    async with asyncio.timeout(60):
        found = await server.dispatch.outcome(command.execution_id)
    assert found.status is CommandStatus.SUCCESS
    assert heard == [Method.EXECUTE, Method.POLICY_SYNC, Method.EXECUTE]
    await link.end()


async def test_a_store_that_is_away_for_a_moment_does_not_end_the_sending() -> None:
    store = Store()

    class Failing(MemoryCommands):
        failures = 1

        async def due(self, *given: Any) -> Any:
            if self.failures:
                self.failures -= 1
                raise StoreUnavailable("the database restarts")
            return await super().due(*given)

    store.commands = Failing()
    server = Server(store)
    link, _, _ = await server.connect(StubPeer(done))
    await asyncio.sleep(0.01)
    wish = CommandRequest(
        node=store.nodes.kept[WEB], tool_name="run_command", arguments={"command": "uptime"}, by="ada"
    )
    command = server.dispatch.command(wish, Ruling(Verdict.ALLOW, "", "r", ""), CommandStatus.QUEUED)
    await server.dispatch.send(command)
    async with asyncio.timeout(60):
        assert (await server.dispatch.outcome(command.execution_id)).status is CommandStatus.SUCCESS
    await link.end()


@pytest.mark.proves("FL-24")
async def test_what_a_halted_plan_has_queued_waits_and_what_an_aborted_one_has_is_never_sent() -> None:
    store = Store()
    server = Server(store)
    wish = CommandRequest(
        node=store.nodes.kept[WEB], tool_name="run_command", arguments={"command": "uptime"}, by="ada", plan_id="p"
    )
    command = server.dispatch.command(wish, Ruling(Verdict.ALLOW, "", "r", ""), CommandStatus.QUEUED)
    await store.commands.add(command)
    server.plan = PlanStatus.HALTED
    peer = StubPeer(done)
    link, _, _ = await server.connect(peer)
    await asyncio.sleep(0.01)
    assert [method for method, _ in peer.calls if method == Method.EXECUTE] == []
    assert store.commands.kept[command.execution_id].status is CommandStatus.QUEUED
    server.plan = PlanStatus.RUNNING
    server.live.poke(WEB)
    async with asyncio.timeout(60):
        assert (await server.dispatch.outcome(command.execution_id)).status is CommandStatus.SUCCESS
    server.plan = PlanStatus.ABORTED
    other = server.dispatch.command(
        replace(wish, execution_id="other"), Ruling(Verdict.ALLOW, "", "r", ""), CommandStatus.QUEUED
    )
    await server.dispatch.send(other)
    async with asyncio.timeout(60):
        assert (await server.dispatch.outcome("other")).status is CommandStatus.CANCELLED
    assert len([method for method, _ in peer.calls if method == Method.EXECUTE]) == 1
    await link.end()


@pytest.mark.proves("FL-7")
async def test_at_most_eight_calls_are_under_way_on_a_connection() -> None:
    store, answered = Store(), asyncio.Event()

    class SlowPeer(StubPeer):
        async def call(self, method: str, params: Mapping[str, Any], *, timeout_s: float | None) -> Any:
            self.calls.append((method, dict(params)))
            await answered.wait()
            return {"status": "success"}

    server, peer = Server(store), SlowPeer()
    link, _, _ = await server.connect(peer)
    wish = CommandRequest(
        node=store.nodes.kept[WEB], tool_name="run_command", arguments={"command": "uptime"}, by="ada"
    )
    ruling = Ruling(Verdict.ALLOW, "", "r", "")
    sent = [
        server.dispatch.command(replace(wish, execution_id=f"e{number}"), ruling, CommandStatus.SENT)
        for number in range(12)
    ]
    await server.dispatch.send(*sent)
    await asyncio.sleep(0.02)
    assert len(peer.calls) == 8
    answered.set()
    async with asyncio.timeout(60):
        for each in sent:
            assert (await server.dispatch.outcome(each.execution_id)).status is CommandStatus.SUCCESS
    await link.end()
