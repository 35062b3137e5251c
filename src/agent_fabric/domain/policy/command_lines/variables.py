"""Variables that a command sets, in whichever way."""

import re
from collections.abc import Iterator

from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.domain.policy.command_lines.words import ASSIGNMENT

DECLARES = frozenset({"declare", "export", "local", "readonly", "typeset"})
_FILLS = {
    "read": "",
    "mapfile": "",
    "readarray": "",
    "getopts": "",
    "printf": "-v",
    "let": "",
    "unset": "",
    "wait": "-p",
}
"""Builtins that put a value into a variable they name, and the option behind which they name it."""


def assignments(invocation: Invocation) -> Iterator[tuple[str, str | None]]:
    """Yield the variables that a command sets, with their values where they can be read."""
    yield from invocation.assignments
    name, words = invocation.name, invocation.words
    if name in DECLARES or name in {"env", "sudo", "doas"}:
        for at, word in enumerate(words[1:], start=1):
            if match := ASSIGNMENT.match(word):
                yield match["name"], word[match.end() :]
            elif at in invocation.unknown and name in DECLARES:
                yield "", None
            elif name in DECLARES and not word.startswith("-"):
                yield word, ""
    elif name in _FILLS:
        option = _FILLS[name]
        for at, word in enumerate(words[1:], start=1):
            if not option or words[at - 1] == option or (word.startswith(option) and word != option):
                target = word.removeprefix(option) if option else word
                yield re.split(r"[\[=+]", target, maxsplit=1)[0], None
