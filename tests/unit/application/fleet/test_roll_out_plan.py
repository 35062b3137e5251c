"""Plans without machines: waves, checks, and notes that never undo what a person did."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent_fabric.application.fleet.apply_plan import FreezePlan, PlanOrder
from agent_fabric.application.fleet.dispatch_command import DispatchCommand
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.fleet.remote_tools import RemoteTools
from agent_fabric.application.fleet.roll_out_plan import (
    CHECK_FAILED,
    RECONNECT_S,
    RollOutPlan,
    machines_online,
)
from agent_fabric.application.ports.approvals import ApprovalRepository, ApprovalStatus
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.nodes import Node, NodeId, NodeStatus
from agent_fabric.domain.fleet.plan_signatures import root_from, root_of
from agent_fabric.domain.fleet.plans import OnOffline, Plan, PlanStatus
from agent_fabric.domain.ids import RunId
from agent_fabric.testing.fakes import FrozenClock
from memory_storage import MemoryCommands, MemoryNodes, MemoryPlans


class AnsweringCommands(MemoryCommands):
    """Commands that are settled as soon as they are sent."""

    def __init__(self, fails: frozenset[str] = frozenset()) -> None:
        super().__init__()
        self.fails = fails

    async def add(self, *commands: NodeCommand) -> None:
        for command in commands:
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


async def program_hash() -> str:
    return ""


async def planned(dispatch: DispatchCommand, plans: MemoryPlans, **more: Any) -> Plan:
    wish = PlanOrder(selector="all", tool_name="run_command", arguments={"command": "touch /srv/a"}, by="ada", **more)
    plan = await FreezePlan(dispatch, plans, program_hash)(wish)
    online = await machines_online(plan, dispatch.nodes)
    begun = replace(plan, status=PlanStatus.RUNNING, approver="ada", online=online)
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


async def test_who_looks_seldom_takes_up_a_plan_when_woken() -> None:
    dispatch, plans = fleet_of(1)
    roll_out = RollOutPlan(dispatch, plans, look_every_s=3_600.0)
    watching = asyncio.create_task(roll_out.watch())
    await asyncio.sleep(0)
    plan = await planned(dispatch, plans)
    roll_out.wake()
    async with asyncio.timeout(60):
        while plans.kept[plan.id].status is PlanStatus.RUNNING:
            await asyncio.sleep(0)
    watching.cancel()
    assert plans.kept[plan.id].status is PlanStatus.COMPLETED


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


@pytest.mark.proves("FL-24")
async def test_what_an_aborted_plan_has_queued_for_machines_that_are_away_is_cancelled() -> None:
    dispatch, plans = fleet_of(2)
    plan = await planned(dispatch, plans, canary=0, waves=("100%",))
    commands = cast("MemoryCommands", dispatch.commands)
    await RollOutPlan(dispatch, plans)._look_at_wave(plan, {})
    for execution_id, each in commands.kept.items():
        commands.kept[execution_id] = replace(each, status=CommandStatus.QUEUED)
    await RollOutPlan(dispatch, plans).change(plan.id, PlanStatus.ABORTED, since=(PlanStatus.RUNNING,))
    assert [each.status for each in commands.kept.values()] == [CommandStatus.CANCELLED] * 2


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


class Agreed:
    """Approvals, all of which somebody has agreed to."""

    async def list(self, **_: Any) -> list[Any]:
        return [SimpleNamespace(status=ApprovalStatus.APPROVED, decided_by="ada", call_id="c1")]


@pytest.mark.proves("FL-18", "FL-24")
async def test_a_plan_begins_when_the_approvers_of_its_machines_have_signed_it() -> None:
    dispatch, plans = fleet_of(3)
    first = (await dispatch.nodes.list())[0]
    wants = {"approvals": "signed", "approvers": ["ada", "bob"], "quorum": 2}
    await dispatch.nodes.update(first.id, {"reported": wants})
    plan = replace(await planned(dispatch, plans), status=PlanStatus.WAITING, run_id="run-1")
    await plans.save(plan)
    shown = {
        "plan_id": plan.id,
        "hash": plan.hash,
        "tool_name": plan.tool_name,
        "arguments": dict(plan.arguments),
        "nodes": [call.node for call in plan.calls],
        "check": "",
    }
    tools = RemoteTools(dispatch, cast("ApprovalRepository", Agreed()), plans)
    signed: tuple[Any, ...] = ()
    for approver in ("", "ada", "eve"):
        signed = (*signed, {"approver": approver, "signature": "00"}) if approver else signed
        await plans.save(replace(plan, signatures=signed))
        with pytest.raises(InvalidInputs, match="2 signed"):
            await tools.begin_plan(shown, run_id=RunId("run-1"))
    signed = (*signed, {"approver": "bob", "signature": "00"})
    await plans.save(replace(plan, signatures=signed))
    begun = await tools.begin_plan(shown, run_id=RunId("run-1"))
    assert begun.status is PlanStatus.RUNNING
    await RollOutPlan(dispatch, plans)._drive(plan.id)
    root = root_of([call.bound_hash for call in plan.calls])
    for command in await dispatch.commands.list():
        assert [each["approver"] for each in command.signatures] == ["ada", "eve", "bob"]
        assert {root_from(command.bound_hash, each["path"]) for each in command.signatures} == {root}


async def test_nobody_plans_what_needs_a_person_at_the_other_end() -> None:
    dispatch, plans = fleet_of(1)
    with pytest.raises(InvalidInputs, match="for people"):
        await FreezePlan(dispatch, plans, program_hash)(
            PlanOrder(selector="all", tool_name="shell", arguments={}, by="ada")
        )


async def set_status(dispatch: DispatchCommand, status: NodeStatus, *numbers: int) -> None:
    nodes = list(await dispatch.nodes.list())
    for number in numbers:
        await dispatch.nodes.update(nodes[number].id, {"status": status.value})


class ReturningClock(FrozenClock):
    """Clock after some time of which machines are back."""

    def __init__(self, dispatch: DispatchCommand, after_s: float) -> None:
        super().__init__()
        self.dispatch, self.back_at = dispatch, self.time + after_s

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        if self.time >= self.back_at:
            await set_status(self.dispatch, NodeStatus.ONLINE, 0, 1, 2)


@pytest.mark.proves("WB-11")
@pytest.mark.parametrize("on_offline", [OnOffline.SKIP, OnOffline.FAIL])
async def test_a_plan_waits_for_machines_that_were_there_when_it_began(on_offline: OnOffline) -> None:
    dispatch, plans = fleet_of(3)
    plan = await planned(dispatch, plans, on_offline=on_offline)
    await set_status(dispatch, NodeStatus.OFFLINE, 0, 1, 2)
    clock = ReturningClock(dispatch, after_s=RECONNECT_S - 1)
    dispatch = replace(dispatch, clock=clock)
    driving = asyncio.create_task(RollOutPlan(dispatch, plans)._drive(plan.id))
    async with asyncio.timeout(60):
        while not plans.kept[plan.id].away:
            await asyncio.sleep(0)
    shown = plans.kept[plan.id]
    await driving
    done = plans.kept[plan.id]
    assert (list(shown.away), shown.outcomes) == (["web-0"], {})
    assert (done.status, done.outcomes, done.away) == (
        PlanStatus.COMPLETED,
        dict.fromkeys(["web-0", "web-1", "web-2"], "success"),
        {},
    )


@pytest.mark.proves("WB-11")
async def test_a_machine_that_was_there_and_does_not_come_back_is_an_error_and_is_tried_again_after_a_resume() -> None:
    dispatch, plans = fleet_of(3)
    plan = await planned(dispatch, plans)
    await set_status(dispatch, NodeStatus.OFFLINE, 1)
    began, told, alerts = dispatch.clock.now(), list[Plan](), list[Plan]()

    async def tell(plan: Plan) -> None:
        told.append(plan)

    roll_out = RollOutPlan(dispatch, plans, tell=tell, alert=alerts.append)
    await roll_out._drive(plan.id)
    halted = plans.kept[plan.id]
    assert (halted.status, halted.errors, halted.skipped, halted.away) == (PlanStatus.HALTED, 1, ("web-1",), {})
    assert halted.note == "1 machine(s) failed, and 0 may: web-1"
    assert RECONNECT_S <= dispatch.clock.now() - began < RECONNECT_S + 2
    assert [each.status for each in told] == [each.status for each in alerts] == [PlanStatus.HALTED]
    await set_status(dispatch, NodeStatus.ONLINE, 1)
    await roll_out.change(plan.id, PlanStatus.RUNNING, since=(PlanStatus.HALTED,))
    await roll_out._drive(plan.id)
    done = plans.kept[plan.id]
    assert (done.status, set(done.outcomes.values()), done.errors) == (PlanStatus.COMPLETED, {"success"}, 0)


@pytest.mark.proves("WB-11")
async def test_a_plan_that_leaves_machines_out_ends_incomplete_and_names_them() -> None:
    dispatch, plans = fleet_of(3)
    await set_status(dispatch, NodeStatus.OFFLINE, 0, 2)
    plan = await planned(dispatch, plans)
    began, alerts = dispatch.clock.now(), list[Plan]()
    await RollOutPlan(dispatch, plans, alert=alerts.append)._drive(plan.id)
    done = plans.kept[plan.id]
    assert (done.status, done.skipped, done.errors) == (PlanStatus.INCOMPLETE, ("web-0", "web-2"), 0)
    assert done.note == "2 machine(s) were skipped: web-0, web-2"
    assert dispatch.clock.now() - began < 2, "those that were away before it began are not waited for"
    assert alerts == [done]


@pytest.mark.proves("WB-11")
async def test_tolerated_errors_do_not_make_a_plan_complete_that_left_machines_out() -> None:
    dispatch, plans = fleet_of(3)
    plan = await planned(dispatch, plans, max_errors=3, on_offline=OnOffline.FAIL)
    await set_status(dispatch, NodeStatus.OFFLINE, 2)
    await RollOutPlan(dispatch, plans)._drive(plan.id)
    done = plans.kept[plan.id]
    assert (done.status, done.errors, done.outcomes["web-2"]) == (PlanStatus.INCOMPLETE, 1, "offline")


async def test_a_call_that_waited_for_a_machine_that_does_not_come_back_is_never_sent_later() -> None:
    dispatch, plans = fleet_of(1)
    plan = await planned(dispatch, plans, max_errors=1)
    commands = cast("MemoryCommands", dispatch.commands)
    await RollOutPlan(dispatch, plans)._look_at_wave(plan, {})
    for execution_id, each in commands.kept.items():  # stored, and the hub was killed before it was sent
        commands.kept[execution_id] = replace(each, status=CommandStatus.QUEUED)
    await set_status(dispatch, NodeStatus.OFFLINE, 0)
    await RollOutPlan(dispatch, plans)._drive(plan.id)
    done = plans.kept[plan.id]
    assert (done.status, done.outcomes) == (PlanStatus.INCOMPLETE, {"web-0": "skipped"})
    assert [each.status for each in commands.kept.values()] == [CommandStatus.CANCELLED]


async def test_a_call_that_was_sent_waits_for_its_machine_however_long_that_is_away() -> None:
    dispatch, plans = fleet_of(1)
    plan = await planned(dispatch, plans)
    commands = cast("MemoryCommands", dispatch.commands)
    roll_out = RollOutPlan(dispatch, plans)
    await roll_out._look_at_wave(plan, {})
    for execution_id, each in commands.kept.items():
        commands.kept[execution_id] = replace(each, status=CommandStatus.SENT)
    await set_status(dispatch, NodeStatus.OFFLINE, 0)
    long_ago = {"web-0": dispatch.clock.monotonic() - 10 * RECONNECT_S}
    seen = await roll_out._look_at_wave(plan, long_ago)
    assert (seen.outcomes, list(seen.away)) == ({}, ["web-0"])
