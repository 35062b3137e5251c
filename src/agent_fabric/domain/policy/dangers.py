"""What is never a good idea, and what hides another program in an option."""

from fnmatch import fnmatchcase
from itertools import pairwise

from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.subcommands import VALUED, operands

_SYSTEM_FOLDERS = frozenset({"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"})
_WIPERS = names("blkdiscard cfdisk fdisk gdisk lvremove mke2fs mkswap parted pvremove sfdisk sgdisk vgremove wipefs")
_STOPPERS = names("halt poweroff reboot shutdown")


def catastrophe(invocation: Invocation) -> str:
    """Say why a command must never run, no matter who asks for it; empty if there is no such reason."""
    name, words = invocation.name, invocation.words
    for redirect in invocation.redirects:
        if redirect.writes_file and redirect.target == "/proc/sysrq-trigger":
            return "it stops the machine"
    if name in _WIPERS or fnmatchcase(name, "mkfs*"):
        return "it destroys what is on a disk"
    if (
        name in _STOPPERS
        or (name == "systemctl" and _STOPPERS & set(words))
        or (name in {"init", "telinit"} and words[1:2] in {("0",), ("6",)})
    ):
        return "it stops the machine"
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

_GIT_KEYS = tuple(
    names(
        "alias. browser. core.askpass core.editor core.fsmonitor core.gitproxy core.hookspath core.pager "
        "core.sshcommand core.worktree credential. diff.external difftool. filter. gpg. http. include. includeif. "
        "init.templatedir interactive.difffilter man. mergetool. pager. protocol. remote. sendemail. sequence.editor "
        "trailer. uploadpack. url."
    )
)
_GIT_KEY_ENDS = (".command", ".textconv", ".driver", ".cmd", ".process", ".clean", ".smudge", ".program")
_GIT_OPTIONS = names("--exec-path --ext-diff --extcmd --open-files-in-pager --receive-pack --template --upload-pack")


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
