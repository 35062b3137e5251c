"""Makes tools of plain functions: the signature becomes the schema, the docstring is what the model reads."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.tools.specs import FINISH_TASK, TOOL_NAME, Effect, ToolContext, ToolResult, ToolSpec
from agent_fabric.infrastructure.packs.base import tool_from
from agent_fabric.infrastructure.packs.hints import parameters_schema
from agent_fabric.infrastructure.sandbox.blocking import BlockingSandbox
from agent_fabric.infrastructure.tools.tool_objects import ToolFunction

P = ParamSpec("P")
R = TypeVar("R")

GIVEN = frozenset({"sandbox", "context"})
"""Parameters of these names are filled in by us; the model does not see them."""

_SECTION = re.compile(r"^(Args|Arguments|Returns|Raises|Yields|Examples?|Notes?):\s*$", re.MULTILINE)


class SandboxedTool(Protocol):
    """A tool that is made ready for one run."""

    def within(self, sandbox: Sandbox) -> tuple[ToolSpec, ToolFunction]:
        """Return the tool as packs take it, at work in the run's sandbox."""
        ...


@dataclass(frozen=True, slots=True)
class FunctionTool(Generic[P, R]):
    """SandboxedTool made of a function; calling it calls the function, as its tests do."""

    spec: ToolSpec
    function: Callable[P, R]
    given: frozenset[str]
    """Which of its parameters are not for the model."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function as it was written."""
        return self.function(*args, **kwargs)

    def within(self, sandbox: Sandbox) -> tuple[ToolSpec, ToolFunction]:
        """Return the tool as packs take it, at work in the run's sandbox."""
        run = self._awaited if inspect.iscoroutinefunction(self.function) else self._on_a_thread

        async def call(args: Mapping[str, Any], context: ToolContext) -> ToolResult:
            return await run(self._as_declared(args), context, sandbox)

        return self.spec, call

    async def _awaited(self, args: Mapping[str, Any], context: ToolContext, sandbox: Sandbox) -> ToolResult:
        function: Callable[..., Any] = self.function
        return self._result(await function(**args, **self._given(sandbox, context)))

    async def _on_a_thread(self, args: Mapping[str, Any], context: ToolContext, sandbox: Sandbox) -> ToolResult:
        function: Callable[..., Any] = self.function
        async with BlockingSandbox(sandbox) as blocking:
            given = self._given(blocking, context)
            return await tool_from(lambda: self._result(function(**args, **given)))({}, context)

    def _given(self, sandbox: Sandbox | BlockingSandbox, context: ToolContext) -> dict[str, Any]:
        values = {"sandbox": sandbox, "context": context}
        return {name: values[name] for name in self.given}

    def _result(self, output: object) -> ToolResult:
        if isinstance(output, ToolResult):
            return output
        return ToolResult(
            output=output if isinstance(output, Mapping) else {"result": output}, changed=self.spec.effect.changes
        )

    def _as_declared(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Make whole numbers of JSON's 3.0 and the like where the function takes whole numbers only."""
        properties = self.spec.parameters["properties"]
        return {name: _whole(value, properties.get(name, {}).get("type", ())) for name, value in args.items()}


@overload
def tool(function: Callable[P, R]) -> FunctionTool[P, R]: ...


@overload
def tool(
    *, effect: Effect = ..., timeout_s: float = ..., command_argument: str = ...
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    *,
    effect: Effect = Effect.CHANGES_WORKSPACE,
    timeout_s: float = 120.0,
    command_argument: str = "",
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Make a tool of a function: `@tool`, or `@tool(effect=Effect.READS)`.

    The function's name is the tool's. Its docstring, up to the first section such as `Args:`, tells the model what it
    does. Its type hints become the schema. It returns a dict, anything else that JSON has, or a `ToolResult`.

    A parameter named `sandbox` gets the run's sandbox, one named `context` the call's ToolContext; the model sees
    neither. A function that is not async runs on a thread and gets a `BlockingSandbox`.

    Args:
        function: The function.
        effect: What a call does to the world; not knowing it is the careful choice.
        timeout_s: How long one call may take.
        command_argument: The parameter that is a shell command line, for the policy to judge.

    Raises:
        TypeError: the function cannot be described to a model.
    """
    if function is None:
        return lambda function: tool_of(function, effect, timeout_s, command_argument)
    return tool_of(function, effect, timeout_s, command_argument)


def tool_of(
    function: Callable[P, R], effect: Effect, timeout_s: float, command_argument: str = ""
) -> FunctionTool[P, R]:
    """Make a tool of a function; see `tool`."""
    name = getattr(function, "__name__", "")
    if not TOOL_NAME.fullmatch(name) or name == FINISH_TASK:
        raise TypeError(f"{name or function!r} cannot be the name of a tool")
    description = _SECTION.split(inspect.getdoc(function) or "", maxsplit=1)[0].strip()
    try:
        if not description:
            raise TypeError("it has no docstring, which is what the model reads")
        if timeout_s <= 0:
            raise TypeError("timeout_s must be greater than 0")
        parameters = parameters_schema(function, hidden=GIVEN)
        if command_argument and parameters["properties"].get(command_argument, {}).get("type") != "string":
            raise TypeError(f"command_argument names {command_argument!r}, which is not a parameter of type str")
    except TypeError as problem:
        raise TypeError(f"the tool {name!r}: {problem}") from None
    return FunctionTool(
        ToolSpec(
            name=name,
            description=description,
            parameters=parameters,
            effect=Effect(effect),
            timeout_s=timeout_s,
            command_argument=command_argument,
        ),
        function,
        GIVEN.intersection(inspect.signature(function).parameters),
    )


def _whole(value: Any, declared: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and "integer" in declared and "number" not in declared:
        return int(value)
    return value
