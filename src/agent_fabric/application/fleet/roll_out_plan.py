"""Plans: freezes them, and rolls them out wave by wave; a killed server goes on in the same wave."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Any

from agent_fabric.application.attempts import attempt
from agent_fabric.application.fleet.dispatch_command import CommandRequest, DispatchCommand
from agent_fabric.application.ports.fleet import NodeRepository, PlanRepository
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import InvalidInputs, NodeNotFound
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.nodes import NodeId, NodeStatus
from agent_fabric.domain.fleet.plan_signatures import paths_of, signatures_for
from agent_fabric.domain.fleet.plans import (
    LEFT_OUT,
    OFFLINE,
    SKIPPED,
    OnOffline,
    Plan,
    PlannedCall,
    PlanStatus,
    names_of,
)
from agent_fabric.domain.policy.calls import argument_hash
from agent_fabric.domain.policy.verdicts import Verdict

CHECK_TOOL = "run_command"
CHECK_FAILED = "check_failed"
"""Outcome: the call succeeded, and the check after it did not."""
CHECK_LIFETIME_S = 600.0
"""A machine that is away for longer after the call has failed its check."""
LOOK_S = 0.25
"""How often a plan that is under way is looked at: halting takes effect within this time."""
RECONNECT_S = 60.0
"""How long a plan waits for a machine that is expected back: the longest pause of a node before it connects again, and
the time that it then takes to show who it is."""

NOT_BACK = "the machine did not come back in time"
"""Why a call that waited for its machine is cancelled."""

TellPlan = Callable[[Plan], Awaitable[None]]
"""Tells the author of a plan how it stands; telling it again changes nothing."""


async def _tell_nobody(_: Plan) -> None:
    return None


async def machines_online(plan: Plan, nodes: NodeRepository) -> tuple[str, ...]:
    """Return the names of a plan's machines that are there now."""
    there = {node.id for node in await nodes.list() if node.status is NodeStatus.ONLINE}
    return tuple(call.node for call in plan.calls if call.node_id in there)


