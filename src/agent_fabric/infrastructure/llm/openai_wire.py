"""OpenAI's chat format, as bytes and back: pure, and deaf to nonsense.

`Any` lives here: a server may send anything. Whatever is not a plain answer of the documented shape raises
ModelAnswerUnusable; nothing is guessed.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from agent_fabric.domain.errors import ModelAnswerUnusable
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.json_schema import too_deep
from agent_fabric.domain.messages import LLMResponse, Message, Role, ToolCallRequest, Usage
from agent_fabric.domain.tools import ToolSpec


def encode_request(
    messages: Sequence[Message],
    model: str,
    *,
    tools: Sequence[ToolSpec],
    temperature: float,
    top_p: float,
    max_tokens: int,
    must_call: str | None,
    stream: bool,
) -> bytes:
    """Return the body of a request. The same conversation always gives the same bytes, so that servers can cache it."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message(message) for message in messages],
        "temperature": temperature,
        "top_p": top_p,
        "max_tokens": max_tokens,
    }
    if tools:
        body["tools"] = [_tool(tool) for tool in tools]
        body["tool_choice"] = {"type": "function", "function": {"name": must_call}} if must_call else "auto"
    if stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    try:
        return orjson.dumps(body)
    except TypeError:  # lone surrogates from a tool's output: escaped, as the standard library does
        return json.dumps(body).encode()


def _message(message: Message) -> dict[str, Any]:
    if message.role is Role.TOOL:
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
    if message.tool_calls:
        return {
            "role": "assistant",
            "content": message.content or None,
            "tool_calls": [
                {"id": call.call_id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}
                for call in message.tool_calls
            ],
        }
    return {"role": message.role.value, "content": message.content}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }


def parse_response(data: bytes) -> LLMResponse:
    """Read a whole answer.

    Raises:
        ModelAnswerUnusable: it is none.
    """
    body = _object(_json(data), "the answer")
    if body.get("error") and not body.get("choices"):
        raise _unusable(f"the server said: {error_text(data)}")
    choice = _object(_first(body.get("choices")), "choices[0]")
    message = _object(choice.get("message"), "the message")
    calls = _list(message.get("tool_calls"), "tool_calls")
    return LLMResponse(
        content=_text(message.get("content"), "content"),
        tool_calls=_with_ids([_call(call) for call in calls]),
        usage=_usage(body.get("usage")),
        model=_optional_text(body.get("model")),
        finish_reason=_optional_text(choice.get("finish_reason")),
    )


