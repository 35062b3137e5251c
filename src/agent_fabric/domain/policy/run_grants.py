"""What agreeing for the whole run covers, in the words that a person reads. Calls with the same words are covered."""

from collections.abc import Sequence
from typing import Final

from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.dangers import hidden_program
from agent_fabric.domain.policy.environment import poisoned_variable
from agent_fabric.domain.policy.subcommands import VALUED, as_module, operands
from agent_fabric.domain.policy.verdicts import EXACTLY

MAX_EXACT_CHARS: Final = 200
"""Of a command line that can be agreed to for the whole run; longer ones are looked at every time."""
_PACKAGES: Final = names("add ci install publish")
_REPEATABLE: Final = {
    "git": names("clone fetch ls-remote pull push"),
    "cargo": names("fetch publish"),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), _PACKAGES),
    **dict.fromkeys(("pip", "pip3"), names("download install")),
    **dict.fromkeys(("docker", "podman"), names("pull push")),
    **dict.fromkeys(("apt", "apt-get"), names("install update upgrade")),
    **dict.fromkeys(("twine",), names("upload")),
    **dict.fromkeys(("gem",), names("push")),
}
"""Subcommands whose further words only say what they are about. With others, or unknown programs, the next word
may be another deed: `gh pr view` and `gh pr merge`, `frob log` and `frob push`."""


def covered_commands(invocation: Invocation) -> str:
    """Return what agreeing to a command covers beyond the very same line; empty: nothing.

    Options belong to it: one that was not shown may write a file or force what would be refused.
    """
    inner = as_module(invocation)
    if (
        not inner.words
        or inner.dynamic
        or any(redirect.names_file for redirect in invocation.redirects)
        or hidden_program(invocation)
        or poisoned_variable(invocation)
        or "/" in inner.program
    ):
        return ""
    said = operands(inner.words, VALUED.get(inner.name, frozenset()))
    if not said or said[0] in inner.unknown or inner.words[said[0]] not in _REPEATABLE.get(inner.name, ()):
        return ""
    options = sorted({word for word in inner.words[1:] if word.startswith("-") and word != "-"})
    kind = f"every `{inner.name} {inner.words[said[0]]}`"
    return f"{kind} with {' '.join(options)} and no other options" if options else f"{kind} without options"


def exact_line(command: str, found: Sequence[Invocation]) -> str:
    """Return the words for the same line again; empty where the same line may do something else, or is too long."""
    line = command.strip()
    known = not any(
        invocation.unknown
        or hidden_program(invocation)
        or poisoned_variable(invocation)
        or any(redirect.unknown or redirect.writes_file for redirect in invocation.redirects)
        for invocation in found
    )
    return f"{EXACTLY}`{line}`" if known and line.isprintable() and len(line) <= MAX_EXACT_CHARS else ""


def covered_calls(tool: str, paths: Sequence[str], hosts: Sequence[str]) -> str:
    """Return what agreeing to a call that is no command covers; empty: only this call."""
    about = ", ".join((*paths, *hosts))
    if not about.isprintable() or len(about) > MAX_EXACT_CHARS:
        return ""
    return f"every `{tool}` {'of' if paths else 'to'} {about}" if about else f"every `{tool}` with any arguments"
