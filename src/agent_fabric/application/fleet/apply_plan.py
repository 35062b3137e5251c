"""Plans before they run: frozen as a person wants them, then applied, for which another person may have to agree."""

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agent_fabric.application.fleet.ask_with_run import AskWithRun, Caller
from agent_fabric.application.fleet.dispatch_command import CommandRequest, DispatchCommand
from agent_fabric.application.fleet.roll_out_plan import CHECK_TOOL, RollOutPlan, execution_id_of
from agent_fabric.application.ports.fleet import PlanRepository
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import InvalidInputs, NodeBlocked, NodeNotFound
from agent_fabric.domain.fleet.commands import bound_call
from agent_fabric.domain.fleet.node_tools import FOR_PEOPLE, UPGRADE
from agent_fabric.domain.fleet.nodes import Node, NodeStatus, select_nodes
from agent_fabric.domain.fleet.plans import MAX_NODES, OnOffline, Plan, PlannedCall, PlanStatus, wave_sizes
from agent_fabric.domain.fleet.protocol import MAX_LIFETIME_S
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.policy.verdicts import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOrder:
    """A call that a person wants on many machines."""

    selector: str
    tool_name: str
    arguments: Mapping[str, Any]
    by: str
    name: str = ""
    canary: int = 1
    waves: Sequence[str] = ("10%", "50%", "100%")
    max_errors: int = 0
    pause_s: float = 0.0
    on_offline: OnOffline = OnOffline.SKIP
    lifetime_s: float = MAX_LIFETIME_S
    check: str = ""
    """A command that only reads; it must succeed on a machine after the call."""


@dataclass(frozen=True, slots=True)
class FreezePlan:
    """Use case: write down which nodes, which exact calls, under which versions."""

    dispatch: DispatchCommand
    plans: PlanRepository
    program_hash: Callable[[], Awaitable[str]]
    """Returns the hash of the program that this hub has for machines."""

    async def __call__(self, order: PlanOrder) -> Plan:
        """Keep a plan, which waits until it is applied.

        Raises:
            NodeNotFound: no machine fits.
            NodeBlocked: a policy forbids it on one of them.
            InvalidInputs: waves, selector or arguments cannot be used.
        """
        if order.tool_name in FOR_PEOPLE:
            raise InvalidInputs(f"{order.tool_name} is for people: a plan has nobody at the other end")
        if order.tool_name == UPGRADE and order.arguments.get("sha256") != await self.program_hash():
            raise InvalidInputs("The release is not of the program that this hub has", hint="Sign that of its version.")
        found = select_nodes(order.selector, await self.dispatch.nodes.list())
        usable = [node for node in found if node.status in {NodeStatus.ONLINE, NodeStatus.OFFLINE}]
        if not usable:
            raise NodeNotFound(f"No machine fits {order.selector!r}", hint="See them with: fabric nodes list")
        try:
            sizes = wave_sizes(len(usable), order.canary, order.waves)
        except ValueError as problem:
            raise InvalidInputs(str(problem)) from None
        if len(usable) > MAX_NODES:
            raise InvalidInputs(f"A plan has at most {MAX_NODES:,} machines")
        plan_id, now = str(uuid.uuid4()), self.dispatch.clock.now()
        rulings = [(node, self.dispatch.judge(self._request(order, node, plan_id))) for node in usable]
        if blocked := next(((n, r) for n, r in rulings if r.verdict is Verdict.BLOCK), None):
            raise NodeBlocked(
                f"{blocked[0].name}: {blocked[1].reason}", hint="Choose other machines, or another command."
            )
        if order.check:
            self._require_reading(order, usable)
        waves = [number for number, size in enumerate(sizes) for _ in range(size)]
        expires_at = round(now + min(order.lifetime_s, MAX_LIFETIME_S), 3)
        calls = tuple(
            self._call(node, order, execution_id_of(plan_id, node.id), wave, expires_at)
            for node, wave in zip(usable, waves, strict=True)
        )
        plan = Plan(
            id=plan_id,
            name=order.name or f"{order.tool_name} on {order.selector}",
            tool_name=order.tool_name,
            arguments=dict(order.arguments),
            calls=calls,
            max_errors=order.max_errors,
            pause_s=order.pause_s,
            on_offline=order.on_offline,
            check=order.check,
            status=PlanStatus.WAITING,
            created_by=order.by,
            created_at=now,
            updated_at=now,
            online_when_frozen=tuple(node.name for node in usable if node.status is NodeStatus.ONLINE),
        )
        await self.plans.save(plan)
        return plan

    def _require_reading(self, order: PlanOrder, nodes: Sequence[Node]) -> None:
        """Refuse a check that a policy would ask about: one approval covers the call, and nothing beside it."""
        for node in nodes:
            check = CommandRequest(node=node, tool_name=CHECK_TOOL, arguments={"command": order.check}, by=order.by)
            ruling = self.dispatch.judge(check)
            if ruling.verdict is not Verdict.ALLOW:
                raise InvalidInputs(
                    f"The check does not only read on {node.name}: {ruling.reason}",
                    hint="A check is a command that needs no approval, such as: systemctl is-active nginx",
                )

    def _request(self, order: PlanOrder, node: Node, plan_id: str) -> CommandRequest:
        return CommandRequest(
            node=node, tool_name=order.tool_name, arguments=order.arguments, by=order.by, plan_id=plan_id
        )

    def _call(self, node: Node, order: PlanOrder, execution_id: str, wave: int, expires_at: float) -> PlannedCall:
        bound = bound_call(node, execution_id, order.tool_name, order.arguments, expires_at)
        return PlannedCall(
            node_id=node.id,
            node=node.name,
            execution_id=execution_id,
            policy_version=bound.policy_version,
            bound_hash=bound.hash,
            wave=wave,
            expires_at=expires_at,
        )


