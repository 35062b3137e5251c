"""A call to a machine carries its arguments there: what the run has read elsewhere goes only after a question."""

from typing import Any

import pytest

from agent_fabric.application.fleet.call_nodes import CallNodes
from agent_fabric.application.fleet.dispatch_command import DispatchCommand
from agent_fabric.application.fleet.enrol_node import InviteNode
from agent_fabric.application.fleet.fleet_policy import FleetDoor, FleetPolicy
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.fleet.operate_nodes import OperateNodes
from agent_fabric.application.fleet.remote_tools import RemoteTools
from agent_fabric.application.fleet.review_link import ReviewLink
from agent_fabric.application.tools.call_site import CallSite
from agent_fabric.application.tools.proposed_call import command_that_leaves, propose
from agent_fabric.domain.errors import Forbidden, InvalidInputs
from agent_fabric.domain.fleet.chosen_node import sent_key
from agent_fabric.domain.fleet.nodes import labels_from
from agent_fabric.domain.fleet.served_tools import ServedTool
from agent_fabric.domain.identity.principals import Kind, Principal, Scope
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.labels import MACHINES, WORKSPACE_FILES, Flow, OutgoingLimits, machine_source
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.tools.specs import ToolSpec
from agent_fabric.infrastructure.packs.sysadmin import node_tools, served_spec
from agent_fabric.testing.fakes import FrozenClock
from memory_storage import MemoryCalls, MemoryCommands, MemoryInvites, MemoryPlans
from unit.application.fleet.stand_ins import WEB, nodes_with
from unit.application.fleet.test_remote_tools import StubApprovals

WEB_1, WEB_2 = machine_source("web-1"), machine_source("web-2")
SERVED = served_spec(
    ServedTool(name="web-1.disks.usage", node="web-1", server="disks", tool="usage", description="", parameters={})
)


def door(**node: Any) -> FleetDoor:
    dispatch = DispatchCommand(
        nodes_with(**node), MemoryCommands(), LiveNodes(), FrozenClock(tick=0.001), lambda _: None
    )
    opened = FleetDoor()
    opened.open(RemoteTools(dispatch, StubApprovals(), MemoryPlans()))  # type: ignore[arg-type] # it only lists
    return opened


def spec_of(tool: str) -> ToolSpec:
    return SERVED if tool == SERVED.name else next(spec for spec, _ in node_tools(FleetDoor()) if spec.name == tool)


def judge(flow: Flow, tool: str = "node_run_command", /, *, policy: RulePolicy | None = None, **args: Any) -> Ruling:
    labels = args.pop("labels", {})
    floor = args.pop("floor", {})
    site = CallSite(
        run_id=RunId("r"), lane=LaneId("l"), step=0, agent="sysadmin", target="", scopes=frozenset(), flow=flow
    )
    named = {} if tool == SERVED.name else {"node": "web-1"}
    call = propose(spec_of(tool), {**named, **args}, site, "A")
    fleet = door(labels=labels, reported={"floor": floor}, security_policy_json=floor)
    return FleetPolicy(policy or RulePolicy(), fleet).judge(call)


def read(*private: str, by: tuple[str, ...] = (WEB_1,), **more: Any) -> Flow:
    return Flow(exposed=by, private=private, **more)


@pytest.mark.proves("WB-1")
@pytest.mark.parametrize(
    "private", ["documents and facts in memory", WORKSPACE_FILES, WEB_2, "files sent on telegram", "mcp: mail (x)"]
)
def test_a_reading_command_with_private_data_of_elsewhere_asks(private: str) -> None:
    ruling = judge(read(WEB_1, private), command="echo hunter2")
    assert (ruling.verdict, ruling.rule) == (Verdict.ASK, "private_data")
    assert private in ruling.reason
    assert "the machine web-1" in ruling.reason
    assert ruling.alike == "every `node_run_command` to the machine web-1, also after untrusted text"
    assert judge(read(WEB_1, private), "node_read_file", path="/etc/hosts").verdict is Verdict.ASK
    assert judge(read(WEB_1, private), SERVED.name, text="x").verdict is Verdict.ASK


@pytest.mark.proves("WB-1")
def test_what_came_from_a_machine_may_go_back_to_it() -> None:
    for flow in (read(WEB_1), read(WEB_1, MACHINES), read(WORKSPACE_FILES, by=())):
        assert judge(flow, command="df -h").rule == "read_only", flow


