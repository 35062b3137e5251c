"""Plans: freezes them, and rolls them out wave by wave; a killed server goes on in the same wave."""

import asyncio
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from agent_fabric.application.fleet.attempts import attempt
from agent_fabric.application.fleet.dispatch_command import DispatchCommand, Wish
from agent_fabric.application.ports.fleet import PlanRepository
from agent_fabric.domain.errors import InvalidInputs, NodeBlocked, NodeNotFound
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand, bound_call
from agent_fabric.domain.fleet.node_tools import FOR_PEOPLE
from agent_fabric.domain.fleet.nodes import Node, NodeId, NodeStatus
from agent_fabric.domain.fleet.plan_signatures import paths_of, signatures_for
from agent_fabric.domain.fleet.plans import MAX_NODES, OnOffline, Plan, PlannedCall, PlanStatus, wave_sizes
from agent_fabric.domain.fleet.protocol import MAX_LIFETIME_S
from agent_fabric.domain.fleet.selectors import SelectorProblem, select_nodes
from agent_fabric.domain.policy.calls import argument_hash
from agent_fabric.domain.policy.verdicts import Ruling, Verdict

CHECK_TOOL = "run_command"
CHECK_FAILED = "check_failed"
"""Outcome: the call succeeded, and the check after it did not."""
CHECK_LIFETIME_S = 600.0
"""A machine that is away for longer after the call has failed its check."""
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
    check: str = ""
    """A command that only reads; it must succeed on a machine after the call."""


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
        if wish.tool_name in FOR_PEOPLE:
            raise InvalidInputs(f"{wish.tool_name} is for people: a plan has nobody at the other end")
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
        if wish.check:
            self._require_reading(wish, usable)
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
            check=wish.check,
            status=PlanStatus.WAITING,
            created_by=wish.by,
            created_at=now,
            updated_at=now,
        )
        return plan, rulings

    def _require_reading(self, wish: PlanWish, nodes: Sequence[Node]) -> None:
        """Refuse a check that a policy would ask about: one approval covers the call, and nothing beside it."""
        for node in nodes:
            check = Wish(node=node, tool_name=CHECK_TOOL, arguments={"command": wish.check}, by=wish.by)
            ruling = self.dispatch.judge(check)
            if ruling.verdict is not Verdict.ALLOW:
                raise InvalidInputs(
                    f"The check does not only read on {node.name}: {ruling.reason}",
                    hint="A check is a command that needs no approval, such as: systemctl is-active nginx",
                )

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
    look_every_s: float = LOOK_S
    """How often it is looked for plans to take up; seldom, where somebody calls `wake`."""
    _driving: dict[str, "asyncio.Task[None]"] = field(default_factory=dict)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """There is a plan to take up."""
        self._woken.set()

    async def watch(self) -> None:
        """Take up plans that are to run, for as long as the server lives; those that a killed server left, too."""
        while True:
            self._woken.clear()
            await attempt(self._take_up(), "Plans could not be looked at")
            with suppress(TimeoutError):
                async with asyncio.timeout(self.look_every_s):
                    await self._woken.wait()

    async def _take_up(self) -> None:
        for plan in await self.plans.list(open_only=True):
            if plan.status is PlanStatus.RUNNING and plan.id not in self._driving:
                work = attempt(self._drive(plan.id), f"Plan {plan.id} has stopped; it is taken up again")
                self._driving[plan.id] = task = asyncio.create_task(work)
                task.add_done_callback(lambda _, plan_id=plan.id: self._driving.pop(plan_id, None))  # type: ignore[misc]  # it takes one

    async def change(self, plan_id: str, status: PlanStatus, *, since: Sequence[PlanStatus], note: str = "") -> Plan:
        """Halt, resume, apply or abort a plan.

        Raises:
            NodeNotFound: there is no such plan.
            InvalidInputs: it is not where that can be done.
        """
        while True:
            plan = await self.plans.find(plan_id)
            if plan is None:
                raise NodeNotFound(f"There is no plan {plan_id[:80]!r}", hint="See them with: fabric fleet list")
            if plan.status not in since:
                raise InvalidInputs(f"The plan is {plan.status.value}")
            changed = replace(plan, status=status, note=note, updated_at=self.dispatch.clock.now())
            if await self.plans.replace(changed, before=plan):
                self.wake()
                if status is PlanStatus.ABORTED:
                    await self._cancel_queued(changed)
                return changed

    async def _cancel_queued(self, plan: Plan) -> None:
        """Settle what waits for machines that are not there: it must not happen when they are back."""
        left = [call for call in plan.calls if call.node not in plan.outcomes]
        ended = (self.dispatch.end(each.execution_id, CommandStatus.CANCELLED, "the plan was aborted") for each in left)
        await asyncio.gather(*ended)

    async def _drive(self, plan_id: str) -> None:
        """Look, note, and go on, until the plan does not run any more.

        Every note counts only if nobody has changed the plan since it was read: a person may have halted it, and all
        servers of a store drive it. Each call has the same id wherever it is made, so it is sent once.
        """
        while (plan := await self.plans.find(plan_id)) is not None and plan.status is PlanStatus.RUNNING:
            seen = await self._look_at_wave(plan)
            ended = all(call.node in seen.outcomes for call in seen.calls if call.wave == seen.wave)
            if seen.errors > seen.max_errors:
                note = f"{seen.errors} machine(s) failed, and {seen.max_errors} may"
                seen = replace(seen, status=PlanStatus.HALTED, note=note)
            elif ended and seen.wave + 1 >= seen.waves:
                seen = replace(seen, status=PlanStatus.COMPLETED)
            elif ended and self.dispatch.clock.now() >= seen.updated_at + seen.pause_s:
                seen = replace(seen, wave=seen.wave + 1)
            if seen != plan:
                await self.plans.replace(replace(seen, updated_at=self.dispatch.clock.now()), before=plan)
            else:
                await self.dispatch.clock.sleep(LOOK_S)

    async def _look_at_wave(self, plan: Plan) -> Plan:
        """Send what is not sent yet of the wave that is under way, and return the plan with what has ended."""
        outcomes, new = dict(plan.outcomes), list[NodeCommand]()
        for call in plan.calls:
            if call.wave != plan.wave or call.node in outcomes:
                continue
            if (status := await self._look(plan, call, new)) is not None:
                outcomes[call.node] = status
        if new:  # in one transaction; each is sent only if the plan still goes on
            await self.dispatch.send(*new)
        if outcomes == plan.outcomes:
            return plan
        return replace(plan, outcomes=outcomes, updated_at=self.dispatch.clock.now())

    async def _look(self, plan: Plan, call: PlannedCall, new: list[NodeCommand]) -> str | None:
        """Return how a call ended, None if it has not; one that was not sent yet is added to `new`."""
        found = await self.dispatch.commands.find(call.execution_id)
        if found is None:
            node = await self.dispatch.nodes.find(call.node_id)
            online = node is not None and node.status is NodeStatus.ONLINE
            if not online and plan.on_offline is not OnOffline.QUEUE:
                return "skipped" if plan.on_offline is OnOffline.SKIP else "offline"
            new.append(_command(plan, call, self.dispatch.clock.now()))
            return None
        if found.status is CommandStatus.QUEUED:  # the plan was halted when its turn came
            self.dispatch.live.poke(found.agent_id)
        if found.status is CommandStatus.SUCCESS and plan.check:
            return await self._look_at_check(plan, call, new)
        return found.status.value if found.status.settled else None

    async def _look_at_check(self, plan: Plan, call: PlannedCall, new: list[NodeCommand]) -> str | None:
        """Check a machine after the call has succeeded there; return how both ended, None if they have not."""
        execution_id = execution_id_of(plan.id, f"{call.node_id} check")
        found = await self.dispatch.commands.find(execution_id)
        if found is not None:
            if not found.status.settled:
                return None
            return found.status.value if found.status is CommandStatus.SUCCESS else CHECK_FAILED
        node = await self.dispatch.nodes.find(call.node_id)
        if node is None or node.status in {NodeStatus.REVOKED, NodeStatus.CONFLICT}:
            return CHECK_FAILED
        wish = Wish(
            node=node,
            tool_name=CHECK_TOOL,
            arguments={"command": plan.check},
            by=plan.created_by,
            execution_id=execution_id,
            lifetime_s=CHECK_LIFETIME_S,
            plan_id=plan.id,
        )
        ruling = self.dispatch.judge(wish)
        if ruling.verdict is not Verdict.ALLOW:  # the policy has changed since
            return CHECK_FAILED
        new.append(self.dispatch.command(wish, ruling, CommandStatus.QUEUED))
        return None


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
        signatures=_signatures(plan, call),
    )


def _signatures(plan: Plan, call: PlannedCall) -> tuple[Mapping[str, Any], ...]:
    if not plan.signatures:
        return ()
    paths = paths_of([each.bound_hash for each in plan.calls])
    return signatures_for(plan.calls.index(call), paths, plan.signatures)


def execution_id_of(plan_id: str, node_id: str) -> str:
    """Return the id of a plan's command on a node: the same after every crash."""
    return str(uuid.uuid5(uuid.UUID(plan_id), node_id))
