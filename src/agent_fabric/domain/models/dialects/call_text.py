"""Tool calls that stand in plain text: found where a model means them, and read strictly.

A block is a call only if the whole block is JSON, names a tool on offer and has arguments that fit, and only if the
answer ends with it. Text that merely shows a call is none: a model that quotes a hostile page must not act on it.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.messages import ToolCallRequest
from agent_fabric.domain.tools.json_schema import problems_with
from agent_fabric.domain.tools.specs import BadArguments, ToolSpec, arguments_from

FENCE = "```"
MARK = "tool_call"
"""What a fenced block of a call is labelled with."""
MAX_CALLS = 16
"""Of one answer; what comes after is left out."""
THOUGHT = "thought"
"""Key of what a model says before a call, where the form of the call has room for it."""

_TAGS = (f"<{MARK}>", f"</{MARK}>")
_NAME_KEYS = ("name", "tool")
_ARGUMENT_KEYS = ("arguments", "params", "parameters")
_LABEL = re.compile(r"[ \t]*(?:([\w-]+)[ \t]*)?(?:\r?\n|(?=[{\[]))")


@dataclass(frozen=True, slots=True)
class CallBlock:
    """A part of an answer that may be a call."""

    text: str
    start: int
    """Where it begins in the answer, with what marks it."""
    end: int
    marked: bool
    """It says of itself that it is a call."""


@dataclass(frozen=True, slots=True)
class ParsedCalls:
    """What an answer asks for."""

    said: str = ""
    """The text before the calls."""
    calls: tuple[ToolCallRequest, ...] = ()
    problem: str = ""
    """What is wrong with a call that was meant; there are no calls then."""


class NoCall(ValueError):
    """A block is not a call that can be made; the message tells the model why."""


def read_calls(text: str, tools: Mapping[str, ToolSpec]) -> ParsedCalls:
    """Find the calls in an answer. Neither calls nor a problem: it is plain text."""
    marked = list(_marked_blocks(text))
    blocks = _at_the_end(text, marked) if marked else _closing_blocks(text)
    if not blocks:
        return ParsedCalls(said=text, problem=_NOT_AT_THE_END if marked else "")
    try:
        found = [read_call(value, tools) for block in blocks for value in _values(block.text)]
    except NoCall as problem:
        meant = blocks[0].marked or _names_a_tool(blocks, tools)
        return ParsedCalls(said=text, problem=str(problem) if meant else "")
    calls = tuple(
        ToolCallRequest(CallId(f"call_{number}"), name, arguments)
        for number, (name, arguments) in enumerate(found[:MAX_CALLS])
    )
    return ParsedCalls(said=text[: blocks[0].start].strip(), calls=calls)


def read_call(value: object, tools: Mapping[str, ToolSpec]) -> tuple[str, str]:
    """Return the name and the arguments of a call, as text.

    Raises:
        NoCall: it is none that can be made.
    """
    if not isinstance(value, dict):
        raise NoCall("a call must be one JSON object")
    name = next((value[key] for key in _NAME_KEYS if key in value), None)
    if not isinstance(name, str):
        raise NoCall("the call does not name a tool")
    tool = tools.get(name)
    if tool is None:
        raise NoCall(f"there is no tool {name[:80]!r}; the tools are: {', '.join(tools)}")
    extra = value.keys() - {*_NAME_KEYS, *_ARGUMENT_KEYS, THOUGHT}
    if extra:
        raise NoCall(f"{min(extra)[:80]!r} stands beside the arguments; put all arguments of {name} into one object")
    arguments: object = next((value[key] for key in _ARGUMENT_KEYS if key in value), {})
    problems = problems_with(arguments, tool.parameters)
    if not isinstance(arguments, dict) or problems:
        raise NoCall(f"{name}: {'; '.join(problems) or 'the arguments must be a JSON object'}")
    return name, as_text(arguments)


def read_object(text: str) -> dict[str, Any]:
    """Read a JSON object, as strictly as JSON is defined.

    Raises:
        NoCall: it is none.
    """
    if not text.strip():
        raise NoCall("the call is empty")
    try:
        return arguments_from(text)
    except BadArguments as problem:
        raise NoCall(
            str(problem).replace("the arguments are", "the call is").replace("the arguments", "a call")
        ) from None


def as_text(value: object) -> str:
    """Write JSON as models do, on one line; half a character is escaped, so that it can be sent on."""
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text) else json.dumps(value)


def _values(text: str) -> list[object]:
    """Return the object in a block, or the objects of a list."""
    if not text.lstrip().startswith("["):
        return [read_object(text)]
    wrapped = read_object(f'{{"calls": {text}}}')["calls"]
    if not wrapped:
        raise NoCall("the list of calls is empty")
    return list(wrapped)


def _marked_blocks(text: str) -> Iterator[CallBlock]:
    """Find `<tool_call>` and fenced tool_call blocks; one that is not closed goes to the end."""
    opening, closing = _TAGS
    fence = f"{FENCE}{MARK}"
    at = 0
    for _ in range(MAX_CALLS):
        tagged, fenced = text.find(opening, at), text.find(fence, at)
        if tagged < 0 and fenced < 0:
            return
        is_tag = fenced < 0 or 0 <= tagged < fenced
        start = tagged if is_tag else fenced
        body = start + len(opening if is_tag else fence)
        end = text.find(closing, body) if is_tag else _fence_end(text, body)
        stop = len(text) if end < 0 else end
        inner = text[body:stop]
        at = stop if end < 0 else stop + len(closing if is_tag else FENCE)
        yield CallBlock(
            inner.strip().removeprefix(f"{FENCE}json").strip("`").strip() if is_tag else inner, start, at, True
        )


_NOT_AT_THE_END = "a call must be at the very end of your answer, with nothing after it and not inside an example"


def _at_the_end(text: str, blocks: Sequence[CallBlock]) -> list[CallBlock]:
    """Return the blocks that an answer ends with: nothing but space between and after them, and none inside a quote."""
    closing: list[CallBlock] = []
    limit = len(text)
    for block in reversed(blocks):
        if text[block.end : limit].strip() or not _is_quoted_by_nobody(text[: block.start]):
            break
        closing.insert(0, block)
        limit = block.start
    return closing


def _is_quoted_by_nobody(before: str) -> bool:
    """Tell whether what follows stands at a line's beginning and in no fenced block."""
    *lines, begun = before.split("\n")
    fences = sum(line.lstrip().startswith((FENCE, "~~~")) for line in lines)
    return not begun.strip() and fences % 2 == 0


