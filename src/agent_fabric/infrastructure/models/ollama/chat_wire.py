"""Ollama's own chat format, `/api/chat`, as bytes and back: pure, and deaf to nonsense.

It is used where `/v1/chat/completions` cannot say what is meant: the window. Whatever is not a plain answer of the
documented shape raises ModelAnswerUnusable; nothing is guessed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_fabric.domain.models.dialects.request_shape import ShapedRequest
from agent_fabric.domain.models.messages import LLMResponse, Message, Role, ToolCallRequest, Usage
from agent_fabric.domain.models.thoughts import ThoughtSplitter, join_thoughts, split_thoughts
from agent_fabric.domain.tools.specs import BadArguments, arguments_from
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


def encode_chat(
    asked: ShapedRequest,
    model: str,
    *,
    temperature: float,
    top_p: float,
    max_tokens: int,
    window: int | None,
    stream: bool,
    keep_alive_s: int | None = None,
) -> bytes:
    """Return the body of a request. The same conversation always gives the same bytes, so that servers can cache it.

    `window` is how many tokens the model shall have room for, `keep_alive_s` how long it stays loaded; None: as the
    server does it.
    """
    numbers: dict[str, Any] = {"temperature": temperature, "top_p": top_p, "num_predict": max_tokens}
    if window is not None:
        numbers["num_ctx"] = window
    body: dict[str, Any] = {
        "model": model,
        "messages": _messages(asked.messages),
        "stream": stream,
        "options": numbers,
        # A conversation that is too long shall be an error, not be cut silently. Older servers ignore these two.
        "truncate": False,
        "shift": False,
    }
    if keep_alive_s is not None:
        body["keep_alive"] = keep_alive_s
    if asked.tools:
        body["tools"] = encode_tools(asked.tools)
    if asked.answer_schema is not None:
        body["format"] = asked.answer_schema
    return body_of(body)


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    names: dict[str, str] = {}
    encoded: list[dict[str, Any]] = []
    for message in messages:
        plain: dict[str, Any] = {"role": message.role.value, "content": message.content}
        if message.role is Role.TOOL:
            plain["tool_name"] = names.get(message.call_id or "", "")
            plain["tool_call_id"] = message.call_id
        elif message.tool_calls:
            names.update((call.call_id, call.tool) for call in message.tool_calls)
            plain["tool_calls"] = [
                {"id": call.call_id, "function": {"name": call.tool, "arguments": _arguments(call.arguments)}}
                for call in message.tool_calls
            ]
        encoded.append(plain)
    return encoded


def _arguments(text: str) -> Mapping[str, Any]:
    """Return the arguments as the object that Ollama wants; what is none is kept where the model can see it."""
    try:
        return arguments_from(text)
    except BadArguments:
        return {"unreadable": text}


def parse_chat(data: bytes) -> LLMResponse:
    """Read a whole answer.

    Raises:
        ModelAnswerUnusable: it is none.
    """
    answer = StreamedChat()
    answer.feed(data)
    return answer.answer()


class StreamedChat:
    """Puts an answer together from the lines of a stream; a whole answer is a stream of one line."""

    def __init__(self) -> None:
        self._content: list[str] = []
        self._thoughts: list[str] = []
        self._splitter = ThoughtSplitter()
        self._calls: list[ToolCallRequest] = []
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
        if not line.strip():
            return ""
        part = object_of(json_of(line), "a part of the answer")
        if part.get("error"):
            raise unusable(f"the server broke off: {str(part['error'])[:300]}")
        message = object_of(part.get("message") or {}, "the message")
        if "message" not in part and "done" not in part:
            raise unusable("there is no message in it")
        for each in list_of(message.get("tool_calls"), "tool_calls"):
            call = call_of(each)
            self._calls.append(call)
            self.size += len(call.arguments) + CHARS_PER_CALL
        text = text_of(message.get("content"), "content")
        self._thoughts.append(optional_text(message.get("thinking")))
        self.size += len(text) + len(self._thoughts[-1])
        said = self._splitter.feed(text)
        self._content.append(said)
        self._model = optional_text(part.get("model")) or self._model
        if part.get("done") is True:
            self.done = True
            self._finish_reason = optional_text(part.get("done_reason"))
            self._usage = _usage(part)
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
        if not self.done:
            raise unusable("the stream was cut off")
        calls = with_ids(self._calls)
        self._content.append(self._splitter.end())
        thoughts, said = split_thoughts("".join(self._content))
        return LLMResponse(
            content=said,
            tool_calls=calls,
            usage=self._usage,
            model=self._model,
            finish_reason="tool_calls" if calls and self._finish_reason == "stop" else self._finish_reason,
            thoughts=self._all_thoughts(thoughts),
        )


def _usage(part: Mapping[str, Any]) -> Usage | None:
    # A count of zero is left out: an answer that is nothing but an end token has no eval_count.
    prompt, completion = part.get("prompt_eval_count"), part.get("eval_count", 0)
    return Usage(prompt, completion) if is_count(prompt) and is_count(completion) else None
