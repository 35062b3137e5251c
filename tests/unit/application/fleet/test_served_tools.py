"""Tools of MCP servers on machines: offered as `NODE.SERVER.tool`, judged and carried out as `mcp.proxy`."""

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent_fabric.application.fleet.dispatch_command import DispatchCommand
from agent_fabric.application.fleet.fleet_policy import FleetDoor, FleetPolicy
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.fleet.machine_calls import named_machines
from agent_fabric.application.fleet.remote_tools import RemoteTools
from agent_fabric.application.ports.approvals import ApprovalCard, ApprovalRepository, ApprovalStatus
from agent_fabric.domain.fleet.chosen_node import offered_about
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.served_tools import node_call, served_name
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.engine import RulePolicy
from agent_fabric.domain.policy.verdicts import Verdict
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult
from agent_fabric.infrastructure.packs.sysadmin import MAX_OFFERED, SysadminPack, build_sysadmin_pack
from agent_fabric.testing.fakes import FrozenClock
from memory_storage import MemoryCommands, MemoryPlans
from unit.application.fleet.stand_ins import nodes_with

RUN = RunId("run-1")
USAGE = {"name": "usage", "description": "Tells how full a disk is.\x1b[2J", "inputSchema": {"type": "object"}}
NAME = "web-1.disks.usage"
ALLOWING = {"rules": [{"id": "look", "verdict": "allow", "tools": ["disks.usage"]}]}


class ServedCommands(MemoryCommands):
    """Commands that a machine with the server `disks` answers as soon as they are sent."""

    def __init__(self, tools: list[dict[str, Any]]) -> None:
        super().__init__()
        self.tools = tools
        self.asked: list[str] = []
        self.answer: Mapping[str, Any] = {"result": {"content": [{"type": "text", "text": "81 %"}]}}

    async def add(self, *commands: NodeCommand) -> None:
        await super().add(*commands)
        for command in commands:
            inner = command.arguments["inner_request"]
            self.asked.append(inner["method"])
            listing = inner["method"] == "tools/list"
            output = {"result": {"tools": self.tools}} if listing else self.answer
            if command.arguments["target_server"] == "broken":
                output = {"error": {"message": "it is broken"}}
            result = {"status": "success", "output": output, "duration_ms": 1.0}
            since = (CommandStatus.QUEUED, CommandStatus.SENT)
            await self.move(command.execution_id, CommandStatus.SUCCESS, since=since, at=0.0, result=result)


def fleet(
    *servers: str, tools: list[dict[str, Any]] | None = None, floor: Mapping[str, Any] | None = None
) -> tuple[FleetDoor, ServedCommands]:
    reported = {"mcp_servers": [{"name": name} for name in servers or ("disks",)], "floor": floor or {}}
    commands = ServedCommands([USAGE] if tools is None else tools)
    nodes = nodes_with(reported=reported, security_policy_json=dict(floor or {}))
    dispatch = DispatchCommand(nodes, commands, LiveNodes(), FrozenClock(tick=0.001), lambda _: None)
    approved = SimpleNamespace(call_id="c1", status=ApprovalStatus.APPROVED, decided_by="ada")

    async def cards(**_: Any) -> list[Any]:
        return [approved]

    approvals = cast("ApprovalRepository", SimpleNamespace(list=cards))
    door = FleetDoor()
    door.open(RemoteTools(dispatch, approvals, MemoryPlans()))
    return door, commands


async def opened(door: FleetDoor) -> SysadminPack:
    pack = build_sysadmin_pack(door)
    await pack.aopen()
    return pack


async def execute(pack: SysadminPack, name: str = NAME) -> ToolResult:
    context = ToolContext(run_id=RUN, call_id=CallId("c1"), timeout_s=60, network_allowed=False)
    return await pack.execute_tool(name, {"path": "/"}, context)


def propose(server: str = "node: disks on web-1") -> ProposedCall:
    return ProposedCall(tool=NAME, args={"path": "/"}, effect=Effect.LEAVES_SANDBOX, server=server)


