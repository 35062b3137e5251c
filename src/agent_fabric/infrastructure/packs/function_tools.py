"""Makes tools of plain functions: the signature becomes the schema, the docstring is what the model reads."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.tools.specs import FINISH_TASK, TOOL_NAME, Effect, ToolContext, ToolResult, ToolSpec
from agent_fabric.infrastructure.packs.base import tool_from
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
        run = self._await_value if inspect.iscoroutinefunction(self.function) else self._on_a_thread

        async def call(args: Mapping[str, Any], context: ToolContext) -> ToolResult:
            return await run(self._as_declared(args), context, sandbox)

        return self.spec, call

    async def _await_value(self, args: Mapping[str, Any], context: ToolContext, sandbox: Sandbox) -> ToolResult:
        function: Callable[..., Any] = self.function
        return self._result(await function(**args, **self._arguments(sandbox, context)))

    async def _on_a_thread(self, args: Mapping[str, Any], context: ToolContext, sandbox: Sandbox) -> ToolResult:
        function: Callable[..., Any] = self.function
        async with BlockingSandbox(sandbox) as blocking:
            given = self._arguments(blocking, context)
            return await tool_from(lambda: self._result(function(**args, **given)))({}, context)

    def _arguments(self, sandbox: Sandbox | BlockingSandbox, context: ToolContext) -> dict[str, Any]:
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


_TYPES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    NoneType: "null",
}
_SUPPORTED = "str, int, float, bool, list[...], dict[str, ...], Literal[...], Any, and these with | None"


def parameters_schema(function: Callable[..., Any], *, hidden: frozenset[str]) -> dict[str, Any]:
    """Return the JSON schema of a function's arguments, without those that are `hidden` from the model.

    `Annotated[int, "What it means.", {"minimum": 1}]` adds a description and further keywords of JSON Schema.

    Raises:
        TypeError: a parameter has no hint, or one that no JSON value fits.
    """
    parameters = [each for name, each in inspect.signature(function).parameters.items() if name not in hidden]
    for each in parameters:
        if each.kind not in {each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY}:
            raise TypeError(f"the parameter {each} cannot be given by name, as a model does")
        if each.annotation is each.empty:
            raise TypeError(f"the parameter {each.name!r} has no type hint: write what it takes, as in `path: str`")
    hints = _evaluate_hints(function, {each.name: each.annotation for each in parameters})
    return {
        "type": "object",
        "properties": {each.name: _property(each, hints[each.name]) for each in parameters},
        "required": [each.name for each in parameters if each.default is each.empty],
        "additionalProperties": False,
    }


def _evaluate_hints(function: Callable[..., Any], annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Evaluate the hints that were written as text; the hidden ones need not be importable when the program runs."""
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        return get_type_hints(SimpleNamespace(__annotations__=annotations), globalns=scope, include_extras=True)
    except NameError as problem:
        raise TypeError(f"a type hint cannot be understood: {problem}") from None


def _property(parameter: inspect.Parameter, hint: Any) -> dict[str, Any]:
    try:
        schema = _schema(hint)
    except TypeError as problem:
        raise TypeError(f"the parameter {parameter.name!r}: {problem}") from None
    if isinstance(parameter.default, str | int | float):
        schema["default"] = parameter.default
    return schema


def _schema(hint: Any) -> dict[str, Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:  # first: its notes need not be hashable
        return _with_notes(inner[0], inner[1:])
    if hint is Any:
        return {}
    if hint in _TYPES:
        return {"type": _TYPES[hint]}
    if origin is Literal and all(type(value) in _TYPES for value in inner):
        return {**_union([_schema(kind) for kind in dict.fromkeys(map(type, inner))]), "enum": list(inner)}
    if origin in {Union, UnionType}:
        return _union([_schema(each) for each in inner])
    if origin in {list, Sequence}:
        return {"type": "array", "items": _schema(inner[0])}
    if origin in {dict, Mapping} and inner[0] is str:
        return {"type": "object", "additionalProperties": _schema(inner[1])}
    raise TypeError(f"no JSON value fits the type hint {_name(hint)}; use {_SUPPORTED}")


def _with_notes(hint: Any, notes: Sequence[Any]) -> dict[str, Any]:
    schema = _schema(hint)
    for note in notes:
        if isinstance(note, str):
            schema["description"] = note
        elif isinstance(note, Mapping):
            schema.update(note)
        else:
            raise TypeError(f"Annotated takes a description and a mapping with JSON Schema keywords, not {note!r}")
    return schema


def _union(options: list[dict[str, Any]]) -> dict[str, Any]:
    if len(options) == 1:
        return options[0]
    if all(option.keys() == {"type"} for option in options):
        return {"type": [option["type"] for option in options]}
    return {"anyOf": options}


def _name(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) else str(hint)
