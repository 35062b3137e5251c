"""Which commands run outside the box once a person has agreed: those that need the network and obey no file there.

Commands in the box have no network, so an approved `git push` would fail in it. Outside, nothing of the workspace may
be obeyed: neither hooks nor settings nor scripts. So only programs run there that work in an empty folder, with the
files that their words name, and `git push`, which is done from a repository of our own.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.policy.command_lines.invocation import Connector, Invocation, UnparsableCommand
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.command_lines.wrappers import started_by
from agent_fabric.domain.policy.outside_plan import CannotRunOutside
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


# The words by which a program obeys a file, starts another program or takes in code: with them it stays in the box.
class _Action(NamedTuple):
    """A subcommand that is known word by word; every other option is refused."""

    valued: frozenset[str]
    flags: frozenset[str]
    operand: re.Pattern[str]
    takes_along: tuple[str, ...] = ()
    """How the names of files end that it may have in its folder."""
    fewest: int = 0


_IMAGE = re.compile(
    r"(?!(?:dir|oci|oci-archive|docker-archive|docker-daemon|containers-storage|ostree|sif):)[\w.:/@-]+"
)
_PACKAGE = _Action(
    names("--tag --access --otp --registry --loglevel"),
    names("--dry-run --json --silent --verbose --no-git-checks"),
    re.compile(r"(?:\./[^:@]+|[^/:@]+)\.tgz"),  # others are taken for folders, or for repositories on a code host
    (".tgz",),
    1,
)
_KNOWN_ACTIONS: Final = {
    **dict.fromkeys(
        ("docker push", "docker image push", "docker manifest push"),
        _Action(names("--platform"), names("-a --all-tags -q --quiet --disable-content-trust -p --purge"), _IMAGE),
    ),
    **dict.fromkeys(
        ("podman push", "podman image push", "podman manifest push"),
        _Action(names("--creds --format"), names("-q --quiet --all --tls-verify --remove-signatures"), _IMAGE),
    ),
    "gem push": _Action(
        names("-k --key --host --otp"), names("-q --quiet -V --verbose"), re.compile(r".+\.gem"), (".gem",), 1
    ),
    "gem yank": _Action(
        names("-k --key --host --otp -v --version --platform"), names("-q --quiet -V --verbose"), re.compile(r"[\w.-]+")
    ),
    "npm publish": _PACKAGE,
    "pnpm publish": _PACKAGE,
    "uv publish": _Action(
        names("--publish-url --check-url -t --token -u --username -p --password --trusted-publishing"),
        names("--dry-run -q --quiet -v --verbose -n --no-cache --no-progress"),
        re.compile(r"[^:]+"),
        (".whl", ".tar.gz", ".zip", ".attestation"),
        1,
    ),
    "dotnet nuget push": _Action(
        names("-s --source -k --api-key -t --timeout"),
        names("--skip-duplicate -n --no-symbols -d --disable-buffering"),
        re.compile(r".+\.s?nupkg"),
        (".nupkg", ".snupkg"),
        1,
    ),
}
_SETTINGS: Final = {
    "aws": names("--cli-input-json --cli-input-yaml"),
    "curl": names("-K --config --engine"),
    "doctl": names("-c --config"),
    "gcloud": names("--flags-file --scp-flag --ssh-flag"),
    "gsutil": names("-o"),
    "kubectl": names("-k --kustomize --kubeconfig --cache-dir --profile-output"),
    "oc": names("-k --kustomize --kubeconfig --cache-dir --profile-output"),
    "rsync": names(
        "-e -M --config --daemon --early-input --files-from --only-write-batch --read-batch --remote-option --rsh "
        "--rsync-path --write-batch"
    ),
    "skopeo": names("--policy --registries.d --registries-conf --sign-by-sigstore --tmpdir"),
    "twine": names("-s --config-file --sign --sign-with"),
    "wget": names("-e -i --config --execute --input-file --input-metalink --use-askpass"),
}
"""Options by which a program obeys a file or starts another program, also shortened, as many programs take them."""
_WORDS: Final = {
    "aws": names("configure execute-command login package socks ssh start-session update-kubeconfig"),
    "az": names("alias bicep cloud config configure extension interactive login ssh upgrade"),
    "doctl": names("auth kubeconfig sandbox sbx serverless sls ssh"),
    "gcloud": names("auth components config docker emulators init interactive scp ssh start-iap-tunnel"),
    "gsutil": names("config update"),
    "skopeo": names("login logout"),
}
"""Subcommands by which a program changes the user's settings, takes in code, starts others or obeys what files say."""
_SUBJECTS: Final = {
    "gh": names(
        "api cache gist issue label org pr project release repo ruleset run search secret status variable workflow"
    ),
    "glab": names("api ci incident issue label milestone mr release repo schedule snippet variable"),
}
"""Of programs that have aliases and extensions: what they are about, which must be their first word."""
_NO_REST: Final = names("aws az doctl gcloud gh glab")
"""What follows `--` goes to a program that they start."""
_SSH: Final = {
    "ssh": ("BDEFIJLOPQRSWbceilmopw", "46ACKNTaknqtvx", "Jbceilmop"),
    "scp": ("DFJMPSXcilo", "12346ABCOTpqrv", "JPXcilo"),
    "sftp": ("BDFJPRSXbcilos", "1246ACNafpqrv", "BJPRXcilos"),
}
"""Letters of options that take a value, those that may be used and take none, those that may and do."""
_SSH_OPTIONS: Final = names(
    "batchmode compression connecttimeout identitiesonly port serveraliveinterval stricthostkeychecking user"
)
"""What may follow `-o`; others can start programs, and files can be obeyed by them."""
_MAIL_VALUED: Final = names("-s -a -c -b")
_ADDRESS: Final = re.compile(r"[\w.+-]+@[\w.-]+(?:,[\w.+-]+@[\w.-]+)*")
"""Other recipients are programs and files to mail."""
_LOADS: Final = re.compile(r"pkcs11:|containers-storage:\[", re.IGNORECASE)
"""What makes a program load a library, or start one that mounts."""


