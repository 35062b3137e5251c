"""Node tools inside runs: what an agent or a step of a workflow does on machines of the fleet."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent_fabric.application.fleet.dispatch_command import CommandRequest, DispatchCommand
from agent_fabric.application.fleet.fleet_policy import NODE_COMMAND, asked_of_node
from agent_fabric.application.fleet.list_served_tools import ServedCatalogue, ServedListing
from agent_fabric.application.fleet.roll_out_plan import machines_online
from agent_fabric.application.ports.approvals import ApprovalCard, ApprovalRepository, ApprovalStatus
from agent_fabric.application.ports.fleet import PlanRepository
from agent_fabric.domain.errors import InvalidInputs, NodeUnavailable
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.node_tools import NOT_FOR_AGENTS
from agent_fabric.domain.fleet.nodes import Node
from agent_fabric.domain.fleet.plans import Plan, PlanStatus
from agent_fabric.domain.fleet.read_back import not_read_back
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.policy.verdicts import Verdict

MAX_COMMANDS = 1_000
"""Of one run, that are looked at; a run takes at most 50 steps."""


@dataclass(frozen=True, slots=True)
class RemoteTools:
    """Use case: run a tool on a node for a run, with the approval that the run has got for it."""

    dispatch: DispatchCommand
    approvals: ApprovalRepository
    plans: PlanRepository
    catalogue: ServedCatalogue = field(default_factory=ServedCatalogue)

    async def nodes(self) -> Sequence[Node]:
        """Return the machines."""
        return await self.dispatch.nodes.list()

    def vouches_for(self, which: str) -> bool:
        """Tell whether an admin has said that what a machine says counts as the owner's words."""
        node = self.dispatch.nodes.find_now(which)
        return node is not None and node.is_vouched_for

    async def served(self, by: str) -> Sequence[ServedListing]:
        """Return the tools of MCP servers on all machines that are online."""
        return await self.catalogue.everywhere(self.dispatch, by)

    async def execute(
        self, which: str, tool_name: str, arguments: Mapping[str, Any], *, run_id: RunId, call_id: CallId, by: str
    ) -> NodeCommand:
        """Run a tool on a node and wait for the result.

        Raises:
            FabricError: there is no such node, it is not there, or its policy forbids the call.
        """
        execution_id = execution_id_of_call(run_id, call_id)
        kept = await self.dispatch.commands.find(execution_id)
        if kept is not None and kept.status is CommandStatus.WAITING:  # approvers were to sign it
            return await self._send_signed(kept, tool_name, arguments, await self._approver(run_id, call_id))
        if kept is not None:  # the server was killed while it waited
            return await self.dispatch.outcome(execution_id)
        if tool_name in NOT_FOR_AGENTS:
            raise InvalidInputs(f"{tool_name} is for people, and not for runs")
        node = await self.dispatch.node(which)
        request = CommandRequest(
            node=node, tool_name=tool_name, arguments=arguments, by=by, run_id=run_id, execution_id=execution_id
        )
        ruling = self.dispatch.judge(request)
        await self.dispatch.require_allowed(request, ruling)
        approver = await self._approver(run_id, call_id)
        if ruling.verdict is Verdict.ASK and not approver:
            raise NodeUnavailable(f"{ruling.reason} The policy of the node has changed: call it again.")
        if ruling.verdict is Verdict.ASK and node.wants_signatures:
            raise NodeUnavailable(
                f"{node.name} wants signed approvals, and this one was not signed",
                hint="Call it again; a person approves it with: fabric approvals approve ID --sign KEY",
            )
        command = self.dispatch.command(request, ruling, CommandStatus.QUEUED, approver)
        await self.dispatch.send(command)
        return await self.dispatch.outcome(command.execution_id)

    async def prepare(self, card: ApprovalCard) -> NodeCommand:
        """Keep the command that a run asks about, so that approvers can sign it before they approve.

        Raises:
            FabricError: the run asks about something else, or the node is not there.
        """
        asked = asked_of_node(card.tool, card.args)
        if asked is None or card.tool == NODE_COMMAND:
            raise InvalidInputs("Only calls to machines are signed")
        which, tool_name, arguments = asked
        node = await self.dispatch.node(which)
        execution_id = execution_id_of_call(card.run_id, CallId(card.call_id))
        request = CommandRequest(
            node=node,
            tool_name=tool_name,
            arguments=arguments,
            by=card.agent or "run",
            run_id=card.run_id,
            execution_id=execution_id,
        )
        ruling = self.dispatch.judge(request)
        if ruling.verdict is Verdict.BLOCK:
            raise NodeUnavailable(ruling.reason)
        await self.dispatch.commands.add(self.dispatch.command(request, ruling, CommandStatus.WAITING))
        kept = await self.dispatch.commands.find(execution_id)
        assert kept is not None
        return kept

    async def _send_signed(
        self, command: NodeCommand, tool_name: str, arguments: Mapping[str, Any], approver: str
    ) -> NodeCommand:
        if (command.tool_name, dict(command.arguments)) != (tool_name, dict(arguments)):
            raise InvalidInputs("The command is not the one that was signed")
        if not approver:
            raise InvalidInputs("No person has approved the command")
        await self.dispatch.release(command.execution_id, approver)
        return await self.dispatch.outcome(command.execution_id)

    async def not_read_back(self, run_id: RunId) -> Sequence[str]:
        """Return the names of machines that a run has changed and of which it has read nothing since."""
        kept = await self.dispatch.commands.list(run_id=run_id, limit=MAX_COMMANDS)
        nodes = [await self.dispatch.nodes.find(each) for each in not_read_back(kept)]
        return [node.name for node in nodes if node is not None]

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
            InvalidInputs: it is not the plan that was shown, or no one has agreed.
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
            await self._require_signed(plan)
            now = self.dispatch.clock.now()
            online = await machines_online(plan, self.dispatch.nodes)
            begun = replace(plan, status=PlanStatus.RUNNING, approver=approver, online=online, updated_at=now)
            if not await self.plans.replace(begun, before=plan):
                raise InvalidInputs("The plan has been changed meanwhile")
            return begun
        return plan

    async def _require_signed(self, plan: Plan) -> None:
        """Refuse to begin a plan that machines would refuse for want of signatures."""
        signed_by = {str(each.get("approver")) for each in plan.signatures}
        for call in plan.calls:
            node = await self.dispatch.nodes.find(call.node_id)
            if node is None or not node.wants_signatures or len(signed_by & node.approvers) >= node.quorum:
                continue
            request = CommandRequest(node=node, tool_name=plan.tool_name, arguments=plan.arguments, by=plan.created_by)
            if self.dispatch.judge(request).verdict is Verdict.ASK:
                raise InvalidInputs(
                    f"{node.name} wants {node.quorum} signed approval(s) of this plan",
                    hint="Freeze it again, and approve it with: fabric approvals approve ID --sign KEY",
                )

    async def settle_denied(self, command: NodeCommand) -> None:
        """Settle a waiting command if its run was not allowed to send it."""
        if not command.run_id:
            return
        cards = await self.approvals.list(run_id=RunId(command.run_id), pending_only=False)
        own = [each for each in cards if _is_about(each, command)]
        status = next((_SETTLED[card.status] for card in own or cards if card.status in _SETTLED), None)
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


def _is_about(card: ApprovalCard, command: NodeCommand) -> bool:
    return execution_id_of_call(card.run_id, CallId(card.call_id)) == command.execution_id


def execution_id_of_call(run_id: RunId, call_id: CallId) -> str:
    """Return the id of the command that a call of a run becomes: the same however often the run is taken up."""
    return str(uuid.uuid5(_CALLS, f"{run_id} {call_id}"))


_CALLS = uuid.UUID("6f1f2a0e-5f0b-4b52-9d3c-0a4e5b7c9d21")
_SETTLED = {
    ApprovalStatus.DENIED: CommandStatus.DENIED,
    ApprovalStatus.EXPIRED: CommandStatus.EXPIRED,
    ApprovalStatus.CANCELLED: CommandStatus.CANCELLED,
}
