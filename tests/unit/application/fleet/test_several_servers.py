"""Any server may hold a node's connection: the others find it, and none believes an old one."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from agent_fabric.application.fleet.call_nodes import CallNodes
from agent_fabric.application.fleet.json_rpc import RpcFailed
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.fleet.review_link import ReviewLink
from agent_fabric.application.fleet.track_presence import TrackPresence
from agent_fabric.domain.errors import NodeUnavailable
from agent_fabric.domain.fleet.nodes import NodeStatus
from agent_fabric.domain.fleet.protocol import CloseCode, Method
from agent_fabric.testing.fakes import FrozenClock
from memory_storage import MemoryCalls, MemoryCommands, MemoryPresence
from unit.application.fleet.stand_ins import WEB, StubPeer, connect, nodes_with


def _told(method: str, params: Mapping[str, Any]) -> Any:
    return {"method": method, **params}


async def test_a_revoked_node_is_cut_off_by_the_server_that_holds_it() -> None:
    nodes, live = nodes_with(status=NodeStatus.REVOKED), LiveNodes()
    link, closed = connect(live, StubPeer(_told))
    assert not await ReviewLink(nodes, live)(link)
    assert closed == [(CloseCode.REVOKED, "the node is revoked")]
    assert live.find(WEB) is None


async def test_a_changed_policy_reaches_a_node_of_another_server() -> None:
    nodes, live, peer = nodes_with(security_policy_json={"profile": "node"}), LiveNodes(), StubPeer(_told)
    link, _ = connect(live, peer)
    review = ReviewLink(nodes, live)
    assert await review(link)
    assert await review(link)
    assert peer.calls == [(Method.POLICY_SYNC, {"policy": {"profile": "node"}})]


@pytest.mark.proves("FL-5")
async def test_two_machines_at_two_servers_are_a_conflict() -> None:
    nodes, live = nodes_with(generation=2), LiveNodes()
    link, closed = connect(live, StubPeer(_told), generation=1)
    assert not await ReviewLink(nodes, live)(link)
    assert nodes.kept[WEB].status is NodeStatus.CONFLICT
    assert [code for code, _ in closed] == [CloseCode.CONFLICT]


async def test_a_dead_connection_gives_way_to_the_newer_one() -> None:
    nodes, live = nodes_with(generation=2), LiveNodes()
    link, closed = connect(live, StubPeer(None), generation=1)
    assert not await ReviewLink(nodes, live)(link)
    assert nodes.kept[WEB].status is NodeStatus.ONLINE
    assert [code for code, _ in closed] == [1001]


async def test_a_doubted_connection_that_is_dead_sets_its_node_free() -> None:
    nodes, live = nodes_with(), LiveNodes()
    link, _ = connect(live, StubPeer(None))
    live.review(WEB, doubted=True)
    assert not await ReviewLink(nodes, live)(link)
    assert nodes.kept[WEB].status is NodeStatus.OFFLINE


async def test_a_call_finds_the_node_at_another_server() -> None:
    nodes, relay, clock = nodes_with(), MemoryCalls(), FrozenClock()
    here = CallNodes(LiveNodes(), relay, clock, shared=True)
    there_live = LiveNodes()
    link, _ = connect(there_live, StubPeer(_told))
    there = CallNodes(there_live, relay, clock, shared=True)
    asked = asyncio.create_task(here(nodes.kept[WEB], Method.AUDIT, {"after": 3}, timeout_s=60.0))
    while not asked.done():
        await there.answer_waiting(link)
        await asyncio.sleep(0)
    assert await asked == {"method": Method.AUDIT, "after": 3}
    assert relay.kept == {}


async def test_an_error_of_the_node_is_an_error_at_every_server() -> None:
    def refuse(_: str, __: Mapping[str, Any]) -> Any:
        raise RpcFailed(-32001, "blocked", {"rule": "r"})

    nodes, relay, clock = nodes_with(), MemoryCalls(), FrozenClock()
    here, there_live = CallNodes(LiveNodes(), relay, clock, shared=True), LiveNodes()
    link, _ = connect(there_live, StubPeer(refuse))
    there = CallNodes(there_live, relay, clock, shared=True)
    asked = asyncio.create_task(here(nodes.kept[WEB], Method.CANCEL, {}, timeout_s=60.0))
    while not asked.done():
        await there.answer_waiting(link)
        await asyncio.sleep(0)
    with pytest.raises(RpcFailed, match="blocked") as failed:
        await asked
    assert (failed.value.code, failed.value.data) == (-32001, {"rule": "r"})


async def test_a_node_that_is_nowhere_is_unavailable_at_once() -> None:
    nodes, relay = nodes_with(status=NodeStatus.OFFLINE), MemoryCalls()
    with pytest.raises(NodeUnavailable):
        await CallNodes(LiveNodes(), relay, FrozenClock(), shared=True)(nodes.kept[WEB], "x", {}, timeout_s=1.0)
    online = nodes_with().kept[WEB]
    with pytest.raises(NodeUnavailable):
        await CallNodes(LiveNodes(), relay, FrozenClock(), shared=False)(online, "x", {}, timeout_s=1.0)
    assert relay.kept == {}


@pytest.mark.parametrize(
    ("shared", "silent_s", "status"),
    [
        (False, 1.0, NodeStatus.OFFLINE),
        (True, 1.0, NodeStatus.ONLINE),
        (True, 104.0, NodeStatus.ONLINE),
        (True, 108.0, NodeStatus.OFFLINE),
    ],
)
async def test_a_server_that_starts_believes_what_others_have_just_seen(
    shared: bool, silent_s: float, status: NodeStatus
) -> None:
    clock = FrozenClock()
    nodes = nodes_with(last_seen=clock.time - silent_s)
    await TrackPresence(nodes, MemoryPresence(nodes), MemoryCommands(), LiveNodes(), clock, shared).forget_connections()
    assert nodes.kept[WEB].status is status
