"""Node tools inside runs: what an agent or a step of a workflow does on machines of the fleet."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent_fabric.application.fleet.dispatch_command import DispatchCommand, Wish
from agent_fabric.application.ports.approvals import ApprovalRepository, ApprovalStatus
from agent_fabric.application.ports.fleet import PlanRepository
from agent_fabric.domain.errors import InvalidInputs, NodeUnavailable
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.node_tools import NOT_FOR_AGENTS
from agent_fabric.domain.fleet.nodes import Node
from agent_fabric.domain.fleet.plans import Plan, PlanStatus
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.policy.verdicts import Verdict


@dataclass(frozen=True, slots=True)
class RemoteTools:
    """Use case: run a tool on a node for a run, with the approval that the run has got for it."""

    dispatch: DispatchCommand
    approvals: ApprovalRepository
    plans: PlanRepository

    async def nodes(self) -> Sequence[Node]:
        """Return the machines."""
        return await self.dispatch.nodes.list()

    async def execute(
        self, which: str, tool_name: str, arguments: Mapping[str, Any], *, run_id: RunId, call_id: CallId, by: str
    ) -> NodeCommand:
        """Run a tool on a node and wait for the result.

        Raises:
            FabricError: there is no such node, it is not there, or its policy forbids the call.
        """
        execution_id = execution_id_of_call(run_id, call_id)
        if await self.dispatch.commands.find(execution_id) is not None:  # the server was killed while it waited
            return await self.dispatch.outcome(execution_id)
        if tool_name in NOT_FOR_AGENTS:
            raise InvalidInputs(f"{tool_name} is for people, and not for runs")
        node = await self.dispatch.node(which)
        wish = Wish(
            node=node, tool_name=tool_name, arguments=arguments, by=by, run_id=run_id, execution_id=execution_id
        )
        ruling = self.dispatch.judge(wish)
        self.dispatch.require_usable(node, queue=False)
        approver = await self._approver(run_id, call_id)
        if ruling.verdict is Verdict.BLOCK:
            blocked = self.dispatch.command(wish, ruling, CommandStatus.BLOCKED)
            await self.dispatch.commands.add(blocked)
            raise NodeUnavailable(ruling.reason)
        if ruling.verdict is Verdict.ASK and not approver:
            raise NodeUnavailable(f"{ruling.reason} The policy of the node has changed: call it again.")
        if ruling.verdict is Verdict.ASK and node.wants_signatures:
            raise NodeUnavailable(
                f"{node.name} wants signed approvals, which a run cannot bring",
                hint=f"A person runs it: fabric nodes exec {node.name} -- …",
            )
        command = self.dispatch.command(wish, ruling, CommandStatus.QUEUED, approver)
        await self.dispatch.send(command)
        return await self.dispatch.outcome(command.execution_id)

    async def carry_out(self, execution_id: str, arguments: Mapping[str, Any], *, run_id: RunId) -> NodeCommand:
        """Send a command that waited for the approval of its run, and wait for the result; once, however often.

        Raises:
            FabricError: the command is not the one that was shown.
        """
        found = await self.dispatch.commands.find(execution_id)
        if found is None or found.run_id != run_id or dict(found.arguments) != dict(arguments):
            raise InvalidInputs("The command is not the one that was asked for")
        if found.status is CommandStatus.WAITING:
            approver = await self._approver(run_id, None)
            if not approver:
                raise InvalidInputs("No person has approved the command")
            await self.dispatch.release(execution_id, approver)
        return await self.dispatch.outcome(execution_id)

    async def begin_plan(self, shown: Mapping[str, Any], *, run_id: RunId) -> Plan:
        """Begin a plan that a person has agreed to, as it was shown to them.

        Raises:
            InvalidInputs: it is not the plan that was shown, or nobody has agreed.
        """
        plan = await self.plans.find(str(shown.get("plan_id")))
        if plan is None or plan.run_id != run_id or plan.hash != shown.get("hash"):
            raise InvalidInputs("The plan is not the one that was asked for")
        frozen = (plan.tool_name, dict(plan.arguments), [call.node for call in plan.calls], plan.check)
        if frozen != (shown.get("tool_name"), shown.get("arguments"), shown.get("nodes"), shown.get("check")):
            raise InvalidInputs("The plan is not the one that was shown")
        approver = await self._approver(run_id, None)
        if not approver:
            raise InvalidInputs("No person has approved the plan")
        if plan.status is PlanStatus.WAITING:
            now = self.dispatch.clock.now()
            begun = replace(plan, status=PlanStatus.RUNNING, approver=approver, updated_at=now)
            if not await self.plans.replace(begun, before=plan):
                raise InvalidInputs("The plan has been changed meanwhile")
            return begun
        return plan

    async def settle_denied(self) -> None:
        """Settle commands whose run was not allowed to send them."""
        for command in await self.dispatch.commands.list(open_only=True, limit=1_000):
            if command.status is not CommandStatus.WAITING or not command.run_id:
                continue
            cards = await self.approvals.list(run_id=RunId(command.run_id), pending_only=False)
            status = next((_SETTLED[card.status] for card in cards if card.status in _SETTLED), None)
            if status is not None:
                await self.dispatch.end(command.execution_id, status, f"it was {status.value}")

    async def _approver(self, run_id: RunId, call_id: CallId | None) -> str:
        cards = await self.approvals.list(run_id=run_id, pending_only=False)
        agreed = [
            card.decided_by
            for card in cards
            if card.status is ApprovalStatus.APPROVED and call_id in {None, card.call_id}
        ]
        return agreed[-1] if agreed else ""


def execution_id_of_call(run_id: RunId, call_id: CallId) -> str:
    """Return the id of the command that a call of a run becomes: the same however often the run is taken up."""
    return str(uuid.uuid5(_CALLS, f"{run_id} {call_id}"))


_CALLS = uuid.UUID("6f1f2a0e-5f0b-4b52-9d3c-0a4e5b7c9d21")
_SETTLED = {
    ApprovalStatus.DENIED: CommandStatus.DENIED,
    ApprovalStatus.EXPIRED: CommandStatus.EXPIRED,
    ApprovalStatus.CANCELLED: CommandStatus.CANCELLED,
}


async def settle_denied_forever(tools: RemoteTools, every_s: float) -> None:
    """Settle denied commands for as long as the server lives."""
    while True:
        await asyncio.sleep(every_s)
        await tools.settle_denied()
