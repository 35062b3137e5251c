"""Plans without machines: waves, checks, and notes that never undo what a person did."""

from dataclasses import replace
from typing import Any

import pytest

from agent_fabric.application.fleet.dispatch_command import DispatchCommand
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.fleet.roll_out_plan import CHECK_FAILED, FreezePlan, PlanWish, RollOutPlan
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.nodes import Node, NodeId, NodeStatus
from agent_fabric.domain.fleet.plans import Plan, PlanStatus
from agent_fabric.testing.fakes import FrozenClock
from agent_fabric.testing.fleet import MemoryCommands, MemoryNodes, MemoryPlans


class AnsweringCommands(MemoryCommands):
    """Commands that are settled as soon as they are sent."""

    def __init__(self, fails: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.fails = fails

    async def add(self, command: NodeCommand) -> None:
        failed = str(command.arguments["command"]) in self.fails
        status = CommandStatus.ERROR if failed else CommandStatus.SUCCESS
        await super().add(replace(command, status=status))


def fleet_of(count: int, fails: frozenset[str] = frozenset()) -> tuple[DispatchCommand, MemoryPlans]:
    nodes = MemoryNodes()
    for number in range(count):
        node_id = NodeId(f"00000000-0000-4000-8000-{number:012}")
        nodes.kept[node_id] = Node(id=node_id, name=f"web-{number}", status=NodeStatus.ONLINE, public_key="aa")
    commands = AnsweringCommands(fails)
    return DispatchCommand(nodes, commands, LiveNodes(), FrozenClock(), lambda _: None), MemoryPlans()


async def planned(dispatch: DispatchCommand, plans: MemoryPlans, **more: Any) -> Plan:
    wish = PlanWish(selector="all", tool_name="run_command", arguments={"command": "touch /srv/a"}, by="ada", **more)
    plan, _ = await FreezePlan(dispatch, plans)(wish)
    begun = replace(plan, status=PlanStatus.RUNNING, approver="ada")
    await plans.save(begun)
    return begun


async def test_a_plan_goes_through_its_waves_and_pauses_between_them() -> None:
    dispatch, plans = fleet_of(4)
    clock = dispatch.clock
    began = clock.now()
    plan = await planned(dispatch, plans, canary=1, waves=("50%", "100%"), pause_s=100.0)
    await RollOutPlan(dispatch, plans)._drive(plan.id)
    done = plans.kept[plan.id]
    assert (done.status, done.wave, set(done.outcomes.values())) == (PlanStatus.COMPLETED, 2, {"success"})
    assert 200.0 <= clock.now() - began < 210.0


async def test_a_check_that_fails_on_the_canary_halts_the_plan() -> None:
    dispatch, plans = fleet_of(3, frozenset({"uptime"}))
    plan = await planned(dispatch, plans, check="uptime")
    await RollOutPlan(dispatch, plans)._drive(plan.id)
    halted = plans.kept[plan.id]
    assert (halted.status, halted.outcomes) == (PlanStatus.HALTED, {"web-0": CHECK_FAILED})


async def test_a_check_that_succeeds_lets_the_plan_go_on() -> None:
    dispatch, plans = fleet_of(3)
    plan = await planned(dispatch, plans, check="uptime")
    await RollOutPlan(dispatch, plans)._drive(plan.id)
    assert plans.kept[plan.id].status is PlanStatus.COMPLETED
    assert len(await dispatch.commands.list()) == 6


async def test_a_check_that_changes_something_is_refused() -> None:
    dispatch, plans = fleet_of(1)
    with pytest.raises(InvalidInputs, match="only read"):
        await planned(dispatch, plans, check="systemctl restart nginx")


async def test_a_plan_is_another_one_with_another_check() -> None:
    dispatch, plans = fleet_of(1)
    plan = await planned(dispatch, plans)
    assert replace(plan, check="uptime").hash != plan.hash


@pytest.mark.proves("FL-24")
async def test_a_note_of_progress_does_not_undo_a_halt() -> None:
    dispatch, plans = fleet_of(2)
    plan = await planned(dispatch, plans)
    roll_out = RollOutPlan(dispatch, plans)
    await roll_out.change(plan.id, PlanStatus.HALTED, since=(PlanStatus.RUNNING,), note="by ada")
    assert not await plans.replace(replace(plan, wave=1), before=plan)
    assert plans.kept[plan.id].status is PlanStatus.HALTED


@pytest.mark.proves("FL-18")
async def test_a_plan_that_machines_would_refuse_for_want_of_signatures_is_not_frozen() -> None:
    dispatch, plans = fleet_of(2)
    first = (await dispatch.nodes.list())[0]
    await dispatch.nodes.update(first.id, {"reported": {"approvals": "signed"}})
    with pytest.raises(InvalidInputs, match="web-0 want"):
        await planned(dispatch, plans)
