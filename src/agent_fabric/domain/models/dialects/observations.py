"""Tool results as small models read them best: plain lines, then what to do next."""

import json
import re
from collections.abc import Mapping
from typing import Any

from agent_fabric.domain.tools.specs import FINISH_TASK, PASSAGES, Effect, ToolSpec

MAX_REMINDER_CHARS = 600
"""Characters of a task that is said again after a result; a longer one is not."""


def readable(tool: str, text: str) -> str:
    """Return a result as lines of `name: value`, without JSON's quotes and escapes; what is empty is left out."""
    result = _object(text)
    if result is None:
        return f"Result of {tool}:\n{without_places(text)}"
    first = _first_time(result)
    if first is not None:
        return f"{result['note']}\n{readable(tool, first)}"
    lines = [_line(name, _short(name, value, result)) for name, value in result.items() if value != ""]
    return "\n".join([f"Result of {tool}:", *map(without_places, lines)])


def _short(name: str, value: object, result: Mapping[str, Any]) -> object:
    """Return only the end of an output whose failures are told already; the rest is mostly frames of a test runner."""
    if "failures" not in result or name not in {"stdout", "stderr"} or not isinstance(value, str):
        return value
    return value if len(value) <= _TAIL else f"…{value[-_TAIL:]}"


_TAIL = 200


def without_places(text: str) -> str:
    """Leave out where the workspace and programs lie on this machine: a small model takes such paths for its files."""
    return _PROGRAM.sub(r"\1", _WORKSPACE.sub("", text))


_FOLDERS = r"(?<![\w./!-])(?:/[\w.+-]+)*"
_WORKSPACE = re.compile(rf"{_FOLDERS}/workspace/")
_PROGRAM = re.compile(rf"{_FOLDERS}/bin/([\w.+-]+)(?=: )")
"""A program that says what is wrong."""


def next_step(task: str, tool: ToolSpec | None, text: str) -> str:
    """Return what a model is told after a result: whether it worked, what it is for, and that it has to go on."""
    if tool is not None and tool.name == FINISH_TASK:
        return ""  # the engine has said what to do
    wanted = task if len(task) <= MAX_REMINDER_CHARS else "it is said above."
    result = _object(text) or {}
    if "broken" in result:
        return "A file is broken now. Mend it before you go on."
    if "lost" in result and (path := blamed_file(task, text)):
        return f"{path} has lost its lines. Write it again, with them and what is new. The task is: {wanted}"
    if has_failed(text):
        return _after_failure(task, wanted, text, result)
    if _first_time(result) is not None:
        return f"That was done already. If the task is done, call {FINISH_TASK}. The task is: {wanted}"
    if result.get("changed_files") == {} and not result.get("stdout"):
        return (
            f"That changed the content of no file. The task is: {wanted}\n"
            f"If it is done all the same, call {FINISH_TASK}. If not, do it another way."
        )
    if result.get("unchanged"):
        return f"If something is still wrong, say which line, and write it in another way. The task is: {wanted}"
    if _RUN in str(result.get("hint")) and result.get("exit_code") == 0:
        return f"Do what the hint says, unless the task wants something else. The task is: {wanted}"
    if result.get("hint") and result.get("exit_code") == 0:
        return (
            f"Mind the hint: it says what is easily overlooked. The task is: {wanted}\n"
            f"If a part of it is wrong or still to be done, do that now. If all of it is done, call {FINISH_TASK}."
        )
    if isinstance(gone := result.get("gone"), list):
        lost = ", ".join(map(str, gone))
        return f"{lost}: no longer there. Write the file again with that, unless it should go. The task is: {wanted}"
    if "changed_lines" in result or result.keys() >= {"was", "now"}:
        return f"Only this has changed. Now run it, to see whether it is right. The task is: {wanted}"
    if isinstance(result.get("replaced"), str):
        return f"That replaced what was in the file. Write it again if something of it should have stayed: {wanted}"
    if result.get("exit_code") == 0 and not result.get("stdout") and not result.get("changed_files"):
        return (
            f"That printed nothing and changed nothing, which is right for a file of functions. The task is: {wanted}\n"
            f"If it should have done something, mend it. If all of the task is done, call {FINISH_TASK}."
        )
    if tool is not None and tool.command_argument and "exit_code" in result and "changed_files" not in result:
        return (
            f"If the task wants this in a file, put it there now. The task is: {wanted}\n"
            f"If all of it is done, call {FINISH_TASK}."
        )
    if tool is not None and tool.effect is Effect.READS:
        seen = "If the answer stands above, write just that. " if _ASKS_WHAT.search(task) else ""
        return f"{seen}Now go on with the task: {wanted}"
    return (
        f"That worked. The task is: {wanted}\n"
        f"If a part of it is still to be done, do it now. If all of it is done, call {FINISH_TASK}."
    )


