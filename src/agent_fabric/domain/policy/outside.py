"""Which commands run outside the box once a person has agreed: those that need the network and obey no file there.

Commands in the box have no network, so an approved `git push` would fail in it. Outside, nothing of the workspace may
be obeyed: neither hooks nor settings nor scripts. So only programs run there that work in an empty folder, with the
files that their words name, and `git push`, which is done from a repository of our own.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agent_fabric.domain.commands.invocation import Connector, Invocation, UnparsableCommand
from agent_fabric.domain.commands.names import names
from agent_fabric.domain.commands.wrappers import started_by
from agent_fabric.domain.outside import CannotRunOutside
from agent_fabric.domain.policy.outward import LOOKS_LIKE_DEPLOYMENT, outward_effect
from agent_fabric.domain.policy.subcommands import VALUED, operands

MAX_COMMAND_CHARS: Final = 1_000
"""A card shows this much of a line whole. What was not shown whole does not run outside."""
MAX_WORDS: Final = 200

_BY_THEMSELVES: Final = names(
    "aws az curl doctl gcloud gh glab gsutil kubectl mail mailx msmtp oc rsync scp sendmail sftp skopeo ssh twine wget"
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
_NEEDS_FILE: Final = {"npm": ".tgz", "pnpm": ".tgz", "uv": ""}
"""Without a file to publish they pack the folder they stand in, and run its scripts."""
_SETTINGS: Final = {
    "aws": names("--cli-input-json --cli-input-yaml"),
    "curl": names("-K --config --engine"),
    "docker": names("--config"),
    "kubectl": names("--kubeconfig --cache-dir"),
    "npm": names("--userconfig --globalconfig --prefix"),
    "oc": names("--kubeconfig --cache-dir"),
    "pnpm": names("--userconfig --globalconfig --prefix --dir -C"),
    "podman": names("--config"),
    "rsync": names("-e -M --config --daemon --files-from --read-batch --rsh --rsync-path"),
    "scp": names("-F -S -D"),
    "sftp": names("-F -S -D -b"),
    "ssh": names("-F -E -I"),
    "twine": names("--config-file"),
    "uv": names("--config-file --directory --project"),
    "wget": names("-e -i --execute --config --input-file --use-askpass"),
}
"""Options by which a program obeys a file or starts another program."""
_SSH: Final = names("ssh scp sftp")
_SSH_OPTIONS: Final = names(
    "batchmode compression connecttimeout identitiesonly port serveraliveinterval stricthostkeychecking user"
)
"""What may follow `-o`; others can start programs, and files can be obeyed by them."""
_EXTENSIONS: Final = {"gh": names("alias extension extensions ext"), "glab": names("alias")}
"""Subcommands by which a program takes in code of others."""
_PATTERN: Final = re.compile(r"[^$`{}~\\]*[*?\[][^$`{}~\\]*")
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
    if name in _NEEDS_FILE and not any(words[at].endswith(_NEEDS_FILE[name] or words[at]) for at in places[1:]):
        yield "it would run scripts of the workspace; it can run outside with a package that is made before, and named"
    if option := _obeyed_option(invocation):
        yield f"{option} makes it obey a file or start a program"
    if places and words[places[0]] in _EXTENSIONS.get(name, ()):
        yield "it takes in code of others"


def _works_anywhere(name: str, subcommand: str) -> bool:
    if name not in _ACTIONS:
        return name in _BY_THEMSELVES
    return any(f"{subcommand} ".startswith(f"{action} ") for action in _ACTIONS[name])


def _obeyed_option(invocation: Invocation) -> str:
    name, words = invocation.name, invocation.words
    options = _SETTINGS.get(name, frozenset())
    letters = {option[1] for option in options if not option.startswith("--")}
    for at, word in enumerate(words[1:], start=1):
        if word.split("=", 1)[0] in options or (word[:1] == "-" != word[1:2] and letters & set(word[1:])):
            return word
        if name in _SSH and word.startswith("-o"):
            setting = word[2:] or " ".join(words[at + 1 : at + 2])
            if re.split(r"[\s=]", setting.strip(), maxsplit=1)[0].lower() not in _SSH_OPTIONS:
                return f"-o {setting}"
    return ""


def _is_plain(invocation: Invocation) -> bool:
    merged = all(each.operator in _MERGED and each.target.isdigit() for each in invocation.redirects)
    return merged and not (
        invocation.assignments or invocation.nested or invocation.connector is not Connector.END or invocation.dynamic
    )