def _closing_blocks(text: str) -> list[CallBlock]:
    """Find the unmarked blocks that an answer ends with: all of it, or fenced blocks with nothing but space between."""
    bare = text.strip()
    if bare[:1] in {"{", "["}:
        return [CallBlock(bare, text.find(bare), len(text), False)]
    blocks: list[CallBlock] = []
    at = text.find(FENCE)
    while at >= 0 and len(blocks) < 4 * MAX_CALLS:
        label = _LABEL.match(text, at + len(FENCE))
        end = -1 if label is None else _fence_end(text, label.end())
        if label is None or end < 0:
            return []
        if label[1] in {None, "json"}:
            blocks.append(CallBlock(text[label.end() : end], at, end + len(FENCE), False))
        at = text.find(FENCE, end + len(FENCE))
    return _at_the_end(text, [block for block in blocks if block.text.lstrip().startswith(("{", "["))])


def _fence_end(text: str, start: int) -> int:
    """Find the fence that closes a block. JSON has no line breaks inside its strings, so one at a line's start does."""
    at = text.find(f"\n{FENCE}", start)
    if at >= 0:
        return at + 1
    end_of_line = text.find("\n", start)
    line = text[start : len(text) if end_of_line < 0 else end_of_line].rstrip()
    return start + len(line) - len(FENCE) if line.endswith(FENCE) and len(line) > len(FENCE) else -1


def _names_a_tool(blocks: Sequence[CallBlock], tools: Mapping[str, ToolSpec]) -> bool:
    """Tell whether unmarked JSON was meant as a call: it names a tool where calls do."""
    for block in blocks:
        try:
            values = _values(block.text)
        except NoCall:
            continue
        if any(isinstance(value, dict) and _is_named(value, tools) for value in values):
            return True
    return False


def _is_named(value: Mapping[str, Any], tools: Mapping[str, ToolSpec]) -> bool:
    named = any(isinstance(value.get(key), str) and value[key] in tools for key in _NAME_KEYS)
    return named and any(key in value for key in _ARGUMENT_KEYS)
