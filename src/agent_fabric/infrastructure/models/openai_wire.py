"""OpenAI's chat format, as bytes and back: pure, and deaf to nonsense.

`Any` lives here: a server may send anything. Whatever is not a plain answer of the documented shape raises
ModelAnswerUnusable; nothing is guessed.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import orjson

from agent_fabric.domain.errors import ModelAnswerUnusable
from agent_fabric.domain.models.dialects.request_shape import ShapedRequest
from agent_fabric.domain.models.found_models import ModelCard, is_no_chat_model, parameters_from, parameters_in_name
from agent_fabric.domain.models.messages import LLMResponse, Message, Role, Usage
from agent_fabric.domain.models.thoughts import ThoughtSplitter, join_thoughts, split_thoughts
from agent_fabric.infrastructure.models.wire_values import (
    CHARS_PER_CALL,
    body_of,
    call_of,
    encode_tools,
    is_count,
    json_of,
    list_of,
    object_of,
    optional_text,
    text_of,
    unusable,
    with_ids,
)

_THOUGHTS = ("reasoning_content", "reasoning")
"""Where servers put what a model thinks before it answers."""


def encode_request(
    shaped: ShapedRequest,
    model: str,
    *,
    temperature: float,
    top_p: float,
    max_tokens: int,
    stream: bool,
    progress: bool = False,
) -> bytes:
    """Return the body of a request. The same conversation always gives the same bytes, so that servers can cache it.

    With `progress`, a stream of llama.cpp also says how much of the prompt has been read.
    """
    body: dict[str, Any] = {
        "model": model,
        "messages": _encode_messages(shaped.messages),
        "temperature": temperature,
        "top_p": top_p,
        "max_tokens": max_tokens,
    }
    if shaped.tools:
        must_call = shaped.must_call
        body["tools"] = encode_tools(shaped.tools)
        body["tool_choice"] = {"type": "function", "function": {"name": must_call}} if must_call else "auto"
    if shaped.answer_schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": "tool_call", "schema": shaped.answer_schema, "strict": True},
        }
    if stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
        if progress:
            body["return_progress"] = True
    return body_of(body)


def _encode_messages(messages: Sequence[Message]) -> list[orjson.Fragment]:
    """Return messages as they are sent, each encoded once."""
    for message in reversed(messages):  # what is new stands at the end
        if hasattr(message, "encoded"):
            break
        object.__setattr__(message, "encoded", _message(message))
    try:
        return list(map(_ENCODED, messages))
    except AttributeError:  # but for a summary, which stands in the place of what was old
        for message in messages:
            if not hasattr(message, "encoded"):
                object.__setattr__(message, "encoded", _message(message))
        return list(map(_ENCODED, messages))


_ENCODED = attrgetter("encoded")


def _message(message: Message) -> orjson.Fragment:
    plain: dict[str, Any]
    if message.role is Role.TOOL:
        plain = {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
        return orjson.Fragment(b"%b" % body_of(plain))  # a copy: orjson leaves kilobytes of room behind what it encodes
    plain = {"role": message.role.value, "content": message.content}
    if message.tool_calls:
        plain["content"] = message.content or None
        plain["tool_calls"] = [
            {"id": call.call_id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    return orjson.Fragment(b"%b" % body_of(plain))


def parse_response(data: bytes) -> LLMResponse:
    """Read a whole answer.

    Raises:
        ModelAnswerUnusable: it is none.
    """
    body = object_of(json_of(data), "the answer")
    if body.get("error") and not body.get("choices"):
        raise unusable(f"the server said: {error_text(data)}")
    choice = object_of(_first(body.get("choices")), "choices[0]")
    message = object_of(choice.get("message"), "the message")
    calls = list_of(message.get("tool_calls"), "tool_calls")
    said, thoughts, apart = text_of(message.get("content"), "content"), "", _thoughts_in(message)
    if said:
        thoughts, said = split_thoughts(said)
    return LLMResponse(
        content=said,
        tool_calls=with_ids(list(map(call_of, calls))),
        usage=_usage(body.get("usage")),
        model=optional_text(body.get("model")),
        finish_reason=optional_text(choice.get("finish_reason")),
        thoughts=join_thoughts(apart, thoughts) if apart or thoughts else "",
    )


def _thoughts_in(message: Mapping[str, Any]) -> str:
    """Return what a server gives apart from the text; some give the same under both names."""
    for key in _THOUGHTS:
        text = message.get(key)
        if text and (text := optional_text(text)):
            return text
    return ""


class StreamedAnswer:
    """Puts an answer together from the chunks of a stream."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._thoughts: list[str] = []
        self._splitter = ThoughtSplitter()
        self._calls: dict[int, tuple[str, str, list[str]]] = {}
        self._usage: Usage | None = None
        self._model = ""
        self._finish_reason = ""
        self.size = 0
        """Characters so far: text, thoughts and arguments."""
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
        chunk = object_of(json_of(data), "a chunk")
        if chunk.get("error"):
            raise unusable(f"the server broke off: {str(chunk['error'])[:300]}")
        self._usage = _usage(chunk.get("usage")) or self._usage
        self._model = optional_text(chunk.get("model")) or self._model
        choices = chunk.get("choices")
        if not choices:
            return ""
        choice = object_of(_first(choices), "choices[0]")
        self._finish_reason = optional_text(choice.get("finish_reason")) or self._finish_reason
        delta = object_of(choice.get("delta") or {}, "the delta")
        for part in list_of(delta.get("tool_calls"), "tool_calls"):
            self._add_call(object_of(part, "a tool call"))
        text = text_of(delta.get("content"), "content")
        thoughts = _thoughts_in(delta)
        self._thoughts.append(thoughts)
        self.size += len(text) + len(thoughts)
        said = self._splitter.feed(text)
        self._content.append(said)
        return said

    def beginning(self) -> LLMResponse:
        """Return the text that has come, of an answer whose rest is not wanted."""
        return LLMResponse(content="".join(self._content), model=self._model, thoughts=self._all_thoughts(""))

    def _all_thoughts(self, more: str) -> str:
        return join_thoughts("".join(self._thoughts), self._splitter.thoughts, more)

    def answer(self) -> LLMResponse:
        """Return the whole.

        Raises:
            ModelAnswerUnusable: the stream ended before the server said that it was complete.
        """
        if not (self.done or self._finish_reason):
            raise unusable("the stream was cut off")
        calls = [
            call_of({"id": call_id, "function": {"name": name, "arguments": "".join(arguments)}})
            for _, (call_id, name, arguments) in sorted(self._calls.items())
        ]
        self._content.append(self._splitter.end())
        thoughts, said = split_thoughts("".join(self._content))
        return LLMResponse(
            content=said,
            tool_calls=with_ids(calls),
            usage=self._usage,
            model=self._model,
            finish_reason=self._finish_reason,
            thoughts=self._all_thoughts(thoughts),
        )

    def _add_call(self, part: Mapping[str, Any]) -> None:
        index = part.get("index", len(self._calls))
        if not isinstance(index, int) or isinstance(index, bool):
            raise unusable("a tool call has no proper index")
        function = object_of(part.get("function") or {}, "a tool call's function")
        if index not in self._calls:
            self.size += CHARS_PER_CALL
        call_id, name, arguments = self._calls.get(index, ("", "", []))
        arguments.append(text_of(function.get("arguments"), "arguments"))
        self.size += len(arguments[-1])
        self._calls[index] = (
            call_id or text_of(part.get("id"), "a tool call's id"),
            name or text_of(function.get("name"), "a tool's name"),
            arguments,
        )