@dataclass(slots=True)
class RollOutPlan:
    """Use case: send a plan's calls, one wave after the other, until it is done or must be halted."""

    dispatch: DispatchCommand
    plans: PlanRepository
    look_every_s: float = LOOK_S
    """How often it is looked for plans to take up; seldom, where someone calls `wake`."""
    tell: TellPlan = _tell_nobody
    """Hears of plans that are halted by errors or end incomplete, before that is stored: a kill cannot lose it."""
    alert: Callable[[Plan], None] = lambda _: None
    """Hears of them when it is stored, on the one server that has stored it."""
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

    async def find(self, plan_id: str) -> Plan:
        """Return a plan.

        Raises:
            NodeNotFound: there is no such plan.
        """
        found = await self.plans.find(plan_id)
        if found is None:
            raise NodeNotFound(f"There is no plan {plan_id[:80]!r}", hint="See them with: fabric fleet list")
        return found

    async def change(self, plan_id: str, status: PlanStatus, *, since: Sequence[PlanStatus], note: str = "") -> Plan:
        """Halt, resume, apply or abort a plan.

        Raises:
            NodeNotFound: there is no such plan.
            InvalidInputs: it is not where that can be done.
        """
        while True:
            plan = await self.find(plan_id)
            if plan.status not in since:
                raise InvalidInputs(f"The plan is {plan.status.value}")
            changed = replace(plan, status=status, note=note, away={}, updated_at=self.dispatch.clock.now())
            if plan.status is PlanStatus.WAITING and status is PlanStatus.RUNNING:
                changed = replace(changed, online=await machines_online(plan, self.dispatch.nodes))
            elif status is PlanStatus.RUNNING:
                changed = replace(changed, outcomes=await self._without_left_out(plan))
            if await self.plans.replace(changed, before=plan):
                self.wake()
                if status is PlanStatus.ABORTED:
                    await self._cancel_queued(changed)
                return changed

    async def _without_left_out(self, plan: Plan) -> dict[str, str]:
        """Return the outcomes without those of machines that nothing was sent to: a resumed plan tries them again."""
        left_out = [call for call in plan.calls if plan.outcomes.get(call.node) in LEFT_OUT]
        again = {call.node for call in left_out if await self.dispatch.commands.find(call.execution_id) is None}
        return {node: status for node, status in plan.outcomes.items() if node not in again}

    async def _cancel_queued(self, plan: Plan) -> None:
        """Settle what waits for machines that are not there: it must not happen when they are back."""
        left = [call for call in plan.calls if call.node not in plan.outcomes]
        ended = (self.dispatch.end(each.execution_id, CommandStatus.CANCELLED, "the plan was aborted") for each in left)
        await asyncio.gather(*ended)

    async def _drive(self, plan_id: str) -> None:
        """Look, note, and go on, until the plan does not run any more.

        Every note counts only if no one has changed the plan since it was read: a person may have halted it, and all
        servers of a store drive it. Each call has the same id wherever it is made, so it is sent once.
        """
        waits: dict[str, float] = {}
        while (plan := await self.plans.find(plan_id)) is not None and plan.status is PlanStatus.RUNNING:
            seen = await self._look_at_wave(plan, waits)
            ended = all(call.node in seen.outcomes for call in seen.calls if call.wave <= seen.wave)
            if seen.errors > seen.max_errors:
                note = f"{seen.errors} machine(s) failed, and {seen.max_errors} may: {names_of(seen.failed)}"
                seen = replace(seen, status=PlanStatus.HALTED, note=note, away={})
            elif ended and seen.wave + 1 >= seen.waves:
                seen = seen.after_last_wave()
            elif ended and self.dispatch.clock.now() >= seen.updated_at + seen.pause_s:
                seen = replace(seen, wave=seen.wave + 1)
            went_wrong = seen.status in {PlanStatus.HALTED, PlanStatus.INCOMPLETE}
            if went_wrong:
                await self.tell(replace(seen, updated_at=plan.updated_at))
            if seen != plan:
                noted = replace(seen, updated_at=self.dispatch.clock.now())
                if await self.plans.replace(noted, before=plan) and went_wrong:
                    self.alert(noted)
            else:
                await self.dispatch.clock.sleep(LOOK_S)

    async def _look_at_wave(self, plan: Plan, waits: dict[str, float]) -> Plan:
        """Send what is not sent yet of the waves so far, and return the plan with what has ended and who is away.

        `waits` holds since when each machine is away, on the clock that only goes forward. It begins anew with each
        server: after a restart no node is connected yet, however long the hub was gone.
        """
        outcomes, new = dict(plan.outcomes), list[NodeCommand]()
        for call in plan.calls:
            if call.wave > plan.wave or call.node in outcomes:
                continue
            if (status := await self._look(plan, call, new, waits)) is not None:
                outcomes[call.node] = status
                waits.pop(call.node, None)
        if new:  # in one transaction; each is sent only if the plan still goes on
            await self.dispatch.send(*new)
        now = self.dispatch.clock.now()
        away = {node: plan.away.get(node, now) for node in waits}
        if (outcomes, away) == (plan.outcomes, plan.away):
            return plan
        return replace(plan, outcomes=outcomes, away=away, updated_at=now)

    async def _look(self, plan: Plan, call: PlannedCall, new: list[NodeCommand], waits: dict[str, float]) -> str | None:
        """Return how a call ended, None if it has not; one that was not sent yet is added to `new`."""
        found = await self.dispatch.commands.find(call.execution_id)
        if found is None or not found.status.settled:
            return await self._look_at_open(plan, call, found, new, waits)
        if found.status is CommandStatus.SUCCESS and plan.check:
            return await self._look_at_check(plan, call, new)
        if found.status is CommandStatus.CANCELLED and (found.result or {}).get("error") == NOT_BACK:
            return _left_out(plan)
        return found.status.value

    async def _look_at_open(
        self, plan: Plan, call: PlannedCall, found: NodeCommand | None, new: list[NodeCommand], waits: dict[str, float]
    ) -> str | None:
        """Send a call, or wait for its machine; return the outcome of one that is not waited for any longer."""
        is_sent = found is not None and found.status is CommandStatus.SENT
        if is_sent and self.dispatch.live.find(NodeId(call.node_id)) is not None:
            waits.pop(call.node, None)
            return None
        node = await self.dispatch.nodes.find(call.node_id)
        if node is not None and node.status is NodeStatus.ONLINE:
            waits.pop(call.node, None)
            if found is None:
                new.append(_command(plan, call, self.dispatch.clock.now()))
            elif not is_sent:  # the plan was halted when its turn came
                self.dispatch.live.poke(found.agent_id)
            return None
        since = waits.setdefault(call.node, self.dispatch.clock.monotonic())
        if is_sent:  # it may have happened: only the machine knows
            return None
        if plan.on_offline is OnOffline.QUEUE:
            if found is None:
                new.append(_command(plan, call, self.dispatch.clock.now()))
            return None
        returns = node is not None and node.status is NodeStatus.OFFLINE and plan.comes_back(call.node)
        if returns and self.dispatch.clock.monotonic() - since < RECONNECT_S:
            return None
        if found is None:
            return _left_out(plan)
        await self.dispatch.end(found.execution_id, CommandStatus.CANCELLED, NOT_BACK)
        return None  # the next look tells what became of it: it may have been sent after all

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
        request = CommandRequest(
            node=node,
            tool_name=CHECK_TOOL,
            arguments={"command": plan.check},
            by=plan.created_by,
            execution_id=execution_id,
            lifetime_s=CHECK_LIFETIME_S,
            plan_id=plan.id,
        )
        ruling = self.dispatch.judge(request)
        if ruling.verdict is not Verdict.ALLOW:  # the policy has changed since
            return CHECK_FAILED
        new.append(self.dispatch.command(request, ruling, CommandStatus.QUEUED))
        return None


def _left_out(plan: Plan) -> str:
    return SKIPPED if plan.on_offline is OnOffline.SKIP else OFFLINE


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