@pytest.mark.proves("FL-14", "C18")
async def test_tools_of_a_server_on_a_machine_are_offered_and_called_by_their_names() -> None:
    door, commands = fleet()
    pack = await opened(door)
    (spec,) = [each for each in pack.tool_definitions if "." in each.name]
    assert (spec.name, spec.described_elsewhere) == (NAME, True)
    assert spec.description == "Tells how full a disk is.[2J", "nothing that a terminal would obey"
    result = await execute(pack)
    assert result.output["text"] == "81 %"
    (sent,) = [each for each in commands.kept.values() if each.run_id == RUN]
    assert (sent.tool_name, sent.arguments["target_server"]) == ("mcp_proxy", "disks")
    assert sent.arguments["inner_request"]["params"] == {"name": "usage", "arguments": {"path": "/"}}
    commands.answer = {"error": {"code": -32000, "message": "no such disk"}}
    commands.kept.clear()
    assert (await execute(pack)).error == "no such disk"


async def test_a_machine_is_asked_once_for_many_runs() -> None:
    door, commands = fleet()
    await opened(door)
    await opened(door)
    listed = await (await opened(door)).execute_tool("node_list", {}, cast("ToolContext", None))
    assert listed.output["nodes"][0]["tools"] == [NAME]
    assert commands.asked == ["tools/list"]


async def test_a_server_that_fails_takes_only_its_own_tools_with_it() -> None:
    door, _ = fleet("broken", "disks")
    pack = await opened(door)
    assert NAME in {each.name for each in pack.tool_definitions}
    assert "web-1: broken: it is broken" in pack.notices[0]


async def test_too_many_tools_are_not_offered_but_answer() -> None:
    door, _ = fleet(tools=[{**USAGE, "name": f"tool-{number}"} for number in range(MAX_OFFERED + 2)])
    pack = await opened(door)
    assert [each.name for each in pack.hidden_tools] == [f"web-1.disks.tool-{MAX_OFFERED + n}" for n in (0, 1)]
    assert "2 tools" in pack.notices[0]


async def test_a_process_without_a_fleet_offers_none() -> None:
    pack = await opened(FleetDoor())
    assert not any("." in each.name for each in pack.tool_definitions)


@pytest.mark.proves("FL-14", "C18")
def test_the_policy_judges_the_request_inside() -> None:
    door, _ = fleet()
    assert FleetPolicy(RulePolicy(), door).judge(propose()).verdict is Verdict.ASK
    allowing, _ = fleet(floor=ALLOWING)
    assert FleetPolicy(RulePolicy(), allowing).judge(propose()).verdict is Verdict.ALLOW
    blocking, _ = fleet(floor={"rules": [{**ALLOWING["rules"][0], "verdict": "block"}]})
    assert FleetPolicy(RulePolicy(), blocking).judge(propose()).verdict is Verdict.BLOCK


def test_a_tool_of_a_pack_with_dots_in_its_name_is_no_call_to_a_machine() -> None:
    allowing, _ = fleet(floor=ALLOWING)
    policy = FleetPolicy(RulePolicy(), allowing)
    assert policy.judge(propose("")) == RulePolicy().judge(propose(""))
    assert policy.judge(propose("mcp: disks")) == RulePolicy().judge(propose("mcp: disks"))


async def test_a_run_about_a_machine_is_offered_the_tools_of_that_machine() -> None:
    door, _ = fleet()
    pack = await opened(door)
    (spec,) = [each for each in pack.tool_definitions if each.name == NAME]
    other = replace(spec, name="web-2.disks.usage")
    names = [each.name for each in offered_about((*pack.tool_definitions, other), "web-1")]
    assert NAME in names
    assert "web-2.disks.usage" not in names


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("web-1.disks.usage", ("web-1", "disks", "usage")),
        ("db.example.org.disks.usage", ("db.example.org", "disks", "usage")),
        ("disks.usage", None),
        ("read_file", None),
        ("web..usage", None),
        ("-x.disks.usage", None),
        ("web-1.disks.a b", None),
        ("", None),
    ],
)
def test_a_name_has_one_meaning(name: str, parts: tuple[str, str, str] | None) -> None:
    assert served_name(name) == parts


def test_who_names_the_machine_apart_may_leave_it_out() -> None:
    for name in ("disks.usage", "web-1.disks.usage"):
        tool, arguments = node_call("web-1", name, {"path": "/"})
        assert (tool, arguments["target_server"]) == ("mcp_proxy", "disks")
    assert node_call("disks", "disks.usage", {})[1]["target_server"] == "disks"
    assert node_call("web-1", "run_command", {"command": "ls"}) == ("run_command", {"command": "ls"})
    assert node_call("web-1", "web-2.disks.usage", {})[0] == "web-2.disks.usage"


def test_a_card_names_the_machine() -> None:
    card = cast("ApprovalCard", SimpleNamespace(tool=NAME, args={"path": "/"}))
    assert named_machines(card) == ["web-1"]
