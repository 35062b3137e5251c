"""Parses tool calls from the answer of a model, or reports what is wrong with it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, assert_never

from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.dialects.answer_schema import join_lines
from agent_fabric.domain.models.dialects.call_text import (
    THOUGHT,
    NoCall,
    ParsedCalls,
    read_call,
    read_calls,
    read_object,
)
from agent_fabric.domain.models.dialects.conversation import is_conversation, reply_so_far
from agent_fabric.domain.models.dialects.request_shape import ShapedRequest
from agent_fabric.domain.models.dialects.whole_files import file_from
from agent_fabric.domain.models.dialects.wire_names import with_own_names
from agent_fabric.domain.models.messages import LLMResponse, ToolCallRequest, ToolDialect
from agent_fabric.domain.tools.specs import MEMORY_TOOL, ToolSpec


def interpret_answer(
    dialect: ToolDialect,
    response: LLMResponse,
    shaped: ShapedRequest,
    tools: Sequence[ToolSpec],
    *,
    strict_native: bool = False,
) -> LLMResponse:
    """Return the answer to a shaped request: a file that was asked for, or calls. One that was cut asks for nothing."""
    if response.cut:
        return replace(response, dialect=dialect)
    if shaped.writes_file:
        return file_from(dialect, response, shaped.writes_file)
    return parse_answer(dialect, response, tools, strict_native=strict_native)


def parse_answer(
    dialect: ToolDialect, response: LLMResponse, tools: Sequence[ToolSpec], *, strict_native: bool = False
) -> LLMResponse:
    """Return the answer with the calls that the model meant. Never raises, whatever the model wrote.

    `problem` is set when a call was meant but cannot be made. With `strict_native` only the server's own calls count.
    """
    answer = response if response.dialect is dialect else replace(response, dialect=dialect)
    if answer.tool_calls or not tools:
        return with_own_names(answer, tools) if dialect is ToolDialect.NATIVE else answer
    offered = {tool.name: tool for tool in tools}
    if MEMORY_TOOL not in offered and _LOOKS_UP.match(response.content):
        return replace(answer, problem=_LOOKED_UP)  # it repeats the call that was made for it before it was asked
    cut_off = response.finish_reason == "length"
    match dialect:
        case ToolDialect.NATIVE:
            if strict_native:
                return answer
            found = read_calls(response.content, offered)
            return _with(answer, found, _NATIVE_FORM, cut_off=cut_off, recovered=True)
        case ToolDialect.SCHEMA:
            talks = is_conversation(tools)
            if talks and (said := reply_so_far(response.content)):
                return replace(answer, content=said)  # cut off or not: the person has seen it
            found = _read_constrained(response.content, offered, talks=talks)
            return _with(answer, found, _SCHEMA_FORM, cut_off=cut_off)
        case ToolDialect.TEXT:
            found = read_calls(response.content, offered)
            return _with(answer, found, _TEXT_FORM, cut_off=cut_off)
        case unknown:
            assert_never(unknown)


_NATIVE_FORM = "Call the tool again."
_SCHEMA_FORM = 'Answer with nothing but one JSON object: {"name": "<tool>", "arguments": {…}}'
_TEXT_FORM = 'Send one fenced tool_call block with nothing in it but {"tool": "<tool>", "params": {…}}'
_LOOKS_UP = re.compile(rf'\s*(?:```\w*\s*|<tool_call>\s*)?\{{\s*"(?:name|tool)"\s*:\s*"{MEMORY_TOOL}"')
_LOOKED_UP = (
    "Memory was searched for you already, and what it has stands above. Answer now in plain words: repeat the sentence"
    " of it that answers the question, or say that memory has nothing about it."
)
_CUT_OFF = (
    "Your answer was too long and was cut off, so nothing was done. Make a shorter call; write long files in parts."
)


def _read_constrained(text: str, tools: Mapping[str, ToolSpec], *, talks: bool) -> ParsedCalls:
    """Read an answer that should be one JSON object; who `talks` may also write plain words."""
    if not text.strip():
        return ParsedCalls()
    try:
        value = _in_whole_texts(_end_command(read_object(text)), tools)
        name, arguments = read_call(value, tools)
    except NoCall as problem:
        # A server that does not know about schemas lets the model write what it likes.
        found = read_calls(text, tools)
        is_plain = talks and not text.lstrip().startswith("{")
        return found if found.calls or is_plain else ParsedCalls(said=text, problem=found.problem or str(problem))
    where = _breaks_off(tools[name], value)
    if where:
        return ParsedCalls(said=text, problem=f"the command is not whole, {where}; write it in a simpler way")
    thought = value.get(THOUGHT)
    said = thought.strip() if isinstance(thought, str) else ""
    return ParsedCalls(said=said, calls=(ToolCallRequest(CallId("call_0"), name, arguments),))


def _end_command(value: dict[str, Any]) -> dict[str, Any]:
    r"""End `find … -exec … {} \;` where a small model lost the last sign, which JSON makes it write as `\\;`."""
    arguments = value.get("arguments")
    if not isinstance(arguments, dict):
        return value
    command = arguments.get("command")
    if not isinstance(command, str) or not _LOST_END.search(command):
        return value
    return {**value, "arguments": {**arguments, "command": f"{command};"}}


_LOST_END = re.compile(r"-exec(?:dir)? [^|;&]*\{\} \\$")


def _breaks_off(tool: ToolSpec, value: dict[str, Any]) -> str:
    """Return where a command breaks off: small models end texts too early, and no person should be asked."""
    command = value.get("arguments", {}).get(tool.command_argument) if tool.command_argument else None
    if not isinstance(command, str):
        return ""
    from agent_fabric.domain.policy.command_lines.grammar import breaks_off  # noqa: PLC0415 - only models that need help pay for it

    return breaks_off(command)


def _in_whole_texts(value: dict[str, Any], tools: Mapping[str, ToolSpec]) -> dict[str, Any]:
    """Put long texts together that the model gave line by line."""
    tool = tools.get(str(value.get("name")))
    return {**value, "arguments": join_lines(tool, value["arguments"])} if "arguments" in value else value


def _with(answer: LLMResponse, found: ParsedCalls, form: str, *, cut_off: bool, recovered: bool = False) -> LLMResponse:
    if found.calls:
        return replace(answer, content=found.said, tool_calls=found.calls, recovered=recovered)
    if found.problem:
        problem = _CUT_OFF if cut_off else f"This call was not made: {found.problem.rstrip('.')}. {form}"
        return replace(answer, problem=problem)
    return answer
