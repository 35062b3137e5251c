"""A pack with the tools of research, of memory and of machines, so that every way in meets every way out in one run."""

from collections.abc import Mapping
from typing import Any

from agent_fabric.application.fleet.fleet_policy import FleetDoor
from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.domain.tools.specs import ToolContext, ToolResult
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def
from agent_fabric.infrastructure.packs.sysadmin import node_tools

BUILDER = f"{__name__}:build"
_engine: list[LocalFabric] = []
"""The engine whose tools a builder gives out: a builder is only told the folder of the run."""


def use(fabric: LocalFabric) -> None:
    _engine[:] = [fabric]


class AllTools(BaseSpecialistPack):
    """The tools of `enterprise_research`, and those of machines."""

    def __init__(self, research: SpecialistPack, door: FleetDoor) -> None:
        super().__init__(
            system_prompt="You do what you are told.",
            tools=node_tools(door),
            finish=make_finish_tool_def({"summary": {"type": "string"}}),
        )
        self._research = research
        self.tool_definitions = (*self.tool_definitions, *research.tool_definitions)

    async def execute_tool(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if name in self._tools:
            return await super().execute_tool(name, args, context)
        result: ToolResult = await self._research.execute_tool(name, args, context)  # type: ignore[attr-defined] # it executes
        return result


def build(workspace: str, network_allowed: bool, run_id: RunId) -> AllTools:
    (fabric,) = _engine
    registry = fabric.execute_task.drive.perform.registry
    research = registry.get_pack(
        SpecialistId("enterprise_research"), run_id=run_id, workspace=workspace, network_allowed=network_allowed
    )
    return AllTools(research, fabric.fleet_door)