class StreamedAnswer:
    """Puts an answer together from the chunks of a stream."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._calls: dict[int, tuple[str, str, list[str]]] = {}
        self._usage: Usage | None = None
        self._model = ""
        self._finish_reason = ""
        self.done = False
        """The server has said that nothing follows."""

    def feed(self, line: bytes) -> str:
        """Take in one line of the stream; return the text that it added.

        Raises:
            ModelAnswerUnusable: the line is not what a stream may hold.
        """
        if not line.startswith(b"data:"):
            return ""  # comments, event names and empty lines
        data = line[5:].strip()
        if data == b"[DONE]":
            self.done = True
            return ""
        chunk = _object(_json(data), "a chunk")
        if "error" in chunk:
            raise _unusable(f"the server broke off: {str(chunk['error'])[:300]}")
        self._usage = _usage(chunk.get("usage")) or self._usage
        self._model = _optional_text(chunk.get("model")) or self._model
        choices = chunk.get("choices")
        if not choices:
            return ""
        choice = _object(_first(choices), "choices[0]")
        self._finish_reason = _optional_text(choice.get("finish_reason")) or self._finish_reason
        delta = _object(choice.get("delta") or {}, "the delta")
        for part in _list(delta.get("tool_calls"), "tool_calls"):
            self._add_call(_object(part, "a tool call"))
        text = _text(delta.get("content"), "content")
        self._content.append(text)
        return text

    def answer(self) -> LLMResponse:
        """Return the whole.

        Raises:
            ModelAnswerUnusable: the stream ended before the server said that it was complete.
        """
        if not (self.done or self._finish_reason):
            raise _unusable("the stream was cut off")
        calls = [
            _call({"id": call_id, "function": {"name": name, "arguments": "".join(arguments)}})
            for _, (call_id, name, arguments) in sorted(self._calls.items())
        ]
        return LLMResponse(
            content="".join(self._content),
            tool_calls=_with_ids(calls),
            usage=self._usage,
            model=self._model,
            finish_reason=self._finish_reason,
        )

    def _add_call(self, part: Mapping[str, Any]) -> None:
        index = part.get("index", len(self._calls))
        if not isinstance(index, int) or isinstance(index, bool):
            raise _unusable("a tool call has no proper index")
        function = _object(part.get("function") or {}, "a tool call's function")
        call_id, name, arguments = self._calls.get(index, ("", "", []))
        arguments.append(_text(function.get("arguments"), "arguments"))
        self._calls[index] = (
            call_id or _text(part.get("id"), "a tool call's id"),
            name or _text(function.get("name"), "a tool's name"),
            arguments,
        )


def error_text(data: bytes) -> str:
    """Return what a server says about an error, whatever shape it gave it."""
    try:
        body = _json(data)
    except ModelAnswerUnusable:
        body = None
    found: Any = body
    if isinstance(body, dict):
        found = body.get("error", body.get("detail", body.get("message", body)))
    if isinstance(found, dict):
        found = found.get("message", found)
    text = found if isinstance(found, str) else data.decode("utf-8", "replace") if found is None else str(found)
    return " ".join(text.split())[:500]


def _call(value: Any) -> ToolCallRequest:
    call = _object(value, "a tool call")
    function = _object(call.get("function"), "a tool call's function")
    name = _text(function.get("name"), "a tool's name")
    if not name:
        raise _unusable("a tool call has no name")
    arguments = function.get("arguments")
    if isinstance(arguments, dict):  # some servers send the object itself
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCallRequest(CallId(_text(call.get("id"), "a tool call's id")), name, _text(arguments, "arguments"))


def _with_ids(calls: list[ToolCallRequest]) -> tuple[ToolCallRequest, ...]:
    """Give every call an id that no other call of the turn has; servers forget or repeat them."""
    seen: set[str] = set()
    named: list[ToolCallRequest] = []
    for index, call in enumerate(calls):
        call_id = call.call_id
        while not call_id or call_id in seen:
            call_id = CallId(f"{call_id or 'call'}_{index}")
        seen.add(call_id)
        named.append(ToolCallRequest(call_id, call.tool, call.arguments))
    return tuple(named)


def _json(data: bytes) -> Any:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as problem:
        value = _with_whole_characters(data, problem)
    if too_deep(value, data):
        raise _unusable("it is nested too deeply")
    return value


def _with_whole_characters(data: bytes, problem: ValueError) -> Any:
    """Read JSON in which half a character stands (a lone surrogate, escaped), as `?`: some models cut emoji in two."""
    try:
        value = json.loads(data) if b"\\u" in data else None
        if value is not None:
            return orjson.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        pass  # it is not that; the first problem tells more
    raise _unusable(f"not JSON: {problem}") from None


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _unusable(f"{what} is not an object")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _unusable(f"{what} is not a list")
    return value


def _first(value: Any) -> Any:
    if not isinstance(value, list) or not value:
        raise _unusable("there are no choices")
    return value[0]


def _text(value: Any, what: str) -> str:
    if value is None:
        return ""
    if isinstance(value, list):  # content in parts
        return "".join(_text(_object(part, what).get("text"), what) for part in value)
    if not isinstance(value, str):
        raise _unusable(f"{what} is not text")
    return value


def _optional_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    prompt, completion = value.get("prompt_tokens"), value.get("completion_tokens")
    if not (_is_count(prompt) and _is_count(completion)):
        return None
    return Usage(prompt, completion)  # type: ignore[arg-type]  # _is_count has just looked


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _unusable(why: str) -> ModelAnswerUnusable:
    return ModelAnswerUnusable(
        f"The model server sent an unusable answer: {why}",
        hint="Check that the address is an OpenAI-compatible chat endpoint and the server is healthy.",
    )
