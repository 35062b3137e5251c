"""Who is there, as the hub notices it and stores it."""

import pytest

from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.fleet.track_presence import LAST_SEEN_S, TrackPresence
from agent_fabric.domain.fleet.nodes import NodeStatus
from agent_fabric.testing.fakes import FrozenClock
from memory_storage import MemoryCommands, MemoryNodes, MemoryPresence
from unit.application.fleet.stand_ins import WEB, StubPeer, connect, nodes_with

MINUTE_LATER = LAST_SEEN_S + 1.0


def tracking(nodes: MemoryNodes, live: LiveNodes, clock: FrozenClock, holder: str = "") -> TrackPresence:
    return TrackPresence(
        nodes, MemoryPresence(nodes), MemoryCommands(), live, clock, shared=bool(holder), holder=lambda: holder
    )


@pytest.mark.proves("FL-8")
async def test_when_a_node_was_last_heard_of_is_stored_once_a_minute() -> None:
    nodes, live, clock = nodes_with(last_seen=1.0), LiveNodes(), FrozenClock()
    link, _ = connect(live, StubPeer())
    link.stored_at = clock.time
    first = clock.time + MINUTE_LATER
    for seen_at, stored in ((clock.time + 1.0, 1.0), (first, first), (first + 2.0, first)):
        link.seen_at, clock.time = seen_at, seen_at + 1.5
        await tracking(nodes, live, clock).note_seen()
        assert nodes.kept[WEB].last_seen == stored


@pytest.mark.proves("FL-8")
async def test_a_connection_that_is_not_the_newest_any_more_looks_at_what_the_store_says() -> None:
    nodes, live = nodes_with(generation=2, last_seen=1.0), LiveNodes()
    link, _ = connect(live, StubPeer(), generation=1)
    link.seen_at = MINUTE_LATER
    await tracking(nodes, live, FrozenClock()).note_seen()
    assert link.changed
    assert nodes.kept[WEB].last_seen == 1.0


async def test_a_server_that_has_got_another_id_says_so_of_its_connections_at_once() -> None:
    nodes, live, clock = nodes_with(status=NodeStatus.OFFLINE), LiveNodes(), FrozenClock()
    link, _ = connect(live, StubPeer())
    await tracking(nodes, live, clock, holder="w2").note_seen()
    assert (nodes.holder(WEB), nodes.kept[WEB].status, link.held_by) == ("w2", NodeStatus.ONLINE, "w2")


@pytest.mark.proves("FL-8")
@pytest.mark.parametrize(("heartbeat_s", "silent_s", "ends"), [(15.0, 44.0, 0), (15.0, 46.0, 1), (100.0, 299.0, 0)])
async def test_a_connection_ends_after_three_heartbeats_as_the_node_was_told_to_send_them(
    heartbeat_s: float, silent_s: float, ends: int
) -> None:
    live, clock = LiveNodes(), FrozenClock()
    link, closed = connect(live, StubPeer())
    link.heartbeat_s = heartbeat_s
    link.seen_at = clock.time - silent_s
    tracking(nodes_with(), live, clock).end_silent()
    assert len(closed) == ends
