"""Machines of a fleet that answer at once and remember what they were told, for the real engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent_fabric.application.fleet.dispatch_command import DispatchCommand
from agent_fabric.application.fleet.live_nodes import LiveNodes
from agent_fabric.application.fleet.remote_tools import RemoteTools
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.domain.fleet.commands import CommandStatus, NodeCommand
from agent_fabric.domain.fleet.nodes import Node, NodeId, NodeStatus
from agent_fabric.domain.policy.profiles import Profile
from memory_storage import MemoryCommands, MemoryNodes, MemoryPlans


class AnsweredCommands(MemoryCommands):
    """Commands that a machine answers as soon as they are sent."""

    def __init__(self, machines: "Machines") -> None:
        super().__init__()
        self._machines = machines

    async def _answer(self, command: NodeCommand) -> None:
        if command.status is not CommandStatus.QUEUED:
            return
        said = self._machines.hear(command)
        result = {"status": "success", "exit_code": 0, "stdout": said, "duration_ms": 1.0}
        since = (CommandStatus.QUEUED,)
        await self.move(command.execution_id, CommandStatus.SUCCESS, since=since, at=0.0, result=result)

    async def add(self, *commands: NodeCommand) -> None:
        await super().add(*commands)
        for command in commands:
            await self._answer(command)


@dataclass
class Machines:
    """Three machines, what each says to whatever it is asked, and what each was told."""

    says: dict[str, str] = field(default_factory=dict)
    """By the name of the machine."""
    told: list[tuple[str, str, Mapping[str, Any]]] = field(default_factory=list)
    """The machine, the tool, and its arguments."""
    nodes: MemoryNodes = field(default_factory=MemoryNodes)

    def __post_init__(self) -> None:
        for number in (1, 2, 3):
            node_id = NodeId(f"0f0e0d0c-0000-4000-8000-00000000000{number}")
            self.nodes.kept[node_id] = Node(
                id=node_id,
                name=f"web-{number}",
                public_key=f"a{number}",
                status=NodeStatus.ONLINE,
                generation=1,
                last_seen=1_000_000.0,
                platform="linux",
                labels={"role": "web"},
            )

    def hear(self, command: NodeCommand) -> str:
        name = self.nodes.kept[command.agent_id].name
        self.told.append((name, command.tool_name, command.arguments))
        return self.says.get(name, "all is well")

    def join(self, fabric: LocalFabric) -> DispatchCommand:
        """Let the node tools of an engine reach them; return what judges commands without a run."""
        general = replace(fabric.rules, profile=Profile.OPEN)
        commands, clock = AnsweredCommands(self), fabric.records.storage.clock
        dispatch = DispatchCommand(self.nodes, commands, LiveNodes(), clock, general.judge)
        fabric.fleet_door.open(RemoteTools(dispatch, fabric.records.approvals, MemoryPlans()))
        return dispatch

    def trust(self, name: str, what: str) -> None:
        node = self.nodes.find_now(name)
        assert node is not None
        self.nodes.kept[node.id] = replace(node, labels={**node.labels, "trusted": what})