def suffixes_taken_along(words: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return how the files must end that a command may have in its folder; None: any."""
    action = _action_of(words)
    return None if action is None else action[1].takes_along


def local_words(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words after the program that may name files of this machine."""
    if words[0].rpartition("/")[2] != "ssh":
        return words[1:]
    return words[1 : len(words) - len(_remote_command(words))]


def obeying_words(name: str, words: tuple[str, ...]) -> Iterator[str]:
    """Yield what in a command makes it obey a file or start a program."""
    words = (name, *words[1:])
    if any(words[0] == key.partition(" ")[0] for key in _KNOWN_ACTIONS):
        yield from _unknown_words(words)
    if name in _SSH:
        yield from _ssh_words(name, words)
    if name in {"mail", "mailx"}:
        yield from _mail_words(words)
    if name in _SUBJECTS and words[1:2] and words[1] not in _SUBJECTS[name]:
        yield words[1]
    if name in _NO_REST and "--" in words:
        yield "--"
    yield from (word for word in words[1:] if word in _WORDS.get(name, ()) or _LOADS.search(word))
    options = _SETTINGS.get(name, frozenset())
    letters = {option[1] for option in options if not option.startswith("--")}
    for word in words[1:]:
        said = word.split("=", 1)[0]
        if said.startswith("--"):
            if len(said) > len("--") and any(option.startswith(said) for option in options):
                yield word
        elif word.startswith("-") and letters & set(word[1:]):
            yield word
    if name == "curl":
        yield from (word for before, word in pairwise(words) if before.startswith("--ur") and word.startswith("@"))


def _action_of(words: tuple[str, ...]) -> tuple[int, _Action] | None:
    line = " ".join((words[0].rpartition("/")[2], *words[1:4])) + " "
    return next(
        ((len(key.split()), action) for key, action in _KNOWN_ACTIONS.items() if line.startswith(f"{key} ")),
        None,
    )


def _unknown_words(words: tuple[str, ...]) -> Iterator[str]:
    found = _action_of(words)
    if found is None:
        yield " ".join(words[:2])
        return
    at, action = found
    count = 0
    while at < len(words):
        word = words[at]
        said, equals, _ = word.partition("=")
        at += 1
        if word in action.valued:
            if words[at : at + 1] and words[at].startswith("-"):
                yield f"{word} {words[at]}"
            at += 1
        elif word.startswith("-"):
            if not (word in action.flags or (equals and said in action.valued | action.flags)):
                yield word
        else:
            count += 1
            if not action.operand.fullmatch(word) or (words[0] in {"npm", "pnpm"} and count > 1):
                yield word
    if count < action.fewest:
        yield "a folder that is packed"


def _ssh_words(name: str, words: tuple[str, ...]) -> Iterator[str]:
    valued, flags, allowed = _SSH[name]
    rest = len(_remote_command(words)) if name == "ssh" else 0
    at, end = 1, len(words) - rest
    while at < end:
        word = words[at]
        at += 1
        if not word.startswith("-") or word == "-":
            continue
        for place, letter in enumerate(word[1:], start=1):
            if letter in valued:
                value = word[place + 1 :]
                if not value:
                    value, at = " ".join(words[at : at + 1]), at + 1
                setting = re.split(r"[\s=]", value.strip(), maxsplit=1)[0].lower()
                if letter not in allowed or (letter == "o" and setting not in _SSH_OPTIONS):
                    yield f"-{letter} {value}"
                break
            if letter not in flags:
                yield word


def _remote_command(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return what `ssh` runs on the other machine; options may stand before and after its name."""
    valued = _SSH["ssh"][0]
    operands, at = 0, 1
    while at < len(words):
        word = words[at]
        if word == "--":
            return words[at + 1 :] if operands else words[at + 2 :]
        if word.startswith("-"):
            taking = next((place for place, letter in enumerate(word[1:], start=1) if letter in valued), 0)
            at += 1 + (taking == len(word) - 1 and taking > 0)
            continue
        operands += 1
        if operands > 1:
            return words[at:]
        at += 1
    return ()


def _mail_words(words: tuple[str, ...]) -> Iterator[str]:
    at = 1
    while at < len(words):
        word = words[at]
        at += 1
        if word in _MAIL_VALUED:
            value = " ".join(words[at : at + 1])
            if word in {"-c", "-b"} and not _ADDRESS.fullmatch(value):
                yield f"{word} {value}"
            at += 1
        elif not _ADDRESS.fullmatch(word):
            yield word
