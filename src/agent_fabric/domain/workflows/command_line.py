"""Builds the command line of a `run-command` step. Each value stays one argument."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from agent_fabric.domain.workflows.scope import ExpressionError, resolve

MAX_COMMAND_CHARS: Final = 50_000
"""As it is written. Splitting takes longer and longer the longer a word is."""
_OPENING: Final = re.compile(r"\{[{%#]")
_QUOTED_OR: Final = r"""'[^']*'?|"[^"]*"?|"""
_CLOSING: Final = {
    "{{": re.compile(_QUOTED_OR + r"\}\}"),
    "{%": re.compile(_QUOTED_OR + r"%\}"),
    "{#": re.compile(r"\#\}"),
}
_MARK: Final = re.compile("\ue000([0-9]+)\ue001")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def command_text(command: str | Sequence[str], scope: Mapping[str, Any]) -> str:
    """Return a command with its values filled in, quoted for a shell.

    A text is split before that, so a value is always one argument, with all its spaces and quotes; a list that stands
    alone becomes several.

    Raises:
        ExpressionError: it cannot be split, or a value is missing.
    """
    words: list[str] = []
    begins = True
    for piece in _pieces(command) if isinstance(command, str) else command:
        value = resolve(piece, scope)
        if isinstance(value, list | tuple):
            words.extend(map(_word, value))
        else:
            words.append(_word(value))
        if begins and (begins := all(map(_ASSIGNMENT.match, words))) and words and not _ASSIGNMENT.match(piece):
            raise ExpressionError(
                "a value that stands for the program would set a variable of the environment instead",
                hint="Name the program in the workflow, and give variables under inputs.env.",
            )
    if not words or not words[0]:
        raise ExpressionError("the command is empty")
    return shlex.join(words)


def shell_line(inputs: Mapping[str, Any]) -> str:
    """Return what the shell is given: the command in its folder, with its environment.

    Raises:
        ExpressionError: `env` is not a mapping of variable names to values.
    """
    line = str(inputs.get("command", ""))
    env = inputs.get("env") or {}
    if not isinstance(env, Mapping):
        raise ExpressionError("env must be a mapping of names to values")
    wrong = [name for name in env if not _VARIABLE.fullmatch(str(name))]
    if wrong:
        raise ExpressionError(f"env: {str(wrong[0])!r} is not a name for a variable")
    if env:
        line = f"env {' '.join(shlex.quote(f'{name}={_word(value)}') for name, value in env.items())} {line}"
    if inputs.get("cwd"):
        line = f"cd -- {shlex.quote(_word(inputs['cwd']))} && {line}"
    return line


def _pieces(command: str) -> list[str]:
    try:
        return split_command(command)
    except ValueError as problem:
        raise ExpressionError(f"the command cannot be split into arguments: {problem}") from None


def split_command(command: str) -> list[str]:
    """Split a command as a shell would, but leave its expressions whole.

    Raises:
        ValueError: a quotation mark is not closed, or it is too long.
    """
    if len(command) > MAX_COMMAND_CHARS:
        raise ValueError(f"it has more than {MAX_COMMAND_CHARS:,} characters; put long texts into a file")
    texts: list[str] = []
    expressions: list[str] = []
    at = 0
    for start, end in _expressions(command):
        texts += (command[at:start], f"\ue000{len(expressions)}\ue001")
        expressions.append(command[start:end])
        at = end

    def back(found: re.Match[str]) -> str:
        number = int(found.group(1)) if len(found.group(1)) < 10 else len(expressions)
        return expressions[number] if number < len(expressions) else found.group()

    return [_MARK.sub(back, piece) for piece in shlex.split("".join(texts) + command[at:])]


def _expressions(command: str) -> Iterator[tuple[int, int]]:
    """Return where expressions begin and end, up to one that is never closed: that cannot be read anyway.

    Found step by step: one pattern for a whole expression would look for the end of each from its beginning.
    """
    at = 0
    while opening := _OPENING.search(command, at):
        closing = _CLOSING[opening.group()]
        at = opening.end()
        while True:
            found = closing.search(command, at)
            if found is None:
                return
            at = found.end()
            if found.group()[0] not in "'\"":
                break
            if len(found.group()) < 2 or found.group()[-1] != found.group()[0]:
                return  # a quotation mark that is never closed
        yield opening.start(), at


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, default=str)
