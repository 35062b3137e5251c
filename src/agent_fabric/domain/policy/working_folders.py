"""The folder in which a command of a command line runs, told by the line: pure."""

import re
import shlex
from collections.abc import Sequence
from posixpath import isabs, join, normpath

from agent_fabric.domain.policy.command_lines.grammar import parse_command
from agent_fabric.domain.policy.command_lines.invocation import Invocation, UnparsableCommand
from agent_fabric.domain.policy.command_lines.wrappers import wrapped_commands

ELSEWHERE = "~"
"""No folder of the workspace, or one that is only known at run time."""
_AT_TOP = re.compile(r"\$\{?PWD\}?|\$\(pwd\)|`pwd`|\$\(git rev-parse --show-toplevel\)")
_IN_CONTAINER = "/workspace/"
"""Where a container sees the workspace."""


def folder_of(line: str, command: str, workspace: str = "") -> str:
    """Return where the last such command of a line runs, as seen from the workspace; `.` is the workspace itself."""
    try:
        found = _search(parse_command(line), command, ".", subshells="(" in line)
    except UnparsableCommand:
        found = None
    return inside(found or ".", workspace)


def inside(path: str, workspace: str) -> str:
    """Return a path as seen from the workspace; `~` if it lies elsewhere.

    A workspace may be known by another name in the box, so its last two folders are enough.
    """
    if not isabs(path):
        return normpath(path)
    whole, top = f"{normpath(path)}/", "/".join(workspace.rstrip("/").split("/")[-2:])
    if top and f"/{top}/" in whole:
        return normpath(whole.rpartition(f"/{top}/")[2])
    return normpath(whole.removeprefix(_IN_CONTAINER)) if whole.startswith(_IN_CONTAINER) else ELSEWHERE


def _search(invocations: Sequence[Invocation], command: str, folder: str, *, subshells: bool) -> str | None:
    found = None
    for invocation in invocations:
        if not invocation.words or invocation.dynamic:
            continue
        if shlex.join(invocation.words) == command:
            found = folder
        if invocation.name in {"cd", "pushd", "popd"}:
            # What a subshell does about its folder ends with it. Other groups are not told apart from those.
            folder = folder if invocation.nested and subshells else _next_folder(folder, invocation)
            continue
        there = _started_in(folder, invocation)
        inner = _search(wrapped_commands(invocation), command, there, subshells=subshells)
        found = inner if inner is not None else found
    return found


def _next_folder(folder: str, invocation: Invocation) -> str:
    words = [word for word in invocation.words[1:] if word != "--" and not re.fullmatch(r"-[LPe@n]+", word)]
    if invocation.name == "popd" or len(words) != 1 or words[0].startswith(("-", "+", "~")):
        return ELSEWHERE
    if _AT_TOP.fullmatch(words[0]):
        return "." if "git" in words[0] else folder
    known = _AT_TOP.sub("", words[0]).lstrip("/") if _AT_TOP.match(words[0]) else words[0]
    return ELSEWHERE if "$" in known or "`" in known else _join(folder, known)


def _started_in(folder: str, invocation: Invocation) -> str:
    """Return where `env -C` starts a command."""
    if invocation.name != "env":
        return folder
    for at, word in enumerate(invocation.words[1:], 1):
        option, _, value = word.partition("=")
        if option in {"-C", "--chdir"}:
            return _join(folder, value or next(iter(invocation.words[at + 1 :]), ""))
    return folder


def _join(folder: str, path: str) -> str:
    if folder == ELSEWHERE and not isabs(path):
        return ELSEWHERE
    return normpath(join(folder, path))
