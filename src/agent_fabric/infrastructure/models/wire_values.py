"""Values out of what a model server sent: of the kind they should be, or ModelAnswerUnusable. Nothing is guessed.

`Any` lives here and in the wire modules: a server may send anything.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import orjson

from agent_fabric.domain.errors import ModelAnswerUnusable
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.messages import ToolCallRequest
from agent_fabric.domain.tools.json_schema import too_deep
from agent_fabric.domain.tools.specs import ToolSpec

CHARS_PER_CALL = 64
"""What a call without arguments counts as, so that calls are not for nothing."""


def json_of(data: bytes) -> Any:
    """Read JSON, in which half a character (a lone surrogate, escaped) may stand: some models cut emoji in two."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as problem:
        value = _with_whole_characters(data, problem)
    if too_deep(value, data):
        raise unusable("it is nested too deeply")
    return value


def _with_whole_characters(data: bytes, problem: ValueError) -> Any:
    try:
        value = json.loads(data) if b"\\u" in data else None
        if value is not None:
            return orjson.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        pass  # it is not that; the first problem tells more
    raise unusable(f"not JSON: {problem}") from None


def object_of(value: Any, what: str) -> Mapping[str, Any]:
    """Return a JSON object."""
    if not isinstance(value, dict):
        raise unusable(f"{what} is not an object")
    return value


def list_of(value: Any, what: str) -> list[Any]:
    """Return a list; nothing is an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise unusable(f"{what} is not a list")
    return value


def text_of(value: Any, what: str) -> str:
    """Return a text; nothing is an empty one, and one in parts is put together."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "".join(text_of(object_of(part, what).get("text"), what) for part in value)
    if not isinstance(value, str):
        raise unusable(f"{what} is not text")
    return value


def optional_text(value: Any) -> str:
    """Return a text that does not matter enough to refuse an answer."""
    return value if isinstance(value, str) else ""


def mapping_of(value: Any) -> Mapping[str, Any]:
    """Return an object that does not matter enough to refuse an answer."""
    return value if isinstance(value, dict) else {}


def optional_count(value: Any) -> int | None:
    """Return a number of something that is there; None when it is none."""
    return value if is_count(value) and value > 0 else None


def is_count(value: Any) -> TypeGuard[int]:
    """Tell whether it is a number of tokens."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def call_of(value: Any) -> ToolCallRequest:
    """Return a tool call, whose arguments may be a text or the object itself; its id may be missing."""
    call = object_of(value, "a tool call")
    function = object_of(call.get("function"), "a tool call's function")
    name, arguments, call_id = function.get("name"), function.get("arguments"), call.get("id")
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments, ensure_ascii=False)
    if not (name.__class__ is arguments.__class__ is call_id.__class__ is str):  # else all are as they should be
        name, arguments = text_of(name, "a tool's name"), text_of(arguments, "arguments")
        call_id = text_of(call_id, "a tool call's id")
    if not name:
        raise unusable("a tool call has no name")
    return ToolCallRequest(CallId(call_id), name, arguments)


def with_ids(calls: Sequence[ToolCallRequest]) -> tuple[ToolCallRequest, ...]:
    """Give every call an id that no other call of the turn has; servers forget or repeat them."""
    seen: set[str] = set()
    named: list[ToolCallRequest] = []
    for index, call in enumerate(calls):
        call_id = call.call_id
        while not call_id or call_id in seen:
            call_id = CallId(f"{call_id or 'call'}_{index}")
        seen.add(call_id)
        named.append(call if call_id == call.call_id else ToolCallRequest(call_id, call.tool, call.arguments))
    return tuple(named)


def body_of(request: Mapping[str, Any]) -> bytes:
    """Return the bytes of a request."""
    try:
        return orjson.dumps(request)
    except TypeError:  # lone surrogates from a tool's output: escaped, as the standard library does
        return json.dumps(request).encode()


def encode_tools(tools: Sequence[ToolSpec]) -> orjson.Fragment:
    """Return tools as servers take them; encoded once, since each request of a run has the same ones."""
    known = _ENCODED_TOOLS.get(id(tools))
    if known is None or known[0] is not tools:
        known = tools, orjson.Fragment(b"[%b]" % b",".join([_encode_tool(tool) for tool in tools]))
        if isinstance(tools, tuple):  # others may change
            if len(_ENCODED_TOOLS) >= _MAX_ENCODED_TOOLS:
                _ENCODED_TOOLS.clear()
            _ENCODED_TOOLS[id(tools)] = known
    return known[1]


def _encode_tool(tool: ToolSpec) -> bytes:
    """Return one tool; runs have tuples of their own, but the same tools in them."""
    known = _ENCODED_EACH.get(id(tool))
    if known is None or known[0] is not tool:
        function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        # A copy that is no larger than it has to be: orjson leaves kilobytes of room behind what it encodes.
        known = tool, b"%b" % body_of({"type": "function", "function": function})
        if len(_ENCODED_EACH) >= _MAX_ENCODED_EACH:
            _ENCODED_EACH.clear()
        _ENCODED_EACH[id(tool)] = known
    return known[1]


_MAX_ENCODED_EACH = 1_000
_ENCODED_EACH: dict[int, tuple[ToolSpec, bytes]] = {}
_MAX_ENCODED_TOOLS = 100
_ENCODED_TOOLS: dict[int, tuple[Sequence[ToolSpec], orjson.Fragment]] = {}
"""By identity: a schema cannot be hashed, and the tools that are kept here keep their id."""


def unusable(why: str) -> ModelAnswerUnusable:
    """Return the error about an answer that is none."""
    return ModelAnswerUnusable(
        f"The model server sent an unusable answer: {why}",
        hint="Check that the address is a chat endpoint of a model server and that the server is healthy.",
    )
