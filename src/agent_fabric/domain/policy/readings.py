"""What a command line reads, as far as its words tell: by a reader, a redirect, from another folder, by a variable."""

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from agent_fabric.domain.policy.command_lines.invocation import Invocation
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.command_tools import file_words, folders_read, tools_of
from agent_fabric.domain.policy.followed_line import FollowedLine
from agent_fabric.domain.policy.places import MAX_PATH_CHARS, UNKNOWN, is_secret, join_path, plain_place

_SHOWS_NO_CONTENT: Final = names("stat readlink realpath touch cd pushd")
_FILE_OPTION: Final = re.compile(r"--[a-z0-9-]*(?:file|from)[a-z0-9-]*=(?P<value>.+)", re.DOTALL)
"""An option that names a file to read: `grep --file=x`, `wc --files0-from=x`."""
_LIST_OPTION: Final = re.compile(r"-[A-Za-z]*f(?P<value>.+)", re.DOTALL)
_GREP: Final = names("grep egrep fgrep zgrep")
_ARGUMENT_FILE: Final = re.compile(r"-[0rtpxo]*a(?P<value>.*)|--a[a-z-]*(?:=(?P<long>.*))?", re.DOTALL)
_PATTERN: Final = frozenset("*?[")
_SUBSTITUTED: Final = ("<(", ">(")
"""What is read there is said by a command, which is judged by itself."""
_PUBLIC: Final = re.compile(
    r"/(?:usr|bin|sbin|lib|lib32|lib64|sys|nix/store)(?:/.*)?|/proc/(?!self|thread-self|kcore|kmsg|\d|\*|\?|\[)[^/]+(?:/.*)?"
    r"|/dev/(?:null|zero|full|u?random|std(?:in|out|err)|tty|fd/\d+)|/tmp/.*|/etc/(?:os-release|lsb-release|debian_version)",
    re.DOTALL,
)
"""Programs and facts of the system, which are not personal, and what all users share."""


class Reading(NamedTuple):
    """One thing that a command reads."""

    place: str
    """Absolute, below `~`, or relative to the workspace; with UNKNOWN for what is only known at run time."""
    shown: str
    """As the command says it."""
    content: bool = True
    """What is in a file. Otherwise at most its name, or what lies in a folder."""
    below: bool = False
    """With everything below it."""

    @property
    def unclear(self) -> bool:
        """It may be anything."""
        return UNKNOWN in self.place

    @property
    def secret(self) -> bool:
        """It may hold keys or passwords."""
        return not self.public and is_secret(plain_place(self.place), below=self.below)

    @property
    def public(self) -> bool:
        """It holds nothing personal."""
        return not self.unclear and _PUBLIC.fullmatch(plain_place(self.place)) is not None


def read_by(line: FollowedLine, invocation: Invocation, folders: Sequence[str]) -> Iterator[Reading]:
    """Yield what a command of a line reads that may work in these folders."""
    for redirect in invocation.redirects:
        if redirect.operator in {"<", "<>", "<&"} and redirect.names_file:
            yield from _places(line, folders, redirect.target, unknown=redirect.unknown, content=True)
    content = "read_file" in tools_of(invocation) and invocation.name not in _SHOWS_NO_CONTENT
    below = bool(folders_read(invocation))
    for word, unknown in file_words(invocation):
        for reading in _places(line, folders, word, unknown=unknown, content=content):
            yield reading._replace(below=below)
    for word, unknown in _by_options(invocation):
        yield from _places(line, folders, word, unknown=unknown, content=True)


def _climbing(path: str) -> str:
    """Return a path in which patterns that fit `..` are taken for it: `.?/x`, `grep -r x .*`."""
    if not _PATTERN.intersection(path) or len(path) > MAX_PATH_CHARS:
        return path
    return "/".join(
        ".." if part.startswith(".") and part != "." and fnmatchcase("..", part) else part for part in path.split("/")
    )


def _places(
    line: FollowedLine, folders: Sequence[str], word: str, *, unknown: bool, content: bool
) -> Iterator[Reading]:
    if word == "-" or word.startswith(_SUBSTITUTED):
        return
    for found in line.expand(word, unknown=unknown):
        for folder in folders:
            yield Reading(join_path(folder, line.through_link(_climbing(found))), word, content)


def _by_options(invocation: Invocation) -> Iterator[tuple[str, bool]]:
    words = invocation.words
    if invocation.name == "xargs":
        yield from _argument_files(invocation)
    for at, word in enumerate(words[1:], start=1):
        match = _FILE_OPTION.fullmatch(word) or (invocation.name in _GREP and _LIST_OPTION.fullmatch(word))
        if match:
            yield match["value"], at in invocation.unknown
    if invocation.name == "git" and "--no-index" in words:
        yield from ((word, at in invocation.unknown) for at, word in enumerate(words) if at > 1 and word[:1] != "-")


def _argument_files(invocation: Invocation) -> Iterator[tuple[str, bool]]:
    """Yield the file whose lines xargs hands to a command: `xargs -a FILE echo`."""
    words = invocation.words
    for at, word in enumerate(words[1:], start=1):
        if match := _ARGUMENT_FILE.fullmatch(word):
            value = match["value"] or match["long"]
            if value:
                yield value, at in invocation.unknown
            elif at + 1 < len(words):
                yield words[at + 1], at + 1 in invocation.unknown
        elif not word.startswith("-"):
            return
