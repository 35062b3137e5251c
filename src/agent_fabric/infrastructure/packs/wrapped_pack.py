"""A pack around another one."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.tools import ToolExecutor
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.tools.specs import ToolContext, ToolResult, ToolSpec


class WrappedPack:
    """SpecialistPack and ToolExecutor that is another one in everything; a subclass says in what it differs."""

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
        return self._inner.compact_prompt

    @property
    def tool_definitions(self) -> Sequence[ToolSpec]:
        """The inner pack's tools, then the added ones."""
        return (*self._inner.tool_definitions, *self.added)

    @property
    def compact_tools(self) -> Sequence[ToolSpec] | None:
        """The few tools for models that are small or slow, and the added ones, which were asked for. None: all."""
        few = self._inner.compact_tools
        return None if few is None else (*few, *self.added)

    @property
    def hidden_tools(self) -> Sequence[ToolSpec]:
        """Tools that are not offered, but answer if a model calls them all the same."""
        return self._inner.hidden_tools

    @property
    def notices(self) -> Sequence[str]:
        """What a person should know; complete once the pack is open."""
        return self._inner.notices

    @property
    def sandbox_level(self) -> str:
        """Level of the box that its commands run in; empty: that of the run."""
        return self._inner.sandbox_level

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


OPTIONAL: Mapping[str, Any] = {
    "compact_prompt": None,
    "compact_tools": None,
    "hidden_tools": (),
    "notices": (),
    "sandbox_level": "",
}
"""Members that packs of others need not have, with what they then are."""


class CompletedPack:
    """A pack of others with the members that it lacks."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name, OPTIONAL[name]) if name in OPTIONAL else getattr(self._inner, name)
