"""One command on many machines: judged for each, kept at once, awaited together."""

import asyncio
from dataclasses import replace
from typing import cast

import pytest

from agent_fabric.application.fleet.ask_with_run import AskWithRun
from agent_fabric.application.fleet.dispatch_command import DispatchCommand
from agent_fabric.application.fleet.json_rpc import RpcPeer
from agent_fabric.application.fleet.live_nodes import LiveNodes, NodeLink
from agent_fabric.application.fleet.run_on_nodes import NodeOrder, RunOnNodes
from agent_fabric.application.ports.approvals import ApprovalRepository
from agent_fabric.domain.errors import NodeBlocked, NodeNotFound, NodeUnavailable
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.nodes import Node, NodeId, NodeStatus
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.verdicts import Ruling, Verdict
from agent_fabric.domain.runs.task import Task
from agent_fabric.testing.fakes import FrozenClock
from memory_storage import MemoryCommands, MemoryNodes
from unit.application.fleet.stand_ins import StubPeer

OPEN = {"profile": "open"}


def no_task(*_: object) -> Task:
    raise AssertionError("nothing asks")


class Fleet:
    """Machines that answer whatever they are offered."""

    def __init__(self, *nodes: Node, names_nodes: bool = False) -> None:
        self.judged = 0
        self.kept = MemoryNodes()
        self.kept.kept.update({node.id: node for node in nodes})
        self.commands, self.live = MemoryCommands(), LiveNodes()
        self.dispatch = DispatchCommand(
            self.kept, self.commands, self.live, FrozenClock(), self.judge, hub_names_nodes=names_nodes
        )
        self.orders = RunOnNodes(self.dispatch, AskWithRun(no_task, cast("ApprovalRepository", None)))
        for node in nodes:
            if node.status is NodeStatus.ONLINE:
                self.connect(node)

    def judge(self, _: ProposedCall) -> Ruling | None:
        self.judged += 1
        return None

    def connect(self, node: Node) -> None:
        link = NodeLink(node.id, cast("RpcPeer", StubPeer()), lambda *_: None, 0.0, generation=node.generation)

        def offer(command: NodeCommand) -> None:
            assert self.commands.kept[command.execution_id].status is CommandStatus.SENT  # durable before it is sent
            done = replace(command, status=CommandStatus.SUCCESS, result={"status": "success"})
            asyncio.get_running_loop().call_soon(self.live.settle, done)

        link.offer = offer
        self.live.put(link)

    async def run(self, order: NodeOrder) -> list[NodeCommand]:
        judged = await self.orders.judge("all", order)
        return [each async for each in self.orders.send(judged, timeout_s=5.0)]


def machine(number: int, status: NodeStatus = NodeStatus.ONLINE, **more: object) -> Node:
    values = {"security_policy_json": OPEN, "reported": {"floor": OPEN, "uid": 1}, "generation": 1, **more}
    return Node(id=NodeId(f"n{number}"), name=f"web-{number}", status=status, **values)  # type: ignore[arg-type]  # as named


ORDER = NodeOrder(tool_name="run_command", arguments={"command": "uptime"}, by="ada")


@pytest.mark.proves("FL-23", "FL-30")
async def test_machines_with_the_same_policies_are_judged_once_and_all_answer() -> None:
    fleet = Fleet(*(machine(number) for number in range(20)))
    done = await fleet.run(ORDER)
    assert len(done) == 20
    assert {each.status for each in done} == {CommandStatus.SUCCESS}
    assert len({each.bound_hash for each in fleet.commands.kept.values()}) == 20
    assert fleet.judged == 1
    named = Fleet(*(machine(number) for number in range(3)), names_nodes=True)
    await named.run(ORDER)
    assert named.judged == 3


@pytest.mark.proves("FL-22", "FL-23")
async def test_each_machine_is_refused_for_its_own_reason_and_what_is_blocked_is_on_record() -> None:
    blocking = {**OPEN, "blocked_commands": ["uptime"]}
    fleet = Fleet(
        machine(1),
        machine(2, NodeStatus.OFFLINE),
        machine(3, security_policy_json=blocking),
        machine(4, NodeStatus.CONFLICT),
        machine(5, security_policy_json={"requires_approval_for": ["uptime"]}),
    )
    judged = await fleet.orders.judge("all", ORDER)
    kinds = [type(each.problem) for each in judged]
    assert kinds == [type(None), NodeUnavailable, NodeBlocked, NodeUnavailable, type(None)]
    assert judged[4].ruling is not None
    assert judged[4].ruling.verdict is Verdict.ASK
    done = [each async for each in fleet.orders.send(judged, timeout_s=5.0)]
    assert [each.agent_id for each in done] == ["n1"]
    kept = {each.agent_id: each.status for each in fleet.commands.kept.values()}
    assert kept == {"n1": CommandStatus.SENT, "n3": CommandStatus.BLOCKED}
    with pytest.raises(NodeNotFound):
        await fleet.orders.judge("role=db", ORDER)


async def test_what_waits_for_a_machine_is_told_at_once_and_what_takes_too_long_as_it_stands() -> None:
    fleet = Fleet(machine(1, NodeStatus.OFFLINE), machine(2))
    link = fleet.live.find(NodeId("n2"))
    assert link is not None
    link.offer = lambda _: None  # it never answers
    judged = await fleet.orders.judge("all", replace(ORDER, queue=True))
    done = [each async for each in fleet.orders.send(judged, timeout_s=0.01)]
    assert [(each.agent_id, each.status.value) for each in done] == [("n1", "queued"), ("n2", "sent")]
    assert not fleet.live.is_awaited(done[1].execution_id)


async def test_one_look_finds_what_others_have_settled_and_what_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_fabric.application.fleet.run_on_nodes.LOOK_AGAIN_S", 0.001)
    fleet = Fleet(*(machine(number) for number in range(3)))
    for number in range(3):
        link = fleet.live.find(NodeId(f"n{number}"))
        assert link is not None
        link.offer = lambda _: None  # nobody answers here
    judged = await fleet.orders.judge("all", ORDER)
    first, second, third = (each.request.execution_id for each in judged)
    looked: list[str] = []
    find = fleet.commands.find

    async def counted(execution_id: str) -> NodeCommand | None:
        looked.append(execution_id)
        return await find(execution_id)

    monkeypatch.setattr(fleet.commands, "find", counted)
    sent = fleet.orders.send(judged, timeout_s=5.0)
    waiting = asyncio.ensure_future(anext(sent))
    kept = fleet.commands.kept
    async with asyncio.timeout(5):
        while not {first, second, third} <= set(kept):
            await asyncio.sleep(0.001)
    kept[first] = replace(kept[first], status=CommandStatus.SUCCESS)
    assert (await waiting).execution_id == first
    assert looked == [first]  # however often it has looked: the others are open
    del kept[second]
    kept[third] = replace(kept[third], status=CommandStatus.ERROR)
    assert [each.execution_id async for each in sent] == [third]


async def test_a_connection_that_may_be_an_old_one_is_not_used_directly() -> None:
    fleet = Fleet(machine(1))
    node, link = fleet.kept.kept[NodeId("n1")], fleet.live.find(NodeId("n1"))
    assert link is not None
    assert fleet.dispatch.status_at_once(node) is CommandStatus.SENT
    assert fleet.dispatch.status_at_once(replace(node, generation=2)) is CommandStatus.QUEUED
    link.changed = True
    assert fleet.dispatch.status_at_once(node) is CommandStatus.QUEUED
