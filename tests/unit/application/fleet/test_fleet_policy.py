"""Calls to machines are judged by whoever's run it is, then by the machine."""

from typing import cast

import pytest

from agent_fabric.application.chat.choose_node import ChooseNode
from agent_fabric.application.fleet.dispatch_command import DispatchCommand
from agent_fabric.application.fleet.fleet_policy import FleetDoor, FleetPolicy
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.fleet.remote_tools import RemoteTools
from agent_fabric.application.ports.approvals import ApprovalRepository
from agent_fabric.domain.errors import Forbidden, NodeNotFound, NodeUnavailable
from agent_fabric.domain.fleet.nodes import NodeStatus
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.domain.tools.specs import Effect, ToolContext
from agent_fabric.infrastructure.packs.sysadmin import node_tools
from agent_fabric.testing.fakes import FrozenClock
from memory_storage import MemoryCommands, MemoryPlans
from unit.application.fleet.stand_ins import WEB, nodes_with


def door(status: NodeStatus = NodeStatus.ONLINE) -> FleetDoor:
    dispatch = DispatchCommand(
        nodes_with(status=status), MemoryCommands(), LiveNodes(), FrozenClock(tick=0.001), lambda _: None
    )
    opened = FleetDoor()
    opened.open(RemoteTools(dispatch, cast("ApprovalRepository", None), MemoryPlans()))
    return opened


def call(*scopes: str, tool: str = "node_system_info", **args: str) -> ProposedCall:
    return ProposedCall(tool=tool, args={"node": "web-1", **args}, effect=Effect.READS, scopes=frozenset(scopes))


@pytest.mark.proves("FL-25")
def test_a_run_operates_machines_only_for_somebody_who_may() -> None:
    policy = FleetPolicy(RulePolicy(), door())
    for scopes in ((), ("nodes", "runs"), ("admin",), ("nodes", "tools:node_*"), ("nodes", "tools:read")):
        assert policy.judge(call(*scopes)).verdict is Verdict.ALLOW, scopes
    for scopes in (("runs",), ("runs", "tools:*"), ("nodes", "tools:none"), ("nodes", "tools:shell")):
        ruling = policy.judge(call(*scopes))
        assert (ruling.verdict, ruling.rule) == (Verdict.BLOCK, "scope"), scopes
    plan = ProposedCall(tool="fleet-plan", args={}, effect=Effect.READS, scopes=frozenset({"runs"}))
    assert policy.judge(plan).verdict is Verdict.ASK


async def test_a_call_that_names_no_machine_does_nothing() -> None:
    tools = {spec.name: function for spec, function in node_tools(door())}
    result = await tools["node_system_info"]({}, cast("ToolContext", None))
    assert not result.success
    assert "Name the machine" in result.error


async def test_who_talks_about_a_machine_may_operate_it_and_it_is_there() -> None:
    choose = ChooseNode(door())
    assert await choose("", ()) == ""
    assert await choose("web-1", ("nodes",), now=True) == "web-1"
    assert await choose(WEB, ("nodes",)) == "web-1"
    with pytest.raises(Forbidden, match="nodes"):
        await choose("web-1", ("runs",))
    with pytest.raises(NodeNotFound):
        await choose("web-2", ("nodes",))
    with pytest.raises(NodeUnavailable, match="connected to a server"):
        await ChooseNode()("web-1", ("nodes",))


async def test_a_machine_that_is_away_can_be_chosen_but_not_talked_about() -> None:
    choose = ChooseNode(door(NodeStatus.OFFLINE))
    assert await choose("web-1", ("nodes",)) == "web-1"
    with pytest.raises(NodeUnavailable, match="offline; it was last seen") as away:
        await choose("web-1", ("nodes",), now=True)
    assert "/node" in away.value.hint
    with pytest.raises(NodeUnavailable, match="revoked"):
        await ChooseNode(door(NodeStatus.REVOKED))(WEB, ("nodes",))
