"""A call as a person reads it before they agree: all of it. Nothing here cuts."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

MAX_LINES: Final = 30
MAX_LINE_CHARS: Final = 1_000
"""What is longer is folded where there is little room."""
NO_ARGUMENTS: Final = "(no arguments)"


def call_text(args: Mapping[str, Any]) -> str:
    """Return the arguments of a call; a call with nothing but a command is that command.

    A text of several lines stands in lines of its own, everything else as JSON: no argument can pass for another one.
    """
    command = args.get("command")
    if len(args) == 1 and isinstance(command, str):
        return command
    return "\n".join(_lines(args, "")) or NO_ARGUMENTS


def is_long(text: str) -> bool:
    """Tell whether a call is folded where there is little room."""
    return text.count("\n") >= MAX_LINES or any(len(line) > MAX_LINE_CHARS for line in text.split("\n"))


def size_words(text: str) -> str:
    """Return how long a call is: what stands beside one that is folded."""
    lines = text.count("\n") + 1
    return f"{lines:,} lines" if lines > 1 else f"1 line of {len(text):,} characters"


def _lines(args: Mapping[str, Any], indent: str) -> Iterator[str]:
    for name, value in args.items():
        head = f"{indent}{name if name.isidentifier() else _json(name)}:"
        if isinstance(value, str) and "\n" in value:
            yield f"{head} |"
            yield from (f"{indent}  {line}" for line in value.split("\n"))
        elif isinstance(value, Mapping) and value:
            yield head
            yield from _lines(value, f"{indent}  ")
        else:
            yield f"{head} {_json(value)}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
