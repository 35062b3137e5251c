"""Shapes a conversation for a model according to its dialect."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, assert_never

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.models.dialects.answer_schema import as_lines, schema_of_calls, takes_lines
from agent_fabric.domain.models.dialects.call_text import FENCE, MARK, THOUGHT, as_text
from agent_fabric.domain.models.dialects.conversation import FORM, is_conversation, schema_for, speech_listener
from agent_fabric.domain.models.dialects.observations import (
    blamed_file,
    has_failed,
    led_nowhere,
    next_step,
    next_words,
    readable,
    was_repeated,
)
from agent_fabric.domain.models.dialects.whole_files import (
    BEGIN_FILE,
    MAX_TRIES,
    WRITE_FILE,
    as_block,
    begun_file,
    request_for_text,
    tries_of,
)
from agent_fabric.domain.models.dialects.wire_names import wire_names, with_wire_names
from agent_fabric.domain.models.messages import Message, Role, ToolCallRequest, ToolDialect
from agent_fabric.domain.tools.program_files import can_be_run
from agent_fabric.domain.tools.specs import FINISH_TASK, BadArguments, Effect, ToolSpec, arguments_from


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


def person_listener(on_delta: Callable[[str], None] | None, shaped: ShapedRequest) -> Callable[[str], None] | None:
    """Return what hears the words of an answer that are for a person; None: no one does, as of a file's text."""
    if on_delta is None or shaped.writes_file:
        return None
    return speech_listener(on_delta) if shaped.talks else on_delta


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
            # The text of a file that was written in an answer of its own, or another call.
            block = as_block(message.tool_calls[0]) if BEGIN_FILE in known and len(message.tool_calls) == 1 else ""
            text = block or written(message.content, message.tool_calls, known)
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


MAX_ROUNDS = 4
"""Calls made again to no effect; after these a model may only finish."""


class _Round(NamedTuple):
    """A call and what it gave."""

    tool: str
    arguments: str
    result: str
    again: bool
    """Whether it was made before, and gives the same once more."""

    @property
    def writes_program(self) -> bool:
        try:
            path = arguments_from(self.arguments).get("path")
        except BadArguments:
            return False
        return isinstance(path, str) and can_be_run(path)


