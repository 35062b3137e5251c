"""What every store of machines and commands promises."""

import asyncio
from dataclasses import replace

import pytest

from agent_fabric.application.ports.fleet import SeenNode
from agent_fabric.application.ports.storage import Storage
from agent_fabric.domain.errors import NameTaken
from agent_fabric.domain.fleet.commands import CommandStatus, Invite, NodeCommand, RelayedCall
from agent_fabric.domain.fleet.nodes import Node, NodeId, NodeStatus
from agent_fabric.domain.fleet.plans import OnOffline, Plan, PlannedCall, PlanStatus

INVITE = Invite(
    id="i1",
    hash=b"hash",
    name="",
    labels={"role": "web"},
    uses_left=2,
    confirm=False,
    created_by="ada",
    created_at=10.0,
    expires_at=100.0,
)
NODE = Node(id=NodeId("n1"), name="web", public_key="aa", created_at=11.0)
COMMAND = NodeCommand(
    execution_id="e1",
    agent_id=NODE.id,
    tool_name="run_command",
    arguments={"command": "uptime"},
    status=CommandStatus.QUEUED,
    created_at=1.0,
    expires_at=50.0,
    policy_version="v",
    bound_hash="h",
    args_hash="a",
    requested_by="ada",
)

PLAN = Plan(
    id="p1",
    name="restart",
    tool_name="run_command",
    arguments={"command": "systemctl restart nginx"},
    calls=(
        PlannedCall(
            node_id="n1", node="web", execution_id="e1", policy_version="v", bound_hash="h", wave=0, expires_at=50.0
        ),
    ),
    max_errors=0,
    pause_s=0.0,
    on_offline=OnOffline.SKIP,
    status=PlanStatus.RUNNING,
    created_by="ada",
    created_at=1.0,
    updated_at=1.0,
    check="uptime",
    online_when_frozen=("web",),
)


