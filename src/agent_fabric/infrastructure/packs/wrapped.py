"""A pack around another one."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.tools import ToolExecutor
from agent_fabric.domain.packs import FinishSpec
from agent_fabric.domain.tools import ToolContext, ToolResult, ToolSpec


class WrappedPack:
    """SpecialistPack and ToolExecutor that is another one in everything; a subclass says in what it differs.

    What a pack need not have (prompts and tools for small models, hidden tools, notices, a box of its own) is passed
    through from where it is, however many packs stand around each other.
    """

    added: tuple[ToolSpec, ...] = ()
    """Tools that it offers beside those of the inner pack."""

    def __init__(self, inner: SpecialistPack) -> None:
        self._inner = inner

    @property
    def system_prompt(self) -> str:
        """How the specialist works."""
        return self._inner.system_prompt

    @property
    def compact_prompt(self) -> str | None:
        """The same for models that are small or slow; None: no other one."""
        prompt: str | None = getattr(self._inner, "compact_prompt", None)
        return prompt

    @property
    def tool_definitions(self) -> Sequence[ToolSpec]:
        """The inner pack's tools, then the added ones."""
        return (*self._inner.tool_definitions, *self.added)

    @property
    def compact_tools(self) -> Sequence[ToolSpec] | None:
        """The few tools for models that are small or slow, and the added ones: somebody asked for them. None: all."""
        few: Sequence[ToolSpec] | None = getattr(self._inner, "compact_tools", None)
        return None if few is None else (*few, *self.added)

    @property
    def hidden_tools(self) -> Sequence[ToolSpec]:
        """Tools that are not offered, but answer if a model calls them all the same."""
        hidden: Sequence[ToolSpec] = getattr(self._inner, "hidden_tools", ())
        return hidden

    @property
    def notices(self) -> Sequence[str]:
        """What a person should know; complete once the pack is open."""
        notices: Sequence[str] = getattr(self._inner, "notices", ())
        return notices

    @property
    def sandbox_level(self) -> str:
        """Level of the box that its commands run in; empty: that of the run."""
        level: str = getattr(self._inner, "sandbox_level", "")
        return level

    @property
    def finish(self) -> FinishSpec:
        """How its tasks end."""
        return self._inner.finish

    async def aopen(self) -> None:
        """Open the inner pack."""
        await self._inner.aopen()

    async def aclose(self) -> None:
        """Close the inner pack."""
        await self._inner.aclose()

    async def execute_tool(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Let the inner pack run one of its tools.

        Raises:
            KeyError: it has none of this name.
        """
        return await cast("ToolExecutor", self._inner).execute_tool(name, args, context)
