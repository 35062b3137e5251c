"""Commands that will never be sent are settled, also after the store was gone for a while."""

import asyncio
from contextlib import suppress
from typing import Any, cast

import pytest

from agent_fabric.application.fleet import remote_tools
from agent_fabric.application.fleet.dispatch_command import CommandRequest, DispatchCommand
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.fleet.remote_tools import RemoteTools, SettleCommands
from agent_fabric.application.fleet.roll_out_plan import RollOutPlan
from agent_fabric.application.ports.approvals import ApprovalRepository
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.fleet.commands import CommandStatus
from agent_fabric.domain.fleet.plans import Plan
from agent_fabric.testing.fakes import FrozenClock
from memory_storage import MemoryCommands, MemoryPlans
from unit.application.fleet.stand_ins import WEB, nodes_with


def tools_of(clock: FrozenClock) -> RemoteTools:
    dispatch = DispatchCommand(nodes_with(), MemoryCommands(), LiveNodes(), clock, lambda _: None)
    return RemoteTools(dispatch, cast("ApprovalRepository", None), MemoryPlans())


async def kept(tools: RemoteTools, status: CommandStatus, lifetime_s: float) -> str:
    node = await tools.dispatch.node(WEB)
    arguments = {"command": "uname"}
    wish = CommandRequest(node=node, tool_name="run_command", arguments=arguments, by="ada", lifetime_s=lifetime_s)
    command = tools.dispatch.command(wish, tools.dispatch.judge(wish), status)
    await tools.dispatch.commands.add(command)
    return command.execution_id


async def test_what_expired_before_it_was_sent_is_settled_and_nothing_else() -> None:
    clock = FrozenClock()
    tools = tools_of(clock)
    waiting, queued = CommandStatus.WAITING, CommandStatus.QUEUED
    ids = [
        await kept(tools, status, lifetime_s)
        for status, lifetime_s in ((waiting, 60), (queued, 60), (CommandStatus.SENT, 60), (queued, 600))
    ]
    with tools.dispatch.live.awaiting(ids[1]) as outcome:
        clock.time += 100
        await SettleCommands(tools).settle()
    found = [await tools.dispatch.commands.find(execution_id) for execution_id in ids]
    expired = CommandStatus.EXPIRED
    assert [each.status for each in found if each] == [expired, expired, CommandStatus.SENT, queued]
    assert (await outcome).status is expired


@pytest.mark.proves("SC-7")
async def test_a_store_that_is_gone_for_a_while_ends_no_duty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_tools, "SWEEP_S", 0.001)
    tools, looked = tools_of(FrozenClock()), asyncio.Event()
    failures: list[Exception | None] = [None]

    async def listed(**_: Any) -> list[Plan]:
        if problem := failures.pop(0):
            raise problem
        failures.append(None)
        looked.set()
        return []

    for duty, repository in (
        (SettleCommands(tools, look_every_s=0.001), tools.dispatch.commands),
        (RollOutPlan(tools.dispatch, tools.plans, look_every_s=0.001).watch, tools.plans),
    ):
        failures[:0] = [StoreUnavailable("gone"), RuntimeError("a bug")]
        looked.clear()
        monkeypatch.setattr(repository, "list", listed)
        task = asyncio.create_task(duty())
        async with asyncio.timeout(60):
            await looked.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
