"""Selects the tools that a small model may call next: it reads before it acts, and repeats no round."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agent_fabric.domain.models.dialects.observations import blamed_file, has_failed, led_nowhere, was_repeated
from agent_fabric.domain.models.dialects.whole_files import BEGIN_FILE, WRITE_FILE
from agent_fabric.domain.models.messages import Message, Role
from agent_fabric.domain.tools.program_files import can_be_run
from agent_fabric.domain.tools.specs import FINISH_TASK, BadArguments, Effect, ToolSpec, arguments_from

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
