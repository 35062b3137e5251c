"""Shapes a conversation for a model according to its dialect."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

from agent_fabric.domain.models.dialects.answer_schema import schema_of_calls
from agent_fabric.domain.models.dialects.call_text import FENCE, MARK, THOUGHT, as_text
from agent_fabric.domain.models.dialects.conversation import FORM, is_conversation, schema_for
from agent_fabric.domain.models.dialects.line_lists import as_lines
from agent_fabric.domain.models.dialects.observations import (
    blamed_file,
    has_failed,
    led_nowhere,
    next_step,
    next_words,
    readable,
)
from agent_fabric.domain.models.dialects.offered_tools import offered_tools
from agent_fabric.domain.models.dialects.signatures import signatures
from agent_fabric.domain.models.dialects.whole_files import (
    BEGIN_FILE,
    MAX_TRIES,
    as_block,
    begun_file,
    request_for_text,
    tries_of,
)
from agent_fabric.domain.models.dialects.wire_names import wire_names, with_wire_names
from agent_fabric.domain.models.messages import Message, Role, ToolCallRequest, ToolDialect
from agent_fabric.domain.tools.specs import BadArguments, ToolSpec, arguments_from


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedRequest:
    """The messages, tools and schema of one request."""

    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    """For the server's own tool calls; empty when the messages tell the model about its tools."""
    must_call: str | None
    """The tool that the server should make the model choose; only with `tools`."""
    answer_schema: Mapping[str, Any] | None = None
    """JSON schema that the server must hold the answer to; None lets the model write freely."""
    stuck: bool = False
    """The last call led nowhere: asked in the same way, the model would make it again."""
    only_answer: str = ""
    """The one answer that the schema leaves, which no model has to be asked for; empty: there is a choice."""
    talks: bool = False
    """The answer may be plain words or a call, and only the words are for the person; see `spoken`."""
    writes_file: str = ""
    """The path of the file whose text is the answer; empty: it is no file. See `file_from`."""


def shape_request(
    dialect: ToolDialect, messages: Sequence[Message], tools: Sequence[ToolSpec], must_call: str | None = None
) -> ShapedRequest:
    """Return the conversation as a model of this dialect takes it.

    A longer conversation begins with the very bytes of the shorter one, so that servers can go on from what they have
    kept. `must_call` changes no message for the same reason. Only the text of a file is asked for by itself.
    """
    path = begun_file(messages) if must_call is None else ""
    if path:
        asked = request_for_text(messages, _task(messages))
        stuck = tries_of(messages, path) > 1  # what it wrote at a low temperature, it would write again
        return ShapedRequest(messages=asked, tools=(), must_call=None, writes_file=path, stuck=stuck)
    match dialect:
        case ToolDialect.NATIVE:
            if names := wire_names(tools):
                messages, tools = with_wire_names(messages, tools, names)
                must_call = names.get(must_call, must_call) if must_call is not None else None
            return ShapedRequest(messages=messages, tools=tools, must_call=must_call)
        case ToolDialect.SCHEMA if must_call is None and is_conversation(tools):
            return ShapedRequest(
                messages=_tell_tools(messages, FORM, tools, _json_call, in_lines=True, talks=True),
                tools=(),
                must_call=None,
                answer_schema=schema_for(messages, tools),
                talks=True,
            )
        case ToolDialect.SCHEMA:
            last = messages[-1] if messages else None
            failed = last is not None and last.role is Role.TOOL and has_failed(last.content)
            offered = offered_tools(messages, tools)
            schema = schema_of_calls(offered, must_call, why_first=failed) if tools else None
            return ShapedRequest(
                messages=_tell_tools(messages, _SCHEMA_FORM, tools, _json_call, in_lines=True),
                tools=(),
                must_call=None,
                answer_schema=schema,
                stuck=last is not None and last.role is Role.TOOL and led_nowhere(last.content),
                only_answer=_only_answer(messages, offered) if must_call is None else "",
            )
        case ToolDialect.TEXT:
            told = _tell_tools(messages, _TEXT_FORM, tools, _fenced_call)
            return ShapedRequest(messages=told, tools=(), must_call=None)
        case unknown:
            assert_never(unknown)


