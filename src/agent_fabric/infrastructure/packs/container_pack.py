"""A pack whose commands run in a container."""

from collections.abc import Mapping
from typing import Any

from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.tools.specs import ToolContext, ToolResult
from agent_fabric.infrastructure.packs.wrapped_pack import WrappedPack
from agent_fabric.infrastructure.tools.shell import SHELL, RunShell


class ContainerisedPack(WrappedPack):
    """Runs another pack's `shell` in a container, and its other tools as they are: for the model nothing changes.

    The container sees the same workspace, and starts with the first command. The run's sandboxes end it; this does not.
    """

    def __init__(self, inner: SpecialistPack, container: Sandbox) -> None:
        super().__init__(inner)
        self._container = container
        self._shell = RunShell(container)

    @property
    def sandbox_level(self) -> str:
        """That of the container; shown where a command is to be approved."""
        return self._container.level

    async def execute_tool(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if name == SHELL.name and any(spec.name == name for spec in self._inner.tool_definitions):
            return await self._shell(args, context)
        return await super().execute_tool(name, args, context)
