"""The parts of a call that are judged one by one: every command of a command line, or the call as a whole."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import chain

from agent_fabric.domain.policy.calls import ProposedCall
from agent_fabric.domain.policy.command_lines.invocation import Invocation, UnparsableCommand
from agent_fabric.domain.policy.command_lines.wrappers import started_by
from agent_fabric.domain.policy.command_tools import changes_folder
from agent_fabric.domain.policy.downloads import downloads_in, runs_download
from agent_fabric.domain.policy.environment import changes_programs, changes_variables, set_otherwise
from agent_fabric.domain.policy.followed_line import FollowedLine
from agent_fabric.domain.policy.hosts import host_of
from agent_fabric.domain.policy.readings import Reading, read_by
from agent_fabric.domain.policy.removals import Removal, removed_by
from agent_fabric.domain.policy.run_grants import covered_calls, covered_commands, exact_line

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
    """What agreeing for the whole run would cover, in words; see `run_grants`."""
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