def _only_answer(messages: Sequence[Message], offered: Sequence[ToolSpec]) -> str:
    """Return the call that is left when one tool is offered and its arguments are known.

    A model takes seconds to write what it must write, and is at its slowest where it would rather write something else.
    """
    if len(offered) != 1:
        return ""
    last = messages[-1].content if messages else ""
    if offered[0].name == BEGIN_FILE:
        path = blamed_file(_task(messages), last)
        known = {"path": path} if path and tries_of(messages, path) < MAX_TRIES else None
    else:
        known = None if offered[0].parameters.get("properties") or has_failed(last) else {}
    return "" if known is None else as_text({"name": offered[0].name, "arguments": known})


_SCHEMA_FORM = 'Answer with one call, as JSON: {"name": "<tool>", "arguments": {…}}'
_TEXT_FORM = f"""\
To call a tool, end your answer with one block like this, and nothing after it:
{FENCE}{MARK}
{{"tool": "<tool>", "params": {{…}}}}
{FENCE}
You then get its result. Inside the block there is nothing but JSON."""


def _tell_tools(
    messages: Sequence[Message],
    form: str,
    tools: Sequence[ToolSpec],
    written: Callable[[str, Sequence[ToolCallRequest], Mapping[str, ToolSpec]], str],
    *,
    in_lines: bool = False,
    talks: bool = False,
) -> list[Message]:
    """Say in the messages what the server's own tool calls would carry."""
    told: list[Message] = []
    names: dict[str, str] = {}
    known = {tool.name: tool for tool in tools}
    task = said = _task(messages)
    for index, message in enumerate(messages):
        if index == 0 and message.role is Role.SYSTEM and tools:
            told.append(
                replace(
                    message,
                    content=f"{message.content.rstrip()}\n\nTools:\n{signatures(tools, in_lines=in_lines)}\n\n{form}\n",
                )
            )
        elif message.tool_calls:
            names.update((call.call_id, call.tool) for call in message.tool_calls)
            text = _block_of(message.tool_calls, known) or written(message.content, message.tool_calls, known)
            told.append(Message(Role.ASSISTANT, text))
        elif message.role is Role.TOOL:
            name = names.get(message.call_id or "", "the tool")
            if name == BEGIN_FILE and begun_file(messages[: index + 1]):
                _say(told, _ITS_TEXT)
                continue
            tool = known.get(name)
            then = next_words(said, tool, message.content) if talks else next_step(task, tool, message.content)
            _say(told, "\n\n".join(filter(None, (readable(name, message.content), then))))
        elif message.role is Role.USER:
            said = message.content
            _say(told, said)
        else:
            told.append(message)
    return told


_ITS_TEXT = "Now its text, whole."


def _task(messages: Sequence[Message]) -> str:
    return next((message.content for message in messages if message.role is Role.USER), "")


def _block_of(calls: Sequence[ToolCallRequest], known: Mapping[str, ToolSpec]) -> str:
    """Return the text of a file that was written in an answer of its own; empty: this is another call."""
    return as_block(calls[0]) if BEGIN_FILE in known and len(calls) == 1 else ""


def _say(told: list[Message], text: str) -> None:
    """Add to what the model is told; many templates want the two sides to speak in turn."""
    if told and told[-1].role is Role.USER:
        told[-1] = Message(Role.USER, f"{told[-1].content}\n\n{text}")
    else:
        told.append(Message(Role.USER, text))


def _json_call(said: str, calls: Sequence[ToolCallRequest], tools: Mapping[str, ToolSpec]) -> str:
    texts = []
    for number, call in enumerate(calls):
        thought = {THOUGHT: said} if said and not number else {}
        arguments = as_lines(tools.get(call.tool), _arguments(call))
        texts.append(as_text({**thought, "name": call.tool, "arguments": arguments}))
    return "\n".join(texts)


def _fenced_call(said: str, calls: Sequence[ToolCallRequest], tools: Mapping[str, ToolSpec]) -> str:  # noqa: ARG001 - as above
    blocks = [f"{FENCE}{MARK}\n{as_text({'tool': call.tool, 'params': _arguments(call)})}\n{FENCE}" for call in calls]
    return "\n".join([said, *blocks] if said else blocks)


def _arguments(call: ToolCallRequest) -> object:
    try:
        return arguments_from(call.arguments)
    except BadArguments:
        return call.arguments