class _Kinds:
    """The names of the tools, by what they are good for."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        properties = {tool.name: tool.parameters.get("properties", {}) for tool in tools}
        self.asks_for_files = BEGIN_FILE in properties
        """Whether a file is an answer of its own."""
        self.around = {tool.name for tool in tools if tool.effect is Effect.READS and not properties[tool.name]}
        """Those that look around, and need no arguments."""
        self.commands = {tool.name for tool in tools if tool.command_argument}
        self.acting = {WRITE_FILE, *(tool.name for tool in tools if tool.effect is not Effect.READS)}
        takes_path = {name for name in self.acting if "path" in properties.get(name, ())}
        self.writing = {BEGIN_FILE} if self.asks_for_files else takes_path
        self.by_line = {name for name in self.acting if "line" in properties.get(name, ())}
        """Those that mend a line by its number."""


def offered_tools(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
    """Return the tools that a model may choose from next.

    - The first call looks around, if there is a tool that does that and needs no arguments.
    - A call that was made before and gives the same once more leads nowhere, and a small model goes on making it: its
      tool is not the next choice, until something else has led on. In the end only the finish is left; at once, if
      the call that was made twice in a row had done its work.
    - Who has looked around sees the same again until something was done, so that is no choice either.
    - After a command that a known program has made fail, or when a file is broken, that is written: a small model
      would run it again, or look again, and again.
    - A line is mended by its number only where a program has failed or a file is broken: elsewhere the line is a guess.
    - A program that was written in an answer of its own is run next; a small model would look, and write it again.
    - The finish is not the next choice after a call that failed, after a finish that was sent back, or before a program
      that was written has been run.
    """
    kinds, rounds = _Kinds(tools), list(_rounds(messages))
    if not any(message.tool_calls for message in messages):
        return _only(tools, kinds.around)
    task = next((message.content for message in messages if message.role is Role.USER), "")
    stuck_with, unfinished = _stuck_with(rounds), _is_unfinished(rounds, kinds)
    last = rounds[-1] if rounds else None
    if sum(each.again for each in rounds) >= MAX_ROUNDS:
        return _only(tools, {FINISH_TASK})
    if last is not None and last.tool in kinds.acting and was_repeated(last.result) and not unfinished:
        return _only(tools, {FINISH_TASK})
    is_blamed = last is not None and bool(blamed_file(task, last.result))
    if is_blamed and (left := [tool for tool in tools if tool.name in kinds.writing - stuck_with]):
        return left
    has_written = last is not None and last.tool == WRITE_FILE and last.writes_program
    if has_written and kinds.asks_for_files and kinds.commands:
        return _only(tools, kinds.commands)
    left_out = {*stuck_with, *_seen_around(rounds, kinds)}
    if not any(blamed_file(task, each.result) for each in rounds):
        left_out |= kinds.by_line
    if unfinished:
        left_out.add(FINISH_TASK)
    return [tool for tool in tools if tool.name not in left_out] or tools


def _only(tools: Sequence[ToolSpec], names: set[str]) -> Sequence[ToolSpec]:
    """Return the tools with these names, or all if there is none."""
    return [tool for tool in tools if tool.name in names] or tools


def _rounds(messages: Sequence[Message]) -> Iterator[_Round]:
    asked: dict[str, tuple[str, str]] = {}
    shown: dict[tuple[str, str], str] = {}
    """What each call gave the last time that it ran."""
    for message in messages:
        for call in message.tool_calls:
            asked[call.call_id] = (call.tool, call.arguments)
        if message.role is Role.TOOL and message.call_id in asked:
            call_made = asked[message.call_id]
            again = call_made in shown and (shown[call_made] == message.content or was_repeated(message.content))
            if not again:
                shown[call_made] = message.content
            yield _Round(*call_made, message.content, again)


def _stuck_with(rounds: Sequence[_Round]) -> set[str]:
    """Return the tools that have led nowhere since something has led on."""
    found: set[str] = set()
    for each in rounds:
        found = {*found, each.tool} if each.again else set()
        if each.tool == WRITE_FILE and led_nowhere(each.result):
            found.add(BEGIN_FILE)
    return found


def _is_unfinished(rounds: Sequence[_Round], kinds: _Kinds) -> bool:
    """Tell whether the last call failed or was a finish that came back, or a written program was not run since."""
    if not rounds:
        return False
    if rounds[-1].tool == FINISH_TASK or has_failed(rounds[-1].result):
        return True
    for each in reversed(rounds):
        if each.tool in kinds.commands:
            return False
        if each.writes_program:
            return bool(kinds.commands)
    return False


def _seen_around(rounds: Sequence[_Round], kinds: _Kinds) -> set[str]:
    """Return the tool that has looked around since something was done, if one has."""
    for each in reversed(rounds):
        if each.tool in kinds.around:
            return {each.tool}
        if each.tool in kinds.acting and each.tool != FINISH_TASK:
            return set()
    return set()


_MAX_NESTING = 4


def signatures(tools: Sequence[ToolSpec], *, in_lines: bool = False) -> str:
    """Return one line for each tool: its name, its arguments and what it does; `in_lines`: long texts are lists."""
    shown = [replace(tool, parameters=_with_lines(tool.parameters)) for tool in tools] if in_lines else tools
    return "\n".join(
        f"- {tool.name}({_signature_arguments(tool.parameters)}): {_one_line(tool.description)}" for tool in shown
    )


def _with_lines(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = {
        name: {"type": "array", "items": {"type": "line"}} if takes_lines(name, part) else part
        for name, part in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties}


def _signature_arguments(schema: Mapping[str, Any], depth: int = 0) -> str:
    required = schema.get("required", ())
    return ", ".join(
        f"{name}{'' if name in required else '?'}{_kind(part, depth)}"
        for name, part in schema.get("properties", {}).items()
    )


def _kind(schema: object, depth: int) -> str:
    """Say what a value must be; text goes without saying."""
    if not isinstance(schema, Mapping) or depth > _MAX_NESTING:
        return ""
    note = _one_line(str(schema.get("description", "")))
    if schema.get("enum"):
        kind = ": " + "|".join(map(str, schema["enum"]))
    elif schema.get("type") == "array":
        kind = f": [{_item(schema.get('items') or {}, depth)}, …]"
    elif schema.get("type") == "object":
        kind = f": {{{_signature_arguments(schema, depth + 1)}}}"
    else:
        kind = "" if schema.get("type", "string") == "string" else f": {schema['type']}"
    return f"{kind} ({note})" if note else kind


def _item(schema: Mapping[str, Any], depth: int) -> str:
    if schema.get("type") == "object":
        return f"{{{_signature_arguments(schema, depth + 1)}}}"
    return str(schema.get("type", "value"))


def _one_line(text: str) -> str:
    return " ".join(text.split())
