"""Redirects, and the bodies of heredocs."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from agent_fabric.domain.policy.command_lines.invocation import Redirect, UnparsableCommand
from agent_fabric.domain.policy.command_lines.source import Source
from agent_fabric.domain.policy.command_lines.words import Word, expands, holds_code, is_pattern, required_word

STREAM = re.compile(r"[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\}")
"""What a redirect is about: the number of a stream, or the variable that receives one."""

_REDIRECT = re.compile(rf"(?:{STREAM.pattern})?(<<<|<<-|<<|<>|<&|>>|>&|>\||[<>](?!\())|(&>>|&>)")
_STARTS = frozenset("<>&{0123456789")


def read_redirect(source: Source, redirects: list[Redirect]) -> bool:
    """Read one redirect, if there is one here, and append it; a heredoc's is completed at the end of the line."""
    source.skip_blanks()
    if source.sign() not in _STARTS:
        return False
    match = source.match(_REDIRECT)
    if not match:
        return False
    operator = match[1] or match[2]
    source.skip_blanks()
    target = required_word(source, f"what {operator} refers to")
    if operator in {"<<", "<<-"}:
        if target.unknown and not target.quoted and not is_pattern(target.text):
            raise UnparsableCommand("the end of a heredoc is not a plain word")
        source.bodies.append(partial(_read_body, source, redirects, len(redirects), target))
    redirects.append(Redirect(operator, target.text, target.unknown))
    return True


def _read_body(source: Source, redirects: list[Redirect], place: int, delimiter: Word) -> None:
    """Read a heredoc's body and make it the target of its redirect."""
    redirect, literal = redirects[place], delimiter.quoted
    lines: list[str] = []
    for line in _lines(source, joined=not literal):
        text = line.lstrip("\t") if redirect.operator == "<<-" else line
        if text == delimiter.text:
            break
        lines.append(text + "\n")
    else:
        raise UnparsableCommand("a heredoc has no end")
    body = "".join(lines)
    source.seen.body = source.seen.body or (literal and holds_code(body))
    unknown = not literal and expands(source.inside(body))
    redirects[place] = replace(redirect, target=body, unknown=unknown)


def _lines(source: Source, *, joined: bool) -> Iterator[str]:
    """Read line by line; `joined` also joins lines that a backslash ends."""
    parts: list[str] = []
    while source.at < len(source.text):
        end = source.text.find("\n", source.at)
        end = len(source.text) if end < 0 else end
        part = source.text[source.at : end]
        source.at = min(end + 1, len(source.text))
        if joined and (len(part) - len(part.rstrip("\\"))) % 2:
            parts.append(part[:-1])
        elif parts:
            yield "".join([*parts, part])
            parts.clear()
        else:
            yield part
