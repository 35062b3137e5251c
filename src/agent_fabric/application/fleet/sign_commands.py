"""Takes approvers' signatures of commands and plans, for machines that do not trust their hub."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.fleet import CommandRepository, NodeRepository, PlanRepository
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import InvalidInputs, NodeNotFound
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.nodes import Node
from agent_fabric.domain.fleet.plans import Plan, PlanStatus

MAX_SIGNATURES: Final = 16
"""As many as a node looks at."""


class Signature(NamedTuple):
    """An approver's signature."""

    approver: str
    signature: str


@dataclass(frozen=True, slots=True)
class SignCommands:
    """Use case: keep a signature with what it is about, as long as that waits. Each approver has one."""

    nodes: NodeRepository
    commands: CommandRepository
    plans: PlanRepository
    clock: Clock

    async def command(self, node: Node, command: NodeCommand, signature: Signature) -> NodeCommand:
        """Add a signature to a command of a machine; it goes with the command.

        Raises:
            InvalidInputs: the machine has no such approver, or the command waits no more.
        """
        _require_approver(signature, node.approvers)
        moved = await self.commands.move(
            command.execution_id,
            CommandStatus.WAITING,
            since=(CommandStatus.WAITING,),
            at=self.clock.now(),
            signatures=_with(command.signatures, signature),
        )
        if moved is None:
            raise InvalidInputs(f"The command is {command.status.value} already")
        return moved

    async def plan(self, plan_id: str, signature: Signature) -> Plan:
        """Add a signature that is about all calls of a plan.

        Raises:
            NodeNotFound: there is no such plan.
            InvalidInputs: no machine of it has such an approver, or it waits no more.
        """
        while True:
            plan = await self.plans.find(plan_id)
            if plan is None:
                raise NodeNotFound(f"There is no plan {plan_id!r}", hint="See them with: fabric fleet list")
            if plan.status is not PlanStatus.WAITING:
                raise InvalidInputs(f"The plan is {plan.status.value} already")
            nodes = [await self.nodes.find(call.node_id) for call in plan.calls]
            _require_approver(signature, frozenset().union(*(node.approvers for node in nodes if node is not None)))
            signed = replace(plan, signatures=_with(plan.signatures, signature))
            if await self.plans.replace(signed, before=plan):
                return signed


def _require_approver(signature: Signature, approvers: frozenset[str]) -> None:
    if signature.approver not in approvers:
        listed = ", ".join(sorted(approvers)) or "none"
        raise InvalidInputs(f"No machine here has an approver {signature.approver!r}", hint=f"They have: {listed}.")


def _with(signatures: Sequence[Mapping[str, Any]], signature: Signature) -> tuple[Mapping[str, Any], ...]:
    """Return signatures with one more."""
    others = [each for each in signatures if each.get("approver") != signature.approver]
    if len(others) >= MAX_SIGNATURES:
        raise InvalidInputs(f"There are {MAX_SIGNATURES} signatures already")
    return (*others, signature._asdict())
