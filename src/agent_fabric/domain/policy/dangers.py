"""What is never a good idea, and what hides another program in an option."""

import re
from fnmatch import fnmatchcase
from itertools import pairwise

from agent_fabric.domain.commands.invocation import Invocation
from agent_fabric.domain.commands.names import names
from agent_fabric.domain.policy.globs import plain_path
from agent_fabric.domain.policy.subcommands import VALUED, operands

_REMOVERS = frozenset({"rm", "rmdir", "shred", "unlink"})
_SYSTEM_FOLDERS = frozenset({"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"})
_HOME = re.compile(r"~[A-Za-z0-9_-]*|\$\{?HOME\}?")
_VITAL = names(
    "/ /bin /boot /dev /etc /home /lib /lib64 /opt /proc /root /sbin /srv /sys /usr /usr/bin /usr/lib /usr/local /var "
    "/Applications /Library /System /Users"
)
_WIPERS = frozenset({"blkdiscard", "fdisk", "mke2fs", "mkswap", "parted", "sfdisk", "wipefs"})
_STOPPERS = frozenset({"halt", "poweroff", "reboot", "shutdown"})
_DISK = re.compile(r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|rdisk|mapper/|dm-|md)\S*")


def catastrophe(invocation: Invocation) -> str:
    """Say why a command must never run, whoever asks for it; empty if there is no such reason."""
    name, words = invocation.name, invocation.words
    for redirect in invocation.redirects:
        if redirect.operator.startswith((">", "&>", "<>")) and _DISK.fullmatch(redirect.target):
            return f"it overwrites the disk {redirect.target}"
    if name in _WIPERS or fnmatchcase(name, "mkfs*"):
        return "it destroys what is on a disk"
    if name in _STOPPERS or (name == "systemctl" and _STOPPERS & set(words)):
        return "it stops the machine"
    if name == "dd" and any(word.startswith("of=") and _DISK.fullmatch(word[3:]) for word in words):
        return "it overwrites a disk"
    recursive = any(
        word in {"--recursive", "--no-preserve-root"} or (re.fullmatch(r"-[A-Za-z]*[rR][A-Za-z]*", word) is not None)
        for word in words[1:]
    )
    if name in {"rm", "chmod", "chown", "chgrp"} and recursive:
        vital = next((word for word in words[1:] if _is_vital(word)), "")
        if vital:
            return f"it would {'remove' if name == 'rm' else 'change'} everything in {vital!r}"
    if name == "find" and "-delete" in words and any(_is_vital(word) for word in words[1:2]):
        return f"it would remove everything in {words[1]!r}"
    return ""


def _is_vital(word: str) -> bool:
    home = _HOME.match(word)
    if home and word[home.end() :].strip("/*.") == "":
        return True
    if not word.startswith("/"):
        return False
    path = plain_path(word.replace("*", ""))
    return (path.rstrip("/") or "/") in _VITAL


def removes_outside(invocation: Invocation) -> str:
    """Return the first target of a removal that is plainly not in the workspace, or nothing."""
    if invocation.name not in _REMOVERS:
        return ""
    for word in invocation.words[1:]:
        if word.startswith(("/", "~", "$HOME", "${HOME")) and not (
            word.startswith("/tmp/") and ".." not in word.split("/")  # noqa: S108 - anybody's
        ):
            return word
        if ".." in word.split("/"):
            return word
    return ""


def odd_place(program: str) -> str:
    """Say why a program's folder is neither the workspace nor the system's; empty if it is one of them."""
    folder, slash, _ = program.rpartition("/")
    if not slash:
        return ""
    if program.startswith("/"):
        if folder in _SYSTEM_FOLDERS:
            return ""
        return f"{program!r} is in no folder of the system. Call the program by its name."
    if ".." in program.split("/"):
        return f"{program!r} leads out of the workspace. Use a path inside of it."
    return ""


# ── what an option hides ──────────────────────────────────────────────────────────────────────────────────────────────

_GIT_KEYS = (
    "alias.",
    "browser.",
    "core.askpass",
    "core.editor",
    "core.fsmonitor",
    "core.gitproxy",
    "core.hookspath",
    "core.pager",
    "core.sshcommand",
    "core.worktree",
    "credential.",
    "diff.external",
    "difftool.",
    "filter.",
    "gpg.",
    "http.",
    "include.",
    "includeif.",
    "init.templatedir",
    "interactive.difffilter",
    "man.",
    "mergetool.",
    "pager.",
    "protocol.",
    "remote.",
    "sendemail.",
    "sequence.editor",
    "trailer.",
    "uploadpack.",
    "url.",
)
_GIT_KEY_ENDS = (".command", ".textconv", ".driver", ".cmd", ".process", ".clean", ".smudge", ".program")
_GIT_OPTIONS = (
    "--exec-path",
    "--ext-diff",
    "--extcmd",
    "--open-files-in-pager",
    "--receive-pack",
    "--template",
    "--upload-pack",
)


def hidden_program(invocation: Invocation) -> str:
    """Say how an option makes a harmless program run another one that cannot be judged; empty if none does."""
    name, words = invocation.name, invocation.words
    match name:
        case "git":
            return _git_hides(invocation)
        case "make" | "gmake":
            return next((f"make is told {word!r}" for word in words[1:] if word.startswith(("SHELL=", "--eval"))), "")
        case _:
            return ""


def _git_hides(invocation: Invocation) -> str:
    words = invocation.words
    settings = [value for option, value in pairwise(words) if option in {"-c", "--config-env", "--config"}]
    settings += [word[2:] for word in words[1:] if word.startswith("-c") and "=" in word]
    settings += [word.partition("=")[2] for word in words[1:] if word.startswith(("--config-env=", "--config="))]
    said = [words[n] for n in operands(words, VALUED["git"])]
    if said[:1] == ["config"]:
        settings += said[1:]
    for setting in settings:
        key = setting.partition("=")[0].lower()
        if key.startswith(_GIT_KEYS) or (key.endswith(_GIT_KEY_ENDS) and "." in key):
            return f"git is given {key!r}, which can make it run or reach something else"
    if any(n in invocation.unknown for n, word in enumerate(words) if n and words[n - 1] in {"-c", "--config-env"}):
        return "git is given a setting that is only known at run time"
    for word in words[1:]:
        option = word.partition("=")[0]
        if option.startswith("--") and len(option) > 6 and any(known.startswith(option) for known in _GIT_OPTIONS):
            return f"git is given {word!r}, which can make it run something else"
        if word.startswith(("ext::", "fd::")) or "=ext::" in word:
            return "the address makes git run a program"
    if said[:1] == ["grep"] and _has_letter(words, "O"):
        return "git grep -O opens a program"
    return ""


def _has_letter(words: tuple[str, ...], letter: str) -> bool:
    return any(word.startswith("-") and not word.startswith("--") and letter in word[1:] for word in words[1:])
