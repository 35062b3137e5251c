"""What every pack is made of, and short ways to declare tools, for us and for authors of packs."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec
from agent_fabric.infrastructure.threads import call_function
from agent_fabric.infrastructure.tools.tool_objects import Tool, ToolFunction, object_tool

if TYPE_CHECKING:  # most runs have none
    from agent_fabric.domain.tools.skills import Skill


class BaseSpecialistPack:
    """SpecialistPack and ToolExecutor over a system prompt, a map of tools and a finish schema.

    Subclass it only to start and stop things around a run; everything else is an argument.
    """

    notices: Sequence[str] = ()
    """What a person should know about it."""
    sandbox_level: str = ""
    """Level of the sandbox that its commands run in; empty: that of the run."""
    skills: "Sequence[Skill]" = ()
    """Skills that its model is told of; the registry adds those that are there."""

    def __init__(
        self,
        *,
        system_prompt: str,
        tools: Sequence[tuple[ToolSpec, ToolFunction] | Tool],
        finish: FinishSpec,
        hidden: Sequence[tuple[ToolSpec, ToolFunction]] = (),
        compact_prompt: str | None = None,
        compact_tools: Sequence[ToolSpec] | None = None,
    ) -> None:
        self.system_prompt = system_prompt
        self.compact_prompt = compact_prompt
        """The system prompt for models that are small or slow; None: the same one."""
        self.compact_tools: Sequence[ToolSpec] | None = compact_tools
        """The tools that such models get, since the fewer they have, the better they choose; None: all."""
        offered = [tool if isinstance(tool, tuple) else object_tool(tool).within() for tool in tools]
        self.tool_definitions: Sequence[ToolSpec] = tuple(spec for spec, _ in offered)
        self.hidden_tools: Sequence[ToolSpec] = tuple(spec for spec, _ in hidden)
        """Tools that are not offered in this run, but answer if a model calls them all the same."""
        self.finish = finish
        self._tools = {spec.name: function for spec, function in (*offered, *hidden)}

    async def aopen(self) -> None:
        """Nothing to start."""

    async def aclose(self) -> None:
        """Nothing to end."""

    async def execute_tool(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run one tool."""
        return await self._tools[name](args, context)


def tool_from(function: Callable[..., Any]) -> ToolFunction:
    """Make a tool of a plain function that takes the arguments by name and returns a dict (or anything JSON has).

    A function that is not async runs on a thread, so that it may block.
    """

    async def call(args: Mapping[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG001 - as every tool
        output = await call_function(function, **args)
        if isinstance(output, ToolResult):
            return output
        return ToolResult(output=output if isinstance(output, Mapping) else {"result": output})

    return call


def make_tool_def(
    name: str,
    description: str,
    properties: Mapping[str, Any],
    *,
    required: Sequence[str] | None = None,
    effect: Effect = Effect.CHANGES_WORKSPACE,
    timeout_s: float = 120.0,
) -> ToolSpec:
    """Declare a tool; all properties are required unless `required` says otherwise.

    The effect decides what happens to a call that a crash left in doubt. Not knowing it is the careful choice.
    """
    return ToolSpec(
        name=name, description=description, parameters=_object(properties, required), effect=effect, timeout_s=timeout_s
    )


def make_finish_tool_def(
    properties: Mapping[str, Any],
    *,
    required: Sequence[str] | None = None,
    needs_proof: bool = False,
    needs_citations: bool = False,
    needs_reading_back: bool = False,
) -> FinishSpec:
    """Declare how a pack's tasks end; the properties become the run's payload."""
    return FinishSpec(
        parameters=_object(properties, required),
        needs_proof=needs_proof,
        needs_citations=needs_citations,
        needs_reading_back=needs_reading_back,
    )


def _object(properties: Mapping[str, Any], required: Sequence[str] | None) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties if required is None else required),
    }
