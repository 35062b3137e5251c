"""Makes actions of workflows from plain functions."""

import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.tools.specs import FINISH_TASK, Effect, ToolContext, ToolResult, ToolSpec
from agent_fabric.domain.workflows.definition import BuiltIn
from agent_fabric.infrastructure.threads import call_function
from agent_fabric.infrastructure.tools.tool_objects import ToolFunction

ActionFunction = Callable[[Mapping[str, Any], ToolContext], Any]
"""What an action does: it takes the step's inputs and the call's context, and returns the step's outputs."""

TAKEN: Final = frozenset(
    {*BuiltIn, "shell", "http_request", "read_file", "write_file", "memory_search", "remember", FINISH_TASK}
)
"""Names that no package's action can have."""
MAX_TIMEOUT_S: Final = 24 * 3600.0
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
_ANYTHING: Final[Mapping[str, Any]] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Action:
    """An action of workflows; calling it calls its function, as its tests do."""

    spec: ToolSpec
    function: ActionFunction

    @property
    def name(self) -> str:
        """What workflows call it."""
        return self.spec.name

    def __call__(self, inputs: Mapping[str, Any], context: ToolContext) -> Any:
        """Call the function as it was written."""
        return self.function(inputs, context)

    def tool(self) -> tuple[ToolSpec, ToolFunction]:
        """Return the action as packs take it."""
        return self.spec, self._run

    async def _run(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        output = await call_function(self.function, args, context)
        if isinstance(output, ToolResult):
            return output
        if output is None:
            return ToolResult(output={})
        return ToolResult(output=output if isinstance(output, Mapping) else {"result": output})


def action(
    *,
    name: str,
    parameters: Mapping[str, Any] = _ANYTHING,
    effect: Effect = Effect.LEAVES_SANDBOX,
    timeout_s: float = 120.0,
    url_argument: str = "",
) -> Callable[[ActionFunction], Action]:
    """Make an action of a function: `@action(name="send-slack")`.

    The function takes the step's inputs, checked against `parameters`, and the call's ToolContext. It returns a dict,
    which are the step's outputs, or anything else that JSON has, which becomes the output `result`. Whatever it raises
    fails the step; the type's name is what `retry.on` goes by. One that is not async runs on a thread.

    Args:
        name: What workflows call it. No built-in action has this name.
        parameters: JSON schema of the inputs: an object.
        effect: What it does to the world. What leaves the box asks a person unless a rule of the policy allows it.
        timeout_s: How long it may take where the step says nothing.
        url_argument: The input that is an address, for the policy to judge by its host.

    Raises:
        TypeError: it cannot be an action; the message says why.
    """
    if not _NAME.fullmatch(name):
        raise TypeError(f"{name!r} cannot be the name of an action: use letters, digits and hyphens")
    if name in TAKEN or name.startswith("mcp__"):
        raise TypeError(f"{name!r} is the name of something built in; choose another one for the action")
    schema = _sound_schema(name, parameters)
    if url_argument and url_argument not in schema.get("properties", {}):
        raise TypeError(f"the action {name!r}: url_argument names {url_argument!r}, which is not among the parameters")
    if not 0 < timeout_s <= MAX_TIMEOUT_S:
        raise TypeError(f"the action {name!r}: timeout_s must be greater than 0 and at most a day")

    def make(function: ActionFunction) -> Action:
        _require_two_parameters(name, function)
        return Action(
            ToolSpec(
                name=name,
                description=(inspect.getdoc(function) or name).strip(),
                parameters=schema,
                effect=Effect(effect),
                timeout_s=timeout_s,
                url_argument=url_argument,
            ),
            function,
        )

    return make


def _sound_schema(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    try:
        schema = json.loads(json.dumps(parameters))
    except (TypeError, ValueError, RecursionError) as problem:
        raise TypeError(f"the action {name!r}: its parameters are no JSON schema: {problem}") from None
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise TypeError(f"the action {name!r}: its parameters must be a JSON schema of type 'object'")
    return schema


def _require_two_parameters(name: str, function: Any) -> None:
    if not callable(function):
        raise TypeError(f"the action {name!r} must be a function")
    try:
        inspect.signature(function).bind({}, None)
    except TypeError:
        raise TypeError(f"the action {name!r} must take two arguments: the inputs and the context") from None
    except ValueError:
        pass  # a function of C whose arguments are not known
