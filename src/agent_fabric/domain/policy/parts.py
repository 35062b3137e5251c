"""The parts of a call that are judged one by one: every command of a command line, or the call as a whole."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from itertools import chain
from typing import Final, NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.command_lines.invocation import Invocation, UnparsableCommand
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.command_lines.wrappers import started_by
from agent_fabric.domain.policy.command_tools import changes_folder, file_words, folders_read, tools_of
from agent_fabric.domain.policy.dangers import hidden_program
from agent_fabric.domain.policy.environment import changes_programs, changes_variables, poisoned_variable, set_otherwise
from agent_fabric.domain.policy.followed_line import FollowedLine
from agent_fabric.domain.policy.globs import host_of
from agent_fabric.domain.policy.places import MAX_PATH_CHARS, UNKNOWN, is_secret, join_path, plain_place
from agent_fabric.domain.policy.removals import Removal, removed_by
from agent_fabric.domain.policy.subcommands import VALUED, as_module, operands
from agent_fabric.domain.policy.verdicts import EXACTLY

# What a command line reads, as far as its words tell: by a reader, a redirect, from another folder, by a variable.
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


# Commands that run what their line downloads: from a pipe, in a substitution, or as a file that was just saved.
_DOWNLOADS: Final = names(
    "curl wget aria2c axel lynx w3m links http https xh httpie fetch nc ncat netcat socat ftp lftp tftp scp sftp"
)
_RUNS_CODE: Final = re.compile(
    r"(?:ba|da|z|k|mk|a|c|tc|fi)?sh|source|\.|eval|(?:python|pypy|ipython|perl|ruby|irb|node|deno|bun|php|lua|tclsh|julia"
    r"|pwsh|R|Rscript|osascript|groovy|elixir|swift|scala)[0-9.]*"
)
_CODE_OPTION: Final = re.compile(r"-[A-Za-z]*[cepr]|--(?:eval|print|command|run)|eval")
_DATA_OPTION: Final = re.compile(r"-m|-[A-Za-z]*[cepn]|--(?:eval|print|command|version|help)|eval")
"""With it the input is no code."""
_SUBSTITUTION: Final = ("$(", "`", "<(", "/dev/stdin", "/dev/fd/", "/proc/self/fd/")
_SAVES: Final = re.compile(r"-[A-Za-z]*[oO](?P<value>.*)|--output(?:-document)?(?:=(?P<long>.*))?", re.DOTALL)


def downloads_in(found: Sequence[Invocation]) -> list[Invocation]:
    """Return the commands of a line that download something."""
    return [each for each in found if each.name in _DOWNLOADS]


def runs_download(invocation: Invocation, found: Sequence[Invocation]) -> bool:
    """Tell whether a command runs something that another one of its line downloads."""
    downloads = downloads_in(found)
    if not downloads or not invocation.words or invocation.name in _DOWNLOADS:
        return False
    passed_on = [each for each in found if any(feed.name in _DOWNLOADS for feed in each.fed_by)]
    saved = {name for each in (*downloads, *passed_on) for name in _saved_as(each)}
    runs_code = _RUNS_CODE.fullmatch(invocation.name) is not None
    candidates = invocation.words[1:] if runs_code else invocation.words[:1] if "/" in invocation.program else ()
    if any(_base(word) in saved for word in candidates):
        return True
    if not runs_code or not any(each.name in _DOWNLOADS for each in invocation.fed_by):
        return False
    return _reads_code(invocation)


def _reads_code(invocation: Invocation) -> bool:
    """Tell whether the code of an interpreter comes from its input or a substitution."""
    words = invocation.words[1:]
    for at, word in enumerate(words):
        if word.startswith(_SUBSTITUTION) and (at == 0 or words[at - 1].startswith("-") or words[at - 1] == "eval"):
            return not (at and _DATA_OPTION.fullmatch(words[at - 1]) and not _CODE_OPTION.fullmatch(words[at - 1]))
    operands = [word for word in words if not word.startswith("-")]
    return not operands and not any(map(_DATA_OPTION.fullmatch, words))


def _saved_as(invocation: Invocation) -> Iterator[str]:
    """Yield the names of the files that a download is saved as."""
    words = invocation.words
    if invocation.name == "tee":
        yield from map(_base, words[1:])
    for at, word in enumerate(words[1:] if invocation.name in _DOWNLOADS else (), start=1):
        if match := _SAVES.fullmatch(word):
            value = match["value"] or match["long"] or (words[at + 1] if at + 1 < len(words) else "")
            yield _base(value)
        if "://" in word or invocation.name in {"wget", "scp", "sftp", "aria2c", "axel"}:
            yield _base(word.partition("?")[0])
    yield from (_base(each.target) for each in invocation.redirects if each.writes_file)


def _base(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2] or "\0"


MAX_COMMANDS = 1_000
"""In one line; more would not be read, and each is judged."""
MAX_SHOWN_CHARS = 500
"""Of a part, in reasons and logs; the call itself is recorded whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Something that a verdict is about."""

    subject: str
    """How it is shown."""
    invocation: Invocation | None = None
    """The command; None: the call as a whole."""
    problem: str = ""
    """Why the command line is not understood; then there is nothing else to judge."""
    sets: str = ""
    """A variable that programs obey and that the line may set without an assignment."""
    alike: str = ""
    """What agreeing for the whole run would cover, in words; see `covered_commands`."""
    writes: bool = False
    """A redirect of it writes a file."""
    written: tuple[str, ...] = ()
    """Files that redirects of the whole line write; `~` for one that is only known at run time."""
    left_for: tuple[str, ...] = ()
    """Folders that the line may have left the workspace for: `cd /x && ./y`."""
    moved: bool = False
    """The line changes the folder that relative paths begin at."""
    changed: bool = False
    """The line can change what its programs do: by a variable such as PATH, a function or an alias."""
    removes: tuple[Removal, ...] = ()
    """What it removes, as far as its words tell."""
    runs_download: bool = False
    """It runs something that the line downloads."""
    reads: tuple[Reading, ...] = ()
    """What it reads, as far as its words tell."""


def parts_of(call: ProposedCall) -> tuple[Part, ...]:
    """Take a call apart; there is always at least one part."""
    if not call.command.strip():
        parts: tuple[Part, ...] = (Part(subject=_summary(call), alike=_kind(call)),)
    else:
        parts = _commands(call.command)
    return tuple(map(partial(_on_node, call.node), parts)) if call.node else parts


def _on_node(node: str, part: Part) -> Part:
    """Agreeing to something on one machine says nothing about another."""
    return replace(part, alike=f"{part.alike} on {node}") if part.alike else part


@lru_cache(maxsize=256)
def _commands(command: str) -> tuple[Part, ...]:
    # A call is judged when it is proposed, when a person has agreed to it, and again after a crash.
    try:
        found = started_by(command)
    except UnparsableCommand as error:
        return (Part(subject=_short(command), problem=str(error)),)
    if len(found) > MAX_COMMANDS:
        return (Part(subject=_short(command), problem=f"it consists of more than {MAX_COMMANDS} commands"),)
    left_for, moved = tuple(chain.from_iterable(map(_left_for, found))), any(map(changes_folder, found))
    changed = changes_variables(command) or any(map(changes_programs, found))
    sets = set_otherwise(command)
    written = tuple(
        "~" if redirect.unknown else redirect.target
        for invocation in found
        for redirect in invocation.redirects
        if redirect.writes_file
    )
    exactly = exact_line(command, found)
    loads = bool(downloads_in(found))
    parts = tuple(
        Part(
            left_for=left_for,
            moved=moved,
            changed=changed,
            written=written,
            removes=removes,
            reads=reads,
            runs_download=loads and runs_download(invocation, found),
            subject=_short(_text(invocation)),
            invocation=invocation,
            sets=sets,
            alike=exactly if moved or changed else covered_commands(invocation) or exactly,
            writes=any(redirect.writes_file for redirect in invocation.redirects),
        )
        for invocation, (removes, reads) in zip(found, _effects(command, found), strict=True)
        if invocation.words or invocation.assignments or invocation.redirects
    )
    return parts or (Part(subject=command, invocation=Invocation()),)


def _effects(text: str, found: Sequence[Invocation]) -> Iterator[tuple[tuple[Removal, ...], tuple[Reading, ...]]]:
    """Yield for each command of a line what it removes, and what it reads."""
    line = FollowedLine(text, found)
    for invocation in found:
        folders = line.follow(invocation)
        yield tuple(removed_by(line, invocation, folders)), tuple(read_by(line, invocation, folders))


def _left_for(invocation: Invocation) -> Iterator[str]:
    """Yield the folders outside of the workspace that a command may lead to; `~` where that is not known."""
    if invocation.name not in {"cd", "pushd", "popd"}:
        return
    targets = [at for at, word in enumerate(invocation.words) if at and word not in {"-L", "-P", "-e", "--"}]
    if not targets:
        yield "~"
    for at in targets:
        word = invocation.words[at]
        if at in invocation.unknown or word.startswith(("~", "-", "+")):
            yield "~"
        elif word.startswith("/") or ".." in word.split("/"):
            yield word


def _short(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[: MAX_SHOWN_CHARS - 1]}…"


def _text(invocation: Invocation) -> str:
    """Show a command; of what stands around it, only what matters."""
    written = [f"{redirect.operator}{redirect.target}" for redirect in invocation.redirects if redirect.writes_file]
    if invocation.words:
        return " ".join([*invocation.words, *written])
    assignments = [f"{name}={value}" for name, value in invocation.assignments]
    read = [redirect.operator for redirect in invocation.redirects if not redirect.writes_file]
    return " ".join([*assignments, *written, *read])


def _summary(call: ProposedCall) -> str:
    return _short(" ".join([*_names(call), *call.paths[:3], *call.urls[:3]]))


def _kind(call: ProposedCall) -> str:
    hosts = sorted({host for url in call.urls if (host := host_of(url))})
    receivers = [call.receiver] if call.receiver else hosts
    return covered_calls(" ".join(_names(call)), call.paths, receivers)


def _names(call: ProposedCall) -> list[str]:
    return [call.tool, call.sends] if call.sends else [call.tool]


# What agreeing for the whole run covers, in the words that a person reads. Calls with the same words are covered.
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
