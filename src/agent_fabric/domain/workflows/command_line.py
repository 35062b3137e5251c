"""The command line of a `run-command` step. Whatever a value holds, it stays one argument."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent_fabric.domain.workflows.scope import ExpressionError, resolve

_EXPRESSION: Final = re.compile(
    r"""\{\{(?:'[^']*'|"[^"]*"|[^'"])*?\}\}|\{%(?:'[^']*'|"[^"]*"|[^'"])*?%\}|\{\#.*?\#\}""", re.DOTALL
)
_MARK: Final = re.compile("\ue000([0-9]+)\ue001")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def command_text(command: str | Sequence[str], scope: Mapping[str, Any]) -> str:
    """Return a command with its values filled in, quoted for a shell.

    A text is split before that, so a value is always one argument, with all its spaces and quotes; a list that stands
    alone becomes several.

    Raises:
        ExpressionError: it cannot be split, or a value is missing.
    """
    words: list[str] = []
    for piece in _pieces(command) if isinstance(command, str) else command:
        value = resolve(piece, scope)
        if isinstance(value, list | tuple):
            words.extend(map(_word, value))
        else:
            words.append(_word(value))
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
    expressions: list[str] = []

    def mark(found: re.Match[str]) -> str:
        expressions.append(found.group())
        return f"\ue000{len(expressions) - 1}\ue001"

    def back(found: re.Match[str]) -> str:
        number = int(found.group(1))
        return expressions[number] if number < len(expressions) else found.group()

    try:
        return [_MARK.sub(back, piece) for piece in shlex.split(_EXPRESSION.sub(mark, command))]
    except ValueError as problem:
        raise ExpressionError(f"the command cannot be split into arguments: {problem}") from None


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, default=str)
