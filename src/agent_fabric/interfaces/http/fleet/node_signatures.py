"""Signatures of approvers, for machines that do not trust their hub: of commands, and of whole plans."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import Path, Request

from agent_fabric.application.fleet.show_commands import ShowCommands
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.errors import InvalidInputs, NodeNotFound
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.plans import Plan, PlanStatus
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.interfaces.http.fleet.node_schemas import PrepareRequest, SignatureRequest
from agent_fabric.interfaces.http.locks import who_asks
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.wire.nodes import COMMAND
from agent_fabric.wire.plans import PLAN

COMMANDS: Final = "/api/v1/nodes/{node}/commands"
PLAN_SIGNATURES: Final = "/api/v1/fleet/plans/{plan_id}/signatures"
MAX_SIGNATURES: Final = 16
"""As many as a node looks at."""
NodePath = Annotated[str, Path(description="The id or the name of a node.", max_length=64)]


def add_node_signatures(routes: Routes, fabric: ServerFabric) -> None:
    """Add the routes."""
    fleet = fabric.fleet
    fails = [404, 409, 503, 507]

    @routes.post(COMMANDS, Scope.NODES, "Prepare a command", COMMAND, fails=fails)
    async def prepare(wish: PrepareRequest, node: NodePath, request: Request) -> NodeCommand:
        """The command that a run asks about is kept, so that approvers can sign it before they approve."""
        machine = await fleet.operate.find(node)
        card = await fabric.records.approvals.find(wish.approval_id, viewer=Viewer.of(who_asks(request)))
        command = await fleet.tools.prepare(card)
        if command.agent_id != machine.id:
            raise NodeNotFound(f"The approval is not about {machine.name}", hint="See it: fabric approvals show ID")
        return command

    @routes.post(f"{COMMANDS}/{{execution_id}}/signatures", Scope.NODES, "Sign a command", COMMAND, fails=[404, 409])
    async def sign_command(
        wish: SignatureRequest, node: NodePath, execution_id: Annotated[str, Path(max_length=64)], request: Request
    ) -> NodeCommand:
        """Nodes that do not trust their hub want the signatures of approvers. They go with the command."""
        machine, found = await fleet.operate.find(node), await fleet.hub.commands.find(execution_id)
        if found is None or found.agent_id != machine.id:
            raise NodeNotFound(
                f"{machine.name} has no command {execution_id!r}", hint="See them with: fabric nodes queue"
            )
        _require_approver(wish, machine.approvers)
        moved = await fleet.hub.commands.move(
            execution_id,
            CommandStatus.WAITING,
            since=(CommandStatus.WAITING,),
            at=fleet.invite.clock.now(),
            signatures=_with(found.signatures, wish),
        )
        if moved is None:
            raise InvalidInputs(f"The command is {found.status.value} already")
        [told] = await ShowCommands(fabric.find)([moved], by=who_asks(request))
        return told

    @routes.tagged("fleet").post(PLAN_SIGNATURES, Scope.NODES, "Sign a plan", PLAN, fails=[404, 409])
    async def sign_plan(wish: SignatureRequest, plan_id: Annotated[str, Path(max_length=64)]) -> Plan:
        """One signature is about all calls of the plan; each machine gets a proof that its own is among them."""
        while True:
            plan = await fleet.plans.find(plan_id)
            if plan is None:
                raise NodeNotFound(f"There is no plan {plan_id!r}", hint="See them with: fabric fleet list")
            if plan.status is not PlanStatus.WAITING:
                raise InvalidInputs(f"The plan is {plan.status.value} already")
            nodes = [await fleet.hub.nodes.find(call.node_id) for call in plan.calls]
            _require_approver(wish, frozenset().union(*(node.approvers for node in nodes if node is not None)))
            signed = replace(plan, signatures=_with(plan.signatures, wish))
            if await fleet.plans.replace(signed, before=plan):
                return signed


def _require_approver(wish: SignatureRequest, approvers: frozenset[str]) -> None:
    if wish.approver not in approvers:
        listed = ", ".join(sorted(approvers)) or "none"
        raise InvalidInputs(f"No machine here has an approver {wish.approver!r}", hint=f"They have: {listed}.")


def _with(signatures: Sequence[Mapping[str, Any]], wish: SignatureRequest) -> tuple[Mapping[str, Any], ...]:
    """Return signatures with one more; each approver has one."""
    others = [each for each in signatures if each.get("approver") != wish.approver]
    if len(others) >= MAX_SIGNATURES:
        raise InvalidInputs(f"There are {MAX_SIGNATURES} signatures already")
    return (*others, {"approver": wish.approver, "signature": wish.signature})