def next_words(said: str, tool: ToolSpec | None, text: str) -> str:
    """Return what a model is told after a result in a conversation: that a person waits for its words."""
    wanted = f"They said: {said}" if len(said) <= MAX_REMINDER_CHARS else "What they said stands above."
    if _first_time(_object(text) or {}) is not None:
        return f"You have seen this already: answer now. {wanted}"
    if PASSAGES in (_object(text) or {}):
        return (
            "Answer now in plain words, and quote the sentence above that answers, word for word. Only if all of it is"
            f" about other things, say that memory has nothing about it. {wanted}"
        )
    if has_failed(text):
        return f"That failed. Do it another way, or say in plain words what you know. {wanted}"
    if tool is not None and tool.effect is not Effect.READS and not tool.command_argument:
        return f"That is done. Say so in plain words, unless something is still to be done. {wanted}"
    return f"Now answer in plain words with what this shows, unless you need another call. {wanted}"


def _after_failure(task: str, wanted: str, text: str, result: Mapping[str, Any]) -> str:
    if _MISSING in text:
        return "A file that it needs is not there. Make that file first, or find out its right name."
    if result.get("failures"):
        program = result.get("failing_program") or "the program that is wrong, not its tests,"
        return (
            f"Say which line of {program} is wrong, and why. Then write that line in another way, and run "
            f"this again. The task is: {wanted}"
        )
    if _ASKS_WHAT.search(task):
        return f"That failed. Read the answer off what you have seen, and write just that. The task is: {wanted}"
    if result.get("hint"):
        return f"That failed. Do what the hint says. The task is: {wanted}"
    return "That failed. Say why first, then do it another way."


_ASKS_WHAT = re.compile(r"\b(?:which|who|whose|what|where)\b[^?]*\?.*\b(?:write|put|save)\b", re.IGNORECASE | re.DOTALL)
"""Asks for something that may be seen; how many there are has to be counted."""
_RUN = " run: "
"""A hint with it names a command."""
_MISSING = "No such file or directory"


def has_failed(text: str) -> bool:
    """Tell whether a result says that its call did not work, this time or the first time."""
    result = result_object(text)
    return "error" in result or "broken" in result or result.get("exit_code", 0) != 0


def blamed_file(task: str, text: str) -> str:
    """Return the file that a result shows to be wrong: a program that failed, a broken file, a text that is lost."""
    result = result_object(text)
    for key in ("broken", "lost"):
        found = result.get(key)
        if isinstance(found, dict) and found and (key != "lost" or _ADDS.search(task)):
            return str(next(iter(found)))
    program = result.get("failing_program")
    return program if isinstance(program, str) else ""


def failure_told(task: str, text: str) -> str:
    """Return what a result says went wrong, in few lines; empty: nothing did."""
    result = result_object(text)
    broken, lost, failures = result.get("broken"), result.get("lost"), result.get("failures")
    if isinstance(broken, dict) and broken:
        return "; ".join(f"{path} is {problem}" for path, problem in broken.items())
    if isinstance(lost, dict) and lost and _ADDS.search(task):
        return "\n".join(
            f"{path} has lost these lines, which must stay:\n{str(was).rstrip()}" for path, was in lost.items()
        )
    if not has_failed(text):
        return ""
    if isinstance(failures, list) and failures:
        return "\n".join(map(str, failures))
    told = str(result.get("error") or result.get("stderr") or result.get("stdout") or "").strip()
    return without_places(told[-_TAIL:])


_ADDS = re.compile(
    r"\b(?:add|append|insert|prepend)\b|\b(?:at|on|to) the (?:top|end|start|beginning|bottom)\b", re.IGNORECASE
)
"""Asks for something beside what is there."""


def was_repeated(text: str) -> bool:
    """Tell whether a result is the engine's answer to an exact repeat."""
    return _first_time(_object(text) or {}) is not None


def led_nowhere(text: str) -> bool:
    """Tell whether a call was made once more, or has written back what was there."""
    return was_repeated(text) or bool((_object(text) or {}).get("unchanged"))


def _first_time(result: Mapping[str, Any]) -> str | None:
    """Return what a call gave the first time, if this is the engine's answer to an exact repeat of it."""
    first = result.get("result")
    return first if result.keys() == {"note", "result"} and isinstance(first, str) else None


def result_object(text: str) -> Mapping[str, Any]:
    """Return a result as the object that it is, that of an exact repeat as it was the first time; empty: it is none."""
    result = _object(text) or {}
    first = _first_time(result)
    return result if first is None else result_object(first)


def _object(text: str) -> Mapping[str, Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _line(name: str, value: object) -> str:
    if isinstance(value, dict) and all(isinstance(part, str) for part in value.values()):
        parts = [_line(f"- {key}", part) for key, part in value.items()]
        return "\n".join([f"{name}:", *parts]) if parts else f"{name}: none"
    if not isinstance(value, str):
        return f"{name}: {json.dumps(value, ensure_ascii=False)}"
    shown = value.rstrip()
    return f"{name}:\n{shown}" if "\n" in shown else f"{name}: {shown}"