def test_a_machine_that_is_told_nothing_new_asks_nothing_a_limited_number_of_times() -> None:
    both = {"by": (WEB_2,)}
    assert judge(read(WEB_2, **both), "node_system_info").rule == "arguments_in_task"
    assert judge(read(WEB_2, task="run df -h there", **both), command="df -h").rule == "arguments_in_task"
    sent = frozenset({sent_key("node_run_command", {"node": "web-2", "command": "df -h"})})
    assert judge(read(WEB_2, sent=sent, **both), command="df -h").rule == "arguments_sent_before"
    assert judge(read(WEB_2, sent=sent, **both), command="df -i").verdict is Verdict.ASK
    few = RulePolicy(outgoing=OutgoingLimits(task_calls=1))
    used = read(WEB_2, sent=sent, task_calls=1, **both)
    assert judge(used, command="df -h", policy=few).verdict is Verdict.ASK


def test_a_change_that_asks_anyway_asks_once_with_both_reasons_and_for_this_call_only() -> None:
    ruling = judge(read(WEB_1, WEB_2), command="systemctl restart nginx")
    assert (ruling.verdict, ruling.alike) == (Verdict.ASK, "")
    assert "may change something" in ruling.reason
    assert "private data" in ruling.reason
    sent = frozenset({sent_key("node_run_command", {"node": "web-2", "command": "rm /tmp/x"})})
    assert judge(read(WEB_2, sent=sent), command="rm /tmp/x").verdict is Verdict.ASK


def test_an_allowed_change_asks_after_text_of_others_and_not_after_that_of_the_machine() -> None:
    floor = {"rules": [{"id": "restart", "verdict": "allow", "commands": ["systemctl restart nginx"]}]}
    command = "systemctl restart nginx"
    assert judge(read(), command=command, floor=floor).verdict is Verdict.ALLOW
    assert judge(read(by=("web: https://evil.example",)), command=command, floor=floor).rule == "untrusted_text"
    assert judge(read(by=(WEB_2,)), command=command, floor=floor).rule == "untrusted_text"


def test_a_mark_of_a_secret_asks_whatever_was_read() -> None:
    assert judge(Flow(), command="echo '[secret: token]'").rule == "secret_in_arguments"


@pytest.mark.proves("WB-1")
def test_private_data_goes_unasked_to_a_machine_that_an_admin_trusts_with_it() -> None:
    flow = read(WEB_1, WORKSPACE_FILES)
    for what, verdict in {"data": Verdict.ALLOW, "true": Verdict.ALLOW, "text": Verdict.ASK}.items():
        assert judge(flow, command="echo x", labels={"trusted": what}).verdict is verdict, what
    assert judge(flow, command="rm x", labels={"trusted": "true"}).verdict is Verdict.ASK, "its own policy still holds"


def test_a_push_on_a_machine_is_no_push_from_here() -> None:
    site = CallSite(run_id=RunId("r"), lane=LaneId("l"), step=0, agent="sysadmin", target="/w", scopes=frozenset())
    there = propose(spec_of("node_run_command"), {"node": "web-1", "command": "git push"}, site, "A")
    assert command_that_leaves(there, site) is None


def principal(*scopes: Scope, run: str = "") -> Principal:
    return Principal("ada", Kind.USER, frozenset(scopes), run=run)


@pytest.mark.proves("WB-1")
async def test_only_an_admin_trusts_a_machine_and_never_a_run_or_an_invitation() -> None:
    nodes, live, clock = nodes_with(), LiveNodes(), FrozenClock(tick=0.001)
    call = CallNodes(live, MemoryCalls(), clock, False, lambda _: None, lambda _: None)
    dispatch = DispatchCommand(nodes, MemoryCommands(), live, clock, lambda _: None)
    operate = OperateNodes(dispatch, lambda *_: True, call, ReviewLink(nodes, live))
    admin, operator = principal(Scope.ADMIN, Scope.NODES), principal(Scope.NODES)
    for by in (operator, principal(Scope.ADMIN, run="r1")):
        with pytest.raises(Forbidden, match="trust a machine"):
            await operate.label(WEB, {"trusted": "true"}, by=by)
    with pytest.raises(InvalidInputs, match="trusted is `true`"):
        await operate.label(WEB, {"trusted": "yes"}, by=admin)
    assert not nodes.kept[WEB].is_trusted_with_data
    trusted = await operate.label(WEB, {"trusted": "true"}, by=admin)
    assert trusted.is_trusted_with_data
    assert trusted.is_vouched_for
    assert (await operate.label(WEB, {"role": "web"}, by=operator)).is_vouched_for, "other labels leave it alone"
    assert not (await operate.label(WEB, {"trusted": None}, by=operator)).is_vouched_for, "anybody may take it away"
    with pytest.raises(InvalidInputs, match="trusts no machine"):
        await InviteNode(MemoryInvites(nodes), clock)(by=admin, labels={"trusted": "data"})
    assert labels_from({"trusted": "text"}) == {"trusted": "text"}