class AppliedPlan(NamedTuple):
    """A plan that runs, or waits for a person."""

    plan: Plan
    approval_id: str = ""
    """Empty: it runs."""


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    """Use case: let a plan run; if a policy asks on one of its machines, once a person has agreed to all of it."""

    dispatch: DispatchCommand
    plans: PlanRepository
    roll_out: RollOutPlan
    ask: AskWithRun

    async def __call__(self, plan_id: str, by: Caller) -> AppliedPlan:
        """Begin a plan, or ask about it.

        Raises:
            NodeNotFound: there is no such plan.
            InvalidInputs: it was applied before.
        """
        plan = await self.roll_out.find(plan_id)
        if plan.status is not PlanStatus.WAITING or plan.run_id:
            raise InvalidInputs(f"The plan is {plan.status.value}, or waits for its approval already")
        if not await self._asks(plan):
            return AppliedPlan(await self.roll_out.change(plan.id, PlanStatus.RUNNING, since=(PlanStatus.WAITING,)))
        shown = {
            "plan_id": plan.id,
            "hash": plan.hash,
            "tool_name": plan.tool_name,
            "arguments": dict(plan.arguments),
            "nodes": [call.node for call in plan.calls],
            "check": plan.check,
            "waves": [sum(call.wave == number for call in plan.calls) for number in range(plan.waves)],
        }
        asking = replace(plan, run_id=await self.ask.about_plan(shown, by))
        await self.plans.save(asking)
        return AppliedPlan(asking, await self.ask.approval_of(RunId(asking.run_id)))

    async def _asks(self, plan: Plan) -> bool:
        for call in plan.calls:
            node = await self.dispatch.nodes.find(call.node_id)
            if node is None:
                continue
            request = CommandRequest(node=node, tool_name=plan.tool_name, arguments=plan.arguments, by=plan.created_by)
            if self.dispatch.judge(request).verdict is not Verdict.ALLOW:
                return True
        return False