def prompt_progress(line: bytes) -> tuple[int, int] | None:
    """Return how many tokens of a prompt llama.cpp has read, and of how many; None: a line does not speak of it."""
    if b'"prompt_progress"' not in line:
        return None
    try:
        told = json_of(line[5:].strip()).get("prompt_progress")
        done, total = told["processed"], told["total"]
    except (ModelAnswerUnusable, AttributeError, KeyError, TypeError):
        return None
    return (done, total) if is_count(done) and is_count(total) else None


def listed_models(data: bytes) -> list[ModelCard]:
    """Read a list of models, with their sizes as far as the list or the names tell them.

    Raises:
        ModelAnswerUnusable: it is none.
    """
    listed = list_of(object_of(json_of(data), "the list of models").get("data"), "the list of models")
    return [
        ModelCard(name=name, parameters_b=_parameters_b(each, name), chats=_chats(each, name))
        for each in listed
        if isinstance(each, dict) and isinstance(name := each.get("id"), str) and name
    ]


def _parameters_b(listed: Mapping[str, Any], name: str) -> float | None:
    """Return a size as llama.cpp (`meta.n_params`), Ollama (`details.parameter_size`) or the name tells it."""
    meta, details = listed.get("meta"), listed.get("details")
    count = meta.get("n_params") if isinstance(meta, dict) else None
    if isinstance(count, int) and count > 0:
        return count / 1e9
    size = details.get("parameter_size") if isinstance(details, dict) else None
    told = parameters_from(size) if isinstance(size, str) else None
    return parameters_in_name(name) if told is None else told


def _chats(listed: Mapping[str, Any], name: str) -> bool:
    kind = listed.get("type")
    return not is_no_chat_model(kind if isinstance(kind, str) else "") and not is_no_chat_model(name)


def error_text(data: bytes) -> str:
    """Return what a server says about an error, whatever shape it gave it."""
    try:
        body = json_of(data)
    except ModelAnswerUnusable:
        body = None
    found: Any = body
    if isinstance(body, dict):
        found = body.get("error", body.get("detail", body.get("message", body)))
    if isinstance(found, dict):
        found = found.get("message", found)
    text = found if isinstance(found, str) else data.decode("utf-8", "replace") if found is None else str(found)
    return " ".join(text.split())[:500]


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    prompt, completion = value.get("prompt_tokens"), value.get("completion_tokens")
    if not (is_count(prompt) and is_count(completion)):
        return None
    details = value.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage(prompt, completion, cached if cached is not None and is_count(cached) else 0)


def _first(value: Any) -> Any:
    if not isinstance(value, list) or not value:
        raise unusable("there are no choices")
    return value[0]
