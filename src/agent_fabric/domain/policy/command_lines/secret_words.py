"""Puts variables in the place of the secrets that a command line names.

A value that is written into a command would stand in the list of processes, and could end its quotes. A variable does
neither: whatever it holds is one piece of text.
"""

import re
from collections.abc import Mapping
from typing import Final

from agent_fabric.domain.secrets.references import SECRET

_PLAIN, _SINGLE, _DOUBLE, _ANSI, _PARENTHESIS, _BACKTICK = "", "'", '"', "$'", "(", "`"
_EXPANSION: Final = {
    _PLAIN: '"${{{}}}"',
    _PARENTHESIS: '"${{{}}}"',
    _SINGLE: "'\"${{{}}}\"'",
    _ANSI: "'\"${{{}}}\"$'",
    _DOUBLE: "${{{}}}",
}
"""How a variable is written in each kind of quotes so that its text is taken as it is."""
_ARGUMENT: Final = "Hand the secret over as an argument of its own instead."
_BEFORE_COMMENT: Final = frozenset(" \t\n;&|()")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_]")


def variable_names(names: frozenset[str]) -> dict[str, str]:
    """Return a variable for each secret."""
    variables: dict[str, str] = {}
    for number, name in enumerate(sorted(names)):
        plain = f"FABRIC_SECRET_{_UNSAFE.sub('_', name)}"
        variables[name] = f"{plain}_{number}" if plain in variables.values() else plain
    return variables


def with_variables(command: str, variables: Mapping[str, str]) -> str:
    """Return a command line of bash with these variables instead of the secrets that they are named after.

    Raises:
        ValueError: a secret stands where its text could not be told from the command.
    """
    return "".join(_Reader(command, variables).pieces())


class _Reader:
    """Goes through a command line and knows in which quotes it is."""

    def __init__(self, command: str, variables: Mapping[str, str]) -> None:
        self._text = command
        self._variables = variables
        self._quotes = [_PLAIN]
        self._has_document = False
        self._at = 0

    def pieces(self) -> list[str]:
        found: list[str] = []
        while self._at < len(self._text):
            named = SECRET.match(self._text, self._at)
            if named is not None and named[1] in self._variables:
                found.append(self._expansion(named[1]))
                self._at = named.end()
            else:
                length = self._step()
                found.append(self._text[self._at : self._at + length])
                self._at += length
        return found

    def _expansion(self, name: str) -> str:
        if self._has_document:
            raise ValueError(f"the secret {name!r} stands behind a here-document (<<). {_ARGUMENT}")
        if _BACKTICK in self._quotes:
            raise ValueError(f"the secret {name!r} stands between backticks. {_ARGUMENT}")
        return _EXPANSION[self._quotes[-1]].format(self._variables[name])

    def _step(self) -> int:
        """Take note of the next character; return how many belong to it."""
        text, at, quotes = self._text, self._at, self._quotes
        here, two = text[at], text[at : at + 2]
        inside = quotes[-1]
        if inside == _SINGLE:
            if here == "'":
                quotes.pop()
            return 1
        if here == "\\":
            return 2
        if inside in (_ANSI, _BACKTICK):
            if here == inside[-1]:
                quotes.pop()
            return 1
        if here == "`":
            quotes.append(_BACKTICK)
        elif inside == _DOUBLE:
            if here == '"':
                quotes.pop()
            elif two == "$(":
                quotes.append(_PARENTHESIS)
                return 2
        else:
            return self._plain_step(here, two)
        return 1

    def _plain_step(self, here: str, two: str) -> int:
        text, at, quotes = self._text, self._at, self._quotes
        if two == "$'":
            quotes.append(_ANSI)
            return 2
        if here in "'\"(":
            quotes.append(here)
        elif here == ")" and quotes[-1] == _PARENTHESIS:
            quotes.pop()
        elif here == "#" and (at == 0 or text[at - 1] in _BEFORE_COMMENT):
            end = text.find("\n", at)
            return (len(text) if end < 0 else end) - at
        elif two == "<<":
            if text[at : at + 3] == "<<<":
                return 3
            self._has_document = True
        return 1
