"""Adds tools that the configuration names to a pack's own."""

from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.errors import RecruitError
from agent_fabric.domain.ids import SpecialistId
from agent_fabric.domain.tools.specs import ToolSpec
from agent_fabric.infrastructure.packs.function_tools import SandboxedTool, tool
from agent_fabric.infrastructure.packs.imported_packs import import_reference, repeated_names
from agent_fabric.infrastructure.packs.wrapped_pack import WrappedPack
from agent_fabric.infrastructure.tools.tool_objects import ToolFunction, is_tool_object, object_tool

TOOLS = "agent_fabric.tools"
"""The entry point group under which installed packages offer tools by name."""


def with_tools(
    pack: SpecialistPack, specialist_id: SpecialistId, references: Sequence[str], sandbox: Sandbox
) -> "PackWithTools":
    """Return the pack with the tools that `references` name: `module:function`, or an installed package's tool.

    Raises:
        RecruitError: a tool cannot be had, or its name is taken.
    """
    tools = [_find(reference, specialist_id).within(sandbox) for reference in references]
    return PackWithTools(pack, specialist_id, tools)


class PackWithTools(WrappedPack):
    """Has further tools beside those of another pack."""

    def __init__(
        self, inner: SpecialistPack, specialist_id: SpecialistId, tools: Sequence[tuple[ToolSpec, ToolFunction]]
    ) -> None:
        super().__init__(inner, {spec.name: function for spec, function in tools})
        self._specialist_id = specialist_id
        self.added = tuple(spec for spec, _ in tools)
        self._require_different_names()

    async def aopen(self) -> None:
        """Open the pack; some know all their tools only then.

        Raises:
            RecruitError: one of them has the name of an added tool.
        """
        await super().aopen()
        self._require_different_names()

    def _require_different_names(self) -> None:
        offered = self.tool_definitions
        # One that a pack offers may be hidden as well: from small models, which get it in two steps.
        twice = repeated_names((*offered, *(spec for spec in self.hidden_tools if spec not in offered)))
        if twice:
            raise RecruitError(
                f"The pack {self._specialist_id!r} would have more than one tool named {', '.join(map(repr, twice))}",
                hint="Rename or remove one of those under `tools` in its configuration.",
            )


def _find(reference: str, specialist_id: SpecialistId) -> SandboxedTool:
    try:
        found = import_reference(reference) if ":" in reference else _entry_point(reference).load()
        return as_tool(found)
    except (Exception, SystemExit) as problem:
        raise RecruitError(
            f"The tool {reference!r} of pack {specialist_id!r} cannot be used: {_describe(problem)}",
            hint='Tools are named as "module:function", or as an installed package names them.',
        ) from problem


def _entry_point(name: str) -> EntryPoint:
    known = entry_points(group=TOOLS)
    found = [entry for entry in known if entry.name == name]
    if not found:
        raise LookupError(f"no installed package has it; there are: {', '.join(sorted(known.names)) or 'none'}")
    if len(found) > 1:
        packages = " and ".join(entry.dist.name for entry in found if entry.dist)
        raise LookupError(f"more than one package has it: {packages}; write it as module:function")
    return found[0]


def as_tool(found: Any) -> SandboxedTool:
    """Return a tool of what a module or a package offers as one: a tool, a function, or an object or class of `Tool`.

    Raises:
        TypeError: it is none of these.
    """
    if hasattr(found, "within"):
        return cast("SandboxedTool", found)
    if is_tool_object(found):
        return object_tool(found)
    if isinstance(found, type) and hasattr(found, "execute"):
        return as_tool(found())
    if callable(found):
        return tool(found)
    raise TypeError(f"{type(found).__name__} is neither a function nor a tool")


def _describe(problem: BaseException) -> str:
    return str(problem) if isinstance(problem, LookupError) else f"{type(problem).__name__}: {problem}"
