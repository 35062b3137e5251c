"""Plans: freezes them, and rolls them out wave by wave; a killed server goes on in the same wave."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent_fabric.application.fleet.dispatch_command import DispatchCommand, Wish
from agent_fabric.application.ports.fleet import PlanRepository
from agent_fabric.domain.errors import InvalidInputs, NodeBlocked, NodeNotFound
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand, bound_call
from agent_fabric.domain.fleet.nodes import Node, NodeId, NodeStatus
from agent_fabric.domain.fleet.plans import MAX_NODES, OnOffline, Plan, PlannedCall, PlanStatus, wave_sizes
from agent_fabric.domain.fleet.protocol import MAX_LIFETIME_S
from agent_fabric.domain.fleet.selectors import SelectorProblem, select_nodes
from agent_fabric.domain.policy.calls import argument_hash
from agent_fabric.domain.policy.verdicts import Ruling, Verdict

LOOK_S = 0.25
"""How often a plan that is under way is looked at: halting takes effect within this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWish:
    """What somebody wants on many machines."""

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


@dataclass(frozen=True, slots=True)
class FreezePlan:
    """Use case: write down which nodes, which exact calls, under which versions."""

    dispatch: DispatchCommand
    plans: PlanRepository

    async def __call__(self, wish: PlanWish) -> tuple[Plan, list[tuple[Node, Ruling]]]:
        """Return the plan, which waits, and what the policies say on each machine.

        Raises:
            NodeNotFound: no machine fits.
            NodeBlocked: a policy forbids it on one of them.
            InvalidInputs: waves, selector or arguments cannot be used.
        """
        try:
            found = select_nodes(wish.selector, await self.dispatch.nodes.list())
        except SelectorProblem as problem:
            raise InvalidInputs(str(problem)) from None
        usable = [node for node in found if node.status in {NodeStatus.ONLINE, NodeStatus.OFFLINE}]
        if not usable:
            raise NodeNotFound(f"No machine fits {wish.selector!r}", hint="See them with: fabric nodes list")
        try:
            sizes = wave_sizes(len(usable), wish.canary, wish.waves)
        except ValueError as problem:
            raise InvalidInputs(str(problem)) from None
        if len(usable) > MAX_NODES:
            raise InvalidInputs(f"A plan has at most {MAX_NODES:,} machines")
        plan_id, now = str(uuid.uuid4()), self.dispatch.clock.now()
        rulings = [(node, self.dispatch.judge(self._wish(wish, node, plan_id))) for node in usable]
        if blocked := next(((n, r) for n, r in rulings if r.verdict is Verdict.BLOCK), None):
            raise NodeBlocked(
                f"{blocked[0].name}: {blocked[1].reason}", hint="Choose other machines, or another command."
            )
        waves = [number for number, size in enumerate(sizes) for _ in range(size)]
        expires_at = round(now + min(wish.lifetime_s, MAX_LIFETIME_S), 3)
        calls = tuple(
            self._call(node, wish, execution_id_of(plan_id, node.id), wave, expires_at)
            for node, wave in zip(usable, waves, strict=True)
        )
        plan = Plan(
            id=plan_id,
            name=wish.name or f"{wish.tool_name} on {wish.selector}",
            tool_name=wish.tool_name,
            arguments=dict(wish.arguments),
            calls=calls,
            max_errors=wish.max_errors,
            pause_s=wish.pause_s,
            on_offline=wish.on_offline,
            status=PlanStatus.WAITING,
            created_by=wish.by,
            created_at=now,
            updated_at=now,
        )
        return plan, rulings

    def _wish(self, wish: PlanWish, node: Node, plan_id: str) -> Wish:
        return Wish(node=node, tool_name=wish.tool_name, arguments=wish.arguments, by=wish.by, plan_id=plan_id)

    def _call(self, node: Node, wish: PlanWish, execution_id: str, wave: int, expires_at: float) -> PlannedCall:
        bound = bound_call(node, execution_id, wish.tool_name, wish.arguments, expires_at)
        return PlannedCall(
            node_id=node.id,
            node=node.name,
            execution_id=execution_id,
            policy_version=bound.policy_version,
            bound_hash=bound.hash,
            wave=wave,
            expires_at=expires_at,
        )


