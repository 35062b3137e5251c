"""Tools that are objects: a name, a description and `execute(params, context)`."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.tools.specs import FINISH_TASK, TOOL_NAME, Effect, ToolContext, ToolResult, ToolSpec
from agent_fabric.infrastructure.threads import call_function

ToolFunction = Callable[[Mapping[str, Any], ToolContext], Awaitable[ToolResult]]
"""A tool as the engine calls it.

What it raises is told to the model: OSError for what cannot be read, written or started, PermissionError for a path
that leads out of the workspace or an address that must not be reached, WebError for a page or a search without an
answer, ValueError for a wrong argument.
"""

_OPTIONAL = ("timeout_s", "command_argument", "path_arguments", "url_argument")
_ANY_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}}


class Tool(Protocol):
    """A tool as an object.

    It may also have `parameters` (JSON schema of the params; without it the model may send any object) and `effect`,
    `timeout_s`, `command_argument`, `path_arguments`, `url_argument` as in ToolSpec.
    """

    @property
    def name(self) -> str:
        """The name that the model calls."""
        ...

    @property
    def description(self) -> str:
        """What the model reads about it."""
        ...

    def execute(self, params: Mapping[str, Any], context: ToolContext) -> Any:
        """Do it; async, or blocking on a thread.

        Returns a ToolResult, any object with `success`, `output` and `error`, or just the output.
        """
        ...


def is_tool_object(found: object) -> bool:
    """Return whether something looks like a Tool; classes and functions do not."""
    return not isinstance(found, type) and all(hasattr(found, name) for name in ("name", "description", "execute"))


@dataclass(frozen=True, slots=True)
class ObjectTool:
    """SandboxedTool over a Tool."""

    spec: ToolSpec
    tool: Tool

    def within(self, sandbox: object = None) -> tuple[ToolSpec, ToolFunction]:  # noqa: ARG002 - it asks for no sandbox
        """Return the tool as packs take it."""
        return self.spec, self._call

    async def _call(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        return _result(await call_function(self.tool.execute, args, context), changed=self.spec.effect.changes)


def object_tool(tool: Any) -> ObjectTool:
    """Make a tool of an object that is a `Tool`.

    Raises:
        TypeError: it cannot be described to a model.
    """
    name, description = tool.name, tool.description
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name) or name == FINISH_TASK:
        raise TypeError(f"{name!r} cannot be the name of a tool")
    if not isinstance(description, str) or not description.strip():
        raise TypeError(f"the tool {name!r}: it has no description, which is what the model reads")
    parameters = getattr(tool, "parameters", None) or _ANY_ARGUMENTS
    if not isinstance(parameters, Mapping) or parameters.get("type") != "object":
        raise TypeError(f"the tool {name!r}: its parameters are not a JSON schema of an object")
    spec = ToolSpec(
        name=name,
        description=description.strip(),
        parameters=parameters,
        effect=Effect(getattr(tool, "effect", Effect.CHANGES_WORKSPACE)),
        **{key: getattr(tool, key) for key in _OPTIONAL if hasattr(tool, key)},
    )
    return ObjectTool(spec, tool)


def _result(answer: object, *, changed: bool) -> ToolResult:
    if isinstance(answer, ToolResult) and isinstance(answer.output, Mapping):
        return answer
    success, output, error = True, answer, ""
    if hasattr(answer, "success"):
        success, output, error = bool(answer.success), getattr(answer, "output", ""), getattr(answer, "error", "")
    return ToolResult(
        output=output if isinstance(output, Mapping) else {"result": output},
        success=success,
        error=str(error or "") or ("" if success else str(output or "")),
        changed=changed,
    )
