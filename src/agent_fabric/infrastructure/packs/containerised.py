"""A pack whose commands run in a container."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.application.ports.tools import ToolExecutor
from agent_fabric.domain.packs import FinishSpec
from agent_fabric.domain.tools import ToolContext, ToolResult, ToolSpec
from agent_fabric.infrastructure.tools.shell import SHELL, RunShell


class ContainerisedPack:
    """SpecialistPack and ToolExecutor that runs another pack's `shell` in a container, and its other tools as they are.

    The container sees the same workspace. The run's sandboxes end it; this does not.
    """

    def __init__(self, inner: SpecialistPack, container: Sandbox) -> None:
        self._inner = inner
        self.sandbox_level = container.level
        """Shown where a command is to be approved."""
        self._shell = RunShell(container)

    @property
    def system_prompt(self) -> str:
        """That of the pack."""
        return self._inner.system_prompt

    @property
    def tool_definitions(self) -> Sequence[ToolSpec]:
        """Those of the pack: for the model nothing changes."""
        return self._inner.tool_definitions

    @property
    def compact_prompt(self) -> str | None:
        """That of the pack, if it has one."""
        prompt: str | None = getattr(self._inner, "compact_prompt", None)
        return prompt

    @property
    def compact_tools(self) -> Sequence[ToolSpec] | None:
        """Those of the pack, if it has any."""
        few: Sequence[ToolSpec] | None = getattr(self._inner, "compact_tools", None)
        return few

    @property
    def hidden_tools(self) -> Sequence[ToolSpec]:
        """Those of the pack, if it has any."""
        hidden: Sequence[ToolSpec] = getattr(self._inner, "hidden_tools", ())
        return hidden

    @property
    def finish(self) -> FinishSpec:
        """That of the pack."""
        return self._inner.finish

    async def aopen(self) -> None:
        """Open the pack; the container starts with its first command."""
        await self._inner.aopen()

    async def aclose(self) -> None:
        """Close the pack."""
        await self._inner.aclose()

    async def execute_tool(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run `shell` in the container, and anything else as the pack does.

        Raises:
            KeyError: the pack has no tool of this name.
        """
        if name == SHELL.name and any(spec.name == name for spec in self._inner.tool_definitions):
            return await self._shell(args, context)
        return await cast("ToolExecutor", self._inner).execute_tool(name, args, context)