@dataclass(slots=True)
class RollOutPlan:
    """Use case: send a plan's calls, one wave after the other, until it is done or must be halted."""

    dispatch: DispatchCommand
    plans: PlanRepository
    _driving: dict[str, "asyncio.Task[None]"] = field(default_factory=dict)

    async def watch(self) -> None:
        """Take up plans that are to run, for as long as the server lives; those that a killed server left, too."""
        while True:
            for plan in await self.plans.list(open_only=True):
                if plan.status is PlanStatus.RUNNING and plan.id not in self._driving:
                    task = asyncio.create_task(self._drive(plan.id))
                    self._driving[plan.id] = task
                    task.add_done_callback(lambda _, plan_id=plan.id: self._driving.pop(plan_id, None))  # type: ignore[misc]  # it takes one
            await asyncio.sleep(LOOK_S)

    async def change(self, plan_id: str, status: PlanStatus, *, since: Sequence[PlanStatus], note: str = "") -> Plan:
        """Halt, resume, apply or abort a plan.

        Raises:
            NodeNotFound: there is no such plan.
            InvalidInputs: it is not where that can be done.
        """
        plan = await self.plans.find(plan_id)
        if plan is None:
            raise NodeNotFound(f"There is no plan {plan_id[:80]!r}", hint="See them with: fabric fleet plans")
        if plan.status not in since:
            raise InvalidInputs(f"The plan is {plan.status.value}")
        changed = replace(plan, status=status, note=note, updated_at=self.dispatch.clock.now())
        await self.plans.save(changed)
        return changed

    async def _drive(self, plan_id: str) -> None:
        while (plan := await self.plans.find(plan_id)) is not None and plan.status is PlanStatus.RUNNING:
            calls = [call for call in plan.calls if call.wave == plan.wave]
            outcomes = dict(plan.outcomes)
            for call in calls:
                if call.node not in outcomes and (status := await self._look(plan, call)) is not None:
                    outcomes[call.node] = status
            now = self.dispatch.clock.now()
            if outcomes != plan.outcomes:
                plan = replace(plan, outcomes=outcomes, updated_at=now)
            if plan.errors > plan.max_errors:
                note = f"{plan.errors} machine(s) failed, and {plan.max_errors} may"
                await self._save(replace(plan, status=PlanStatus.HALTED, note=note))
                return
            if all(call.node in outcomes for call in calls):
                if plan.wave + 1 >= plan.waves:
                    await self._save(replace(plan, status=PlanStatus.COMPLETED))
                    return
                await self._save(plan)
                await asyncio.sleep(plan.pause_s)
                await self._save(replace(plan, wave=plan.wave + 1))
                continue
            await self._save(plan)
            await asyncio.sleep(LOOK_S)

    async def _save(self, plan: Plan) -> None:
        """Keep progress, unless somebody has halted or aborted the plan meanwhile."""
        current = await self.plans.find(plan.id)
        if current is not None and current.status is not PlanStatus.RUNNING:
            plan = replace(plan, status=current.status, note=current.note)
        await self.plans.save(plan)

    async def _look(self, plan: Plan, call: PlannedCall) -> str | None:
        """Send a call that was not sent yet; return how it ended, None if it has not."""
        found = await self.dispatch.commands.find(call.execution_id)
        if found is None:
            node = await self.dispatch.nodes.find(call.node_id)
            online = node is not None and node.status is NodeStatus.ONLINE
            if not online and plan.on_offline is not OnOffline.QUEUE:
                return "skipped" if plan.on_offline is OnOffline.SKIP else "offline"
            await self.dispatch.send(_command(plan, call, self.dispatch.clock.now()))
            return None
        return found.status.value if found.status.settled else None


def _command(plan: Plan, call: PlannedCall, now: float) -> NodeCommand:
    return NodeCommand(
        execution_id=call.execution_id,
        agent_id=NodeId(call.node_id),
        tool_name=plan.tool_name,
        arguments=dict(plan.arguments),
        status=CommandStatus.QUEUED,
        created_at=now,
        expires_at=call.expires_at,
        policy_version=call.policy_version,
        bound_hash=call.bound_hash,
        args_hash=argument_hash(plan.arguments),
        requested_by=plan.created_by,
        approver=plan.approver,
        rule="plan",
        plan_id=plan.id,
    )


def execution_id_of(plan_id: str, node_id: str) -> str:
    """Return the id of a plan's command on a node: the same after every crash."""
    return str(uuid.uuid5(uuid.UUID(plan_id), node_id))