class FleetContract:
    async def test_an_invitation_is_used_as_often_as_it_says_and_again_by_the_same_machine(
        self, storage: Storage
    ) -> None:
        await storage.node_invites.add(INVITE)
        first = await storage.node_invites.join(b"hash", NODE, at=20.0)
        assert first is not None
        assert (first.name, first.labels, first.status) == ("web", {"role": "web"}, NodeStatus.OFFLINE)
        again = await storage.node_invites.join(b"hash", replace(NODE, id=NodeId("n2")), at=20.0)
        assert again is not None
        assert again.id == "n1"
        other = await storage.node_invites.join(b"hash", replace(NODE, id=NodeId("n3"), public_key="bb"), at=20.0)
        assert other is not None
        assert other.name == "web-2"
        third = replace(NODE, id=NodeId("n4"), public_key="cc")
        assert await storage.node_invites.join(b"hash", third, at=20.0) is None
        assert await storage.node_invites.join(b"other", third, at=20.0) is None
        assert await storage.node_invites.join(b"hash", NODE, at=200.0) is None
        assert await storage.node_invites.list(at=20.0) == []
        assert [node.name for node in await storage.nodes.list()] == ["web", "web-2"]

    async def test_a_node_changes_until_it_is_revoked_and_its_name_is_free_then(self, storage: Storage) -> None:
        await storage.node_invites.add(INVITE)
        await storage.node_invites.join(b"hash", NODE, at=20.0)
        await storage.node_invites.join(b"hash", replace(NODE, id=NodeId("n2"), public_key="bb"), at=20.0)
        with pytest.raises(NameTaken):
            await storage.nodes.update(NodeId("n2"), {"name": "web"})
        changed = await storage.nodes.update(NODE.id, {"status": "online", "state": "s", "previous_state": "p"})
        assert changed is not None
        assert changed.status is NodeStatus.ONLINE
        assert await storage.nodes.states(NODE.id) == ("s", "p")
        assert storage.nodes.find_now("web") == changed
        measured = await storage.gauge.measure()
        assert (measured.nodes_online, measured.nodes_offline) == (1, 0)  # the other one has never come
        await storage.nodes.update(NodeId("n2"), {"last_seen": 30.0})
        assert (await storage.gauge.measure()).nodes_offline == 1
        await storage.nodes.update(NODE.id, {"status": "revoked"})
        assert await storage.nodes.update(NODE.id, {"status": "online"}) is None
        assert await storage.nodes.find("web") is None
        renamed = await storage.nodes.update(NodeId("n2"), {"name": "web", "labels": {}})
        assert renamed is not None
        assert [node.id for node in await storage.nodes.list(revoked=True)] == ["n1", "n2"]

    async def test_a_command_moves_on_only_from_where_it_is(self, storage: Storage) -> None:
        commands = storage.node_commands
        await commands.add(COMMAND)
        await commands.add(replace(COMMAND, tool_name="other"))
        await commands.add(replace(COMMAND, execution_id="e2", created_at=2.0, status=CommandStatus.WAITING))
        assert await commands.find("e1") == COMMAND
        sent = await commands.move("e1", CommandStatus.SENT, since=(CommandStatus.QUEUED,), at=3.0)
        assert sent is not None
        assert await commands.move("e1", CommandStatus.SENT, since=(CommandStatus.QUEUED,), at=3.0) is None
        done = await commands.move(
            "e1", CommandStatus.SUCCESS, since=(CommandStatus.SENT,), at=4.0, result={"exit_code": 0}
        )
        assert done is not None
        assert (done.completed_at, done.result) == (4.0, {"exit_code": 0})
        assert [each.execution_id for each in await commands.list(NODE.id)] == ["e2", "e1"]
        assert [each.execution_id for each in await commands.list(open_only=True)] == ["e2"]
        assert [each.execution_id for each in await commands.due(NODE.id, (CommandStatus.WAITING,))] == ["e2"]

    async def test_results_that_come_together_are_kept_together_and_the_first_one_counts(
        self, storage: Storage
    ) -> None:
        commands = storage.node_commands
        sent = [replace(COMMAND, execution_id=f"e{number}", status=CommandStatus.SENT) for number in range(230)]
        await commands.add(*sent, replace(COMMAND, execution_id="w", status=CommandStatus.WAITING))
        ok, said = CommandStatus.SUCCESS, {"exit_code": 0, "stdout": "ä"}
        done = await asyncio.gather(
            *(commands.finish(each.execution_id, NODE.id, ok, said, at=9.5) for each in sent),
            commands.finish("e0", NODE.id, CommandStatus.ERROR, {}, at=10.0),
            commands.finish("e1", NodeId("other"), CommandStatus.ERROR, {}, at=10.0),
            commands.finish("w", NODE.id, ok, {}, at=10.0),
            commands.finish("unknown", NODE.id, ok, {}, at=10.0),
        )
        assert done[230:] == [None] * 4
        assert done[1] == replace(sent[1], status=ok, result=said, completed_at=9.5)
        assert all(each is not None and each.status is ok for each in done[:230])
        assert await commands.finish("e2", NODE.id, CommandStatus.ERROR, {}, at=11.0) is None
        assert await commands.find("e2") == done[2]
        assert [each.execution_id for each in await commands.list(open_only=True)] == ["w"]

    async def test_only_the_newest_connection_of_a_node_changes_it(self, storage: Storage) -> None:
        await storage.node_invites.add(INVITE)
        await storage.node_invites.join(b"hash", NODE, at=20.0)
        newer = await storage.nodes.update(NODE.id, {"generation": 2, "status": "online"}, generation=0)
        assert newer is not None
        assert await storage.nodes.update(NODE.id, {"status": "offline"}, generation=1) is None
        found = await storage.nodes.find(NODE.id)
        assert found is not None
        assert found.status is NodeStatus.ONLINE

    async def test_nodes_that_were_heard_of_are_noted_at_once_unless_a_newer_connection_is_there(
        self, storage: Storage
    ) -> None:
        await storage.node_invites.add(replace(INVITE, uses_left=3))
        made = [
            await storage.node_invites.join(
                b"hash", replace(NODE, id=NodeId(f"n{number}"), name=f"web-{number}", public_key=f"k{number}"), at=20.0
            )
            for number in range(3)
        ]
        ids = [node.id for node in made if node is not None]
        for node_id in ids:
            await storage.nodes.update(node_id, {"generation": 2, "status": "online", "last_seen": 1.0})
        await storage.nodes.update(ids[2], {"status": "conflict"})
        seen = [SeenNode(ids[0], 2, 30.5), SeenNode(ids[1], 1, 31.5), SeenNode(ids[2], 2, 32.5)]
        assert set(await storage.node_presence.note(seen, held_by="")) == {ids[0]}
        assert [node.last_seen for node in await storage.nodes.list()] == [30.5, 1.0, 1.0]
        await storage.node_presence.forget_gone()
        assert [node.status.value for node in await storage.nodes.list()] == ["online", "online", "conflict"]

    async def test_a_call_of_a_node_is_answered_once_and_fetched_once(self, storage: Storage) -> None:
        calls = storage.node_calls
        call = RelayedCall(
            id="c1", node_id=NODE.id, method="audit.entries", params={"after": 1}, created_at=1.0, expires_at=50.0
        )
        await calls.ask(call)
        await calls.ask(replace(call, id="c2", created_at=0.5, expires_at=9.0))
        assert [each.id for each in await calls.waiting(NODE.id, at=2.0)] == ["c2", "c1"]
        assert await calls.waiting(NODE.id, at=10.0) == [call]
        assert await calls.waiting(NodeId("n9"), at=2.0) == []
        assert await calls.take("c1") is None
        await calls.answer("c1", {"result": {"a": 1}})
        await calls.answer("c1", {"result": {"a": 2}})
        assert await calls.waiting(NODE.id, at=10.0) == []
        assert await calls.take("c1") == {"result": {"a": 1}}
        assert await calls.take("c1") is None
        await calls.forget(expired_before=10.0)
        assert await calls.waiting(NODE.id, at=2.0) == []

    async def test_servers_find_the_nodes_that_there_is_something_to_do_for(self, storage: Storage) -> None:
        await storage.node_invites.add(INVITE)
        await storage.node_invites.join(b"hash", NODE, at=20.0)
        assert await storage.node_work(at=20.0) == []
        await storage.node_commands.add(replace(COMMAND, status=CommandStatus.WAITING))
        assert await storage.node_work(at=20.0) == []
        await storage.node_commands.move(
            COMMAND.execution_id, CommandStatus.QUEUED, since=(CommandStatus.WAITING,), at=20.0
        )
        assert await storage.node_work(at=20.0) == [COMMAND.agent_id]
        await storage.node_commands.move(
            COMMAND.execution_id, CommandStatus.SENT, since=(CommandStatus.QUEUED,), at=20.0
        )
        call = RelayedCall(id="c1", node_id=NODE.id, method="m", params={}, created_at=20.0, expires_at=50.0)
        await storage.node_calls.ask(call)
        assert await storage.node_work(at=20.0) == [NODE.id]
        assert await storage.node_work(at=60.0) == []
        await storage.nodes.update(NODE.id, {"status": "revoked", "last_seen": 60.0})
        assert await storage.node_work(at=61.0) == [NODE.id]
        assert await storage.node_work(at=600.0) == []

    async def test_a_plan_changes_only_as_it_was_read(self, storage: Storage) -> None:
        plans = storage.fleet_plans
        await plans.save(PLAN)
        read = await plans.find(PLAN.id)
        assert read == PLAN
        waits = replace(read, online=("web",), away={"web": 2.5}, updated_at=2.5)
        assert await plans.replace(waits, before=read)
        assert await plans.find(PLAN.id) == waits
        read = replace(waits, away={}, updated_at=2.5)
        assert await plans.replace(read, before=waits)
        halted = replace(read, status=PlanStatus.HALTED, note="by ada", outcomes={"web": "success"}, updated_at=2.0)
        assert await plans.replace(halted, before=read)
        assert not await plans.replace(replace(read, wave=1), before=read)
        assert await plans.find(PLAN.id) == halted
        assert await plans.replace(replace(halted, wave=1), before=halted)
