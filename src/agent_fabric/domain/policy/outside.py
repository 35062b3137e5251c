"""Which commands run outside the box once a person has agreed: those that need the network and obey no file there.

Commands in the box have no network, so an approved `git push` would fail in it. Outside, nothing of the workspace may
be obeyed: neither hooks nor settings nor scripts. So only programs run there that work in an empty folder, with the
files that their words name, and `git push`, which is done from a repository of our own.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agent_fabric.domain.policy.command_lines.invocation import Connector, Invocation, UnparsableCommand
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.command_lines.wrappers import started_by
from agent_fabric.domain.policy.outside_plan import CannotRunOutside
from agent_fabric.domain.policy.outside_words import obeying_words
from agent_fabric.domain.policy.outward import LOOKS_LIKE_DEPLOYMENT, outward_effect
from agent_fabric.domain.policy.subcommands import VALUED, operands

MAX_COMMAND_CHARS: Final = 1_000
"""A card shows this much of a line whole. What was not shown whole does not run outside."""
MAX_WORDS: Final = 200

_BY_THEMSELVES: Final = names(
    "aws az curl doctl gcloud gh glab gsutil kubectl mail mailx oc rsync scp sftp skopeo ssh twine wget"
)
"""Programs that do their work in any folder, with the files that they are given."""
_ACTIONS: Final = {
    "git": frozenset({"push"}),
    "docker": frozenset({"push", "image push", "manifest push"}),
    "podman": frozenset({"push", "image push", "manifest push"}),
    "gem": frozenset({"push", "yank"}),
    "npm": frozenset({"publish"}),
    "pnpm": frozenset({"publish"}),
    "uv": frozenset({"publish"}),
    "dotnet": frozenset({"nuget push"}),
}
"""The same of some subcommands."""
_PACKS: Final = names("npm pnpm uv")
"""Without a file to publish they pack the folder they stand in, and run its scripts."""
_PATTERN: Final = re.compile(r"[^$`{}~\\]*[*?\[][^$`{}~\\]*")
_HOW_TO_PUBLISH: Final = "; it can run outside with a package that is made before, and named, such as ./dist/a.tgz"
_MERGED: Final = (">&", "<&")


@dataclass(frozen=True, slots=True)
class OutsideCall:
    """A command that is a whole line and can run outside."""

    words: tuple[str, ...]
    patterns: frozenset[int] = frozenset()
    """Positions of words that name files by a pattern, such as `dist/*`."""


def outside_call(command: str) -> OutsideCall | None:
    """Return the command of a line that needs the outside; None: nothing in the line does, or it is not understood.

    Raises:
        CannotRunOutside: something in it needs the outside and cannot run there.
    """
    try:
        found = started_by(command)
    except UnparsableCommand:
        return None
    needing = next((each for each in found if _needs_outside(each)), None)
    if needing is None:
        return None
    what = " ".join(needing.words)
    if problem := next(_problems(needing), ""):
        raise CannotRunOutside(
            f"{what!r} needs the network, which commands in the box do not have, and {problem}. "
            "Do not try it again: name the command in your result, for a person to run.",
            proposal=what,
        )
    if len(found) != 1 or not _is_plain(needing) or len(command) > MAX_COMMAND_CHARS or len(needing.words) > MAX_WORDS:
        raise CannotRunOutside(
            f"{what!r} needs the network, which commands in the box do not have. Make it a call of its own, without "
            f"pipes, redirects, variables or other commands, in at most {MAX_COMMAND_CHARS:,} characters: then a "
            "person is asked, and it runs outside the box."
        )
    patterns = needing.unknown
    if any(not _PATTERN.fullmatch(needing.words[at]) for at in patterns):
        raise CannotRunOutside(
            f"What {what!r} is about is only known at run time. Write every word of it out: then a person is asked, "
            "and it runs outside the box."
        )
    return OutsideCall(needing.words, patterns)


def _needs_outside(invocation: Invocation) -> bool:
    effect = outward_effect(invocation)
    return (bool(effect) and effect != LOOKS_LIKE_DEPLOYMENT) or invocation.name in {"curl", "wget"}


def _problems(invocation: Invocation) -> Iterator[str]:
    """Yield why a command cannot run where no file of the workspace may be obeyed."""
    name, words = invocation.name, invocation.words
    places = operands(words, VALUED.get(name, frozenset()))
    if "/" in invocation.program and not invocation.program.startswith("/"):
        yield "it would execute a file of the workspace"
    if not _works_anywhere(name, " ".join(words[at] for at in places)):
        yield "it would obey files of the workspace"
    if word := next(obeying_words(name, words), ""):
        yield f"with {word!r} it would obey a file or start a program{_HOW_TO_PUBLISH if name in _PACKS else ''}"


def _works_anywhere(name: str, subcommand: str) -> bool:
    if name not in _ACTIONS:
        return name in _BY_THEMSELVES
    return any(f"{subcommand} ".startswith(f"{action} ") for action in _ACTIONS[name])


def _is_plain(invocation: Invocation) -> bool:
    merged = all(each.operator in _MERGED and each.target.isdigit() for each in invocation.redirects)
    return merged and not (
        invocation.assignments or invocation.nested or invocation.connector is not Connector.END or invocation.dynamic
    )
