"""Node tools of agents: signed where a machine wants it, and proven when the machine was read afterwards."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent_fabric.application.fleet.dispatch_command import DispatchCommand
from agent_fabric.application.fleet.fleet_policy import FleetDoor
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.fleet.remote_tools import RemoteTools, SettleCommands, execution_id_of_call
from agent_fabric.application.ports.approvals import ApprovalCard, ApprovalRepository, ApprovalStatus
from agent_fabric.domain.errors import InvalidInputs, NodeUnavailable
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.tools.findings import ProofKind
from agent_fabric.domain.tools.specs import ToolContext, ToolResult
from agent_fabric.infrastructure.packs.sysadmin import build_sysadmin_pack
from agent_fabric.testing.fakes import FrozenClock
from memory_storage import MemoryCommands, MemoryPlans
from unit.application.fleet.stand_ins import nodes_with

RUN = RunId("run-1")
SIGNED = {"reported": {"approvals": "signed", "approvers": ["ada"], "quorum": 1}}


class StubApprovals:
    """Approvals as a test wants them."""

    def __init__(self, *cards: Any) -> None:
        self.cards = list(cards)

    async def list(self, **_: Any) -> list[Any]:
        return self.cards


def card(call_id: str, status: ApprovalStatus = ApprovalStatus.APPROVED, **args: Any) -> ApprovalCard:
    values = {"run_id": RUN, "call_id": call_id, "tool": "node_run_command", "args": {"node": "web-1", **args}}
    return cast("ApprovalCard", SimpleNamespace(**values, status=status, decided_by="ada", agent="sysadmin"))


class AnsweredCommands(MemoryCommands):
    """Commands that a machine answers as soon as they are sent."""

    async def _answer(self, command: NodeCommand) -> None:
        if command.status is CommandStatus.QUEUED:
            doubt = "doubt" in str(command.arguments.get("command"))
            status = CommandStatus.IN_DOUBT if doubt else CommandStatus.SUCCESS
            result = {"status": status.value, "exit_code": 0, "duration_ms": 1.0}
            await self.move(command.execution_id, status, since=(CommandStatus.QUEUED,), at=0.0, result=result)

    async def add(self, *commands: NodeCommand) -> None:
        await super().add(*commands)
        for command in commands:
            await self._answer(command)

    async def move(self, execution_id: str, status: CommandStatus, **more: Any) -> NodeCommand | None:
        moved = await super().move(execution_id, status, **more)
        if moved is not None and status is CommandStatus.QUEUED:
            await self._answer(moved)
        return moved


def tools_of(approvals: StubApprovals, **node: Any) -> RemoteTools:
    dispatch = DispatchCommand(
        nodes_with(**node), AnsweredCommands(), LiveNodes(), FrozenClock(tick=0.001), lambda _: None
    )
    return RemoteTools(dispatch, cast("ApprovalRepository", approvals), MemoryPlans())


async def run_command(tools: RemoteTools, call_id: str, command: str) -> NodeCommand:
    arguments = {"command": command}
    return await tools.execute("web-1", "run_command", arguments, run_id=RUN, call_id=CallId(call_id), by="sysadmin")


@pytest.mark.proves("FL-18", "FL-25")
async def test_what_an_agent_wants_is_signed_before_it_is_approved() -> None:
    asked = card("c1", command="systemctl restart nginx")
    tools = tools_of(StubApprovals(asked), **SIGNED)
    with pytest.raises(NodeUnavailable, match="not signed"):
        await run_command(tools, "c1", "systemctl restart nginx")
    prepared = await tools.prepare(asked)
    assert prepared.execution_id == execution_id_of_call(RUN, CallId("c1"))
    assert (await tools.prepare(asked)).bound_hash == prepared.bound_hash  # asking twice changes nothing
    with pytest.raises(InvalidInputs, match="not the one that was signed"):
        await run_command(tools, "c1", "systemctl stop nginx")
    signature = {"approver": "ada", "signature": "00"}
    waiting = CommandStatus.WAITING
    await tools.dispatch.commands.move(
        prepared.execution_id, waiting, since=(waiting,), at=0.0, signatures=(signature,)
    )
    done = await asyncio.wait_for(run_command(tools, "c1", "systemctl restart nginx"), 60)
    assert (done.status, done.signatures, done.approver) == (CommandStatus.SUCCESS, (signature,), "ada")


async def test_only_the_answer_about_a_command_settles_it() -> None:
    asked = card("c2", ApprovalStatus.PENDING, command="systemctl restart nginx")
    approvals = StubApprovals(card("c1", ApprovalStatus.DENIED, command="reboot"), asked)
    tools = tools_of(approvals, **SIGNED)
    prepared = await tools.prepare(asked)
    settle = SettleCommands(tools)
    await settle.settle()
    kept = await tools.dispatch.commands.find(prepared.execution_id)
    assert kept is not None
    assert kept.status is CommandStatus.WAITING
    approvals.cards[1] = card("c2", ApprovalStatus.DENIED, command="systemctl restart nginx")
    await settle.settle()
    kept = await tools.dispatch.commands.find(prepared.execution_id)
    assert kept is not None
    assert kept.status is CommandStatus.DENIED


async def test_agents_open_no_shells_and_upgrade_nothing() -> None:
    for tool in ("shell", "upgrade", "file_put"):
        with pytest.raises(InvalidInputs, match="for people"):
            await tools_of(StubApprovals()).execute("web-1", tool, {}, run_id=RUN, call_id=CallId("c1"), by="")


@pytest.mark.proves("FL-25", "FC-022")
async def test_a_change_is_proven_when_the_machine_was_read_afterwards() -> None:
    door = FleetDoor()
    tools = tools_of(StubApprovals(*(card(f"c{number}") for number in range(9))))
    door.open(tools)
    pack = build_sysadmin_pack(door)
    assert pack.finish.needs_reading_back
    numbers = iter(range(9))

    async def call(command: str) -> ToolResult:
        context = ToolContext(run_id=RUN, call_id=CallId(f"c{next(numbers)}"), timeout_s=60, network_allowed=False)
        return await pack.execute_tool("node_run_command", {"node": "web-1", "command": command}, context)

    looked = await call("systemctl is-active nginx")
    assert (looked.changed, looked.proved) == (False, "")
    changed = await call("systemctl restart nginx")
    assert (changed.changed, changed.output["not_read_back"]) == (True, ["web-1"])
    proven = await call("systemctl is-active nginx")
    assert (proven.proved, proven.proof_kind) == ("web-1: systemctl is-active nginx", ProofKind.MACHINE)
    doubted = await call("systemctl restart doubt")
    assert (doubted.success, doubted.changed, doubted.output["status"]) == (True, True, "in_doubt")
    assert (await call("uptime")).proof_kind is ProofKind.MACHINE
