"""Selects the tools that a small model may call next: it reads before it acts, and repeats no round."""

from collections.abc import Sequence

from agent_fabric.domain.dialects.observations import blamed_file, has_failed, led_nowhere, was_repeated
from agent_fabric.domain.dialects.whole_files import BEGIN_FILE, WRITE_FILE
from agent_fabric.domain.messages import Message, Role
from agent_fabric.domain.program_files import can_be_run
from agent_fabric.domain.tools import FINISH_TASK, BadArguments, Effect, ToolSpec, arguments_from

MAX_ROUNDS = 4
"""Calls made again to no effect; after these a model may only finish."""


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
    shown: dict[tuple[str, str], str] = {}
    """What each call gave the last time that it ran."""
    asked: dict[str, tuple[str, str]] = {}
    commands = {tool.name for tool in tools if tool.command_argument}
    around = {tool.name for tool in tools if _looks_around(tool)}
    properties_of = {tool.name: tool.parameters.get("properties", {}) for tool in tools}
    acting = {WRITE_FILE, *(tool.name for tool in tools if tool.effect is not Effect.READS)}
    writing = {BEGIN_FILE} & properties_of.keys() or {name for name in acting if "path" in properties_of.get(name, ())}
    guessing = {name for name in acting if "line" in properties_of.get(name, ())}
    task = next((message.content for message in messages if message.role is Role.USER), "")
    rounds, unfinished, unrun, done_twice, looked, blamed, written = 0, False, False, False, "", False, False
    stuck_with: set[str] = set()
    for message in messages:
        for call in message.tool_calls:
            asked[call.call_id] = (call.tool, call.arguments)
        if message.role is not Role.TOOL or message.call_id not in asked:
            continue
        key = name, arguments = asked[message.call_id]
        again = key in shown and (shown[key] == message.content or was_repeated(message.content))
        rounds, stuck_with = (rounds + 1, {*stuck_with, name}) if again else (rounds, set())
        if name == WRITE_FILE and led_nowhere(message.content):
            stuck_with = {*stuck_with, BEGIN_FILE}
        unrun = (unrun or _writes_program(arguments)) and name not in commands
        unfinished = name == FINISH_TASK or has_failed(message.content) or (unrun and bool(commands))
        looked = name if name in around else "" if name in acting and name != FINISH_TASK else looked
        blamed = bool(blamed_file(task, message.content))
        written = name == WRITE_FILE and _writes_program(arguments)
        guessing = set() if blamed else guessing
        done_twice = name in acting and was_repeated(message.content) and not unfinished
        if not again:
            shown[key] = message.content
    if not asked:
        return [tool for tool in tools if _looks_around(tool)] or tools
    if rounds >= MAX_ROUNDS or done_twice:
        return [tool for tool in tools if tool.name == FINISH_TASK] or tools
    if blamed and (left := [tool for tool in tools if tool.name in writing - stuck_with]):
        return left
    if written and BEGIN_FILE in properties_of and commands:
        return [tool for tool in tools if tool.name in commands]
    left_out = {*stuck_with, *guessing, looked, FINISH_TASK} if unfinished else {*stuck_with, *guessing, looked}
    return [tool for tool in tools if tool.name not in left_out] or tools


def _looks_around(tool: ToolSpec) -> bool:
    return tool.effect is Effect.READS and not tool.parameters.get("properties")


def _writes_program(arguments: str) -> bool:
    try:
        path = arguments_from(arguments).get("path")
    except BadArguments:
        return False
    return isinstance(path, str) and can_be_run(path)
