"""Whether a call that succeeded does again what an earlier one was kept from: pure, and in doubt it does not."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from posixpath import normpath
from typing import Any, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evidence.commands import find_test_command, inner_commands
from agent_fabric.domain.policy.calls import argument_hash
from agent_fabric.domain.policy.command_lines.grammar import parse_command
from agent_fabric.domain.policy.command_lines.invocation import Connector, Invocation, UnparsableCommand
from agent_fabric.domain.policy.command_lines.names import names
from agent_fabric.domain.policy.command_lines.wrappers import unwrap
from agent_fabric.domain.policy.outward import outward_effect
from agent_fabric.domain.policy.read_only import only_reads
from agent_fabric.domain.policy.subcommands import PYTHON, as_plain

_IMPLIED: Final = frozenset({Connector.AND, Connector.PIPE, Connector.END})
_INLINE: Final = names("-c -e --eval")
"""Options whose value is a program."""
_INTERPRETERS: Final = names("bash sh zsh python node deno bun ruby perl php")
"""Programs whose work stands in text that they are given: another text is another attempt at the same."""
_ASIDE: Final = names("cd pushd popd export set source true echo printf sleep")
"""Commands that only prepare or accompany others."""


@dataclass(frozen=True, slots=True)
class Part:
    """One command of a line, as far as it tells what is to be done."""

    program: str
    operands: frozenset[str]
    """Words that are no options."""
    tests: bool
    """It executes tests, and all of them if it names none."""

    def does(self, other: "Part") -> bool:
        """Tell whether its success is that of another, earlier one."""
        if self.program != other.program:
            return False
        if self.tests and not self.operands:
            return True
        if not any(map(_is_path, other.operands)) and (other.tests or not other.operands):
            # A part of the tests is not all of them, and `make clean` is not `make`.
            return self.operands <= other.operands or self.program in _INTERPRETERS
        if not self.tests:
            return other.operands <= self.operands
        return all(any(_covers(mine, wanted) for mine in self.operands) for wanted in other.operands)

    def may_stand_in(self, command: str) -> bool:
        """Tell whether a command line is worth reading, which takes its time."""
        return self.program in command and (self.tests or all(word in command for word in self.operands))


@dataclass(slots=True)
class Wanted:
    """What it takes to do a call again."""

    tool: str
    identity: str
    """Of tool and arguments."""
    path: str = ""
    """The file that it was to write."""
    loose: bool = False
    """It was malformed, so any later call of its tool that succeeds stands for it."""
    command: str = ""
    parts: list[Part] = field(default_factory=list)
    """Commands of its line that have not succeeded since."""

    def done_by(self, tool: str, args: Mapping[str, Any], wrote: Sequence[str]) -> bool:
        """Take note of a call that has succeeded, and tell whether nothing is left to be done."""
        if tool == self.tool and (self.loose or identity_of(tool, args) == self.identity):
            return True
        if self.path and any(normpath(path) == self.path for path in wrote):
            return True
        command = command_in(args)
        if not self.command or not command or node_in(args) != self.identity.partition(" ")[0]:
            return False
        if command == self.command:
            return True
        if not any(part.may_stand_in(command) for part in self.parts):
            return False
        done = tuple(implied_parts(command))
        self.parts = [part for part in self.parts if not any(each.does(part) for each in done)]
        return not self.parts


def wanted_by(tool: str, args: Mapping[str, Any], *, path: str = "", loose: bool = False) -> Wanted:
    """Return what it takes to do a call again that came to nothing."""
    command = command_in(args)
    return Wanted(
        tool=tool,
        identity=identity_of(tool, args),
        path=normpath(path) if path else "",
        loose=loose,
        command=command,
        parts=[*_parts(command)] if command else [],
    )


def identity_of(tool: str, args: Mapping[str, Any]) -> str:
    """Return what tells a call from all others; it begins with the machine that the call is for."""
    return f"{node_in(args)} {tool} {argument_hash(args)}"


def command_in(args: Mapping[str, Any]) -> str:
    """Return the command line of a call; empty: it has none."""
    found = args.get("command")
    return " ".join(found.split()) if isinstance(found, str) else ""


def node_in(args: Mapping[str, Any]) -> str:
    """Return the machine that a call is for; empty: this one."""
    found = args.get("node")
    return found.replace(" ", "_") if isinstance(found, str) else ""


def only_looks(command: str) -> bool:
    """Tell whether a command line changes nothing, so that its failure leaves nothing undone."""
    found = inner_commands(command)
    return found is not None and all(not each.words or only_reads(each) or each.name in _ASIDE for each in found)


def outward_effect_of(command: str) -> str:
    """Say what a command line does to the world outside this machine; empty: nothing that is known."""
    return next(filter(None, map(outward_effect, inner_commands(command) or ())), "")


def hides_failure(command: str) -> bool:
    """Tell whether a line may end well though what it does outside this machine has failed, as with `|| true`."""
    try:
        lines = parse_command(command)
    except UnparsableCommand:
        return True
    sure = _sure_from(lines)
    return any(outward_effect(each) for at, one in enumerate(lines) if at < sure for each in unwrap(one))


def implied_parts(command: str) -> Iterator[Part]:
    """Yield the commands of a line that have succeeded if the line has."""
    try:
        lines = parse_command(command)
    except UnparsableCommand:
        return
    sure = _sure_from(lines)
    yield from _parts_of(lines[sure:])


def _sure_from(lines: Sequence[Invocation]) -> int:
    """Return the place of the first command from which on the status of the line is that of each."""
    sure = len(lines)
    for at in range(len(lines) - 1, -1, -1):
        if lines[at].connector not in _IMPLIED or lines[at].nested:
            break
        sure = at
    # What stands behind `||` may not have run at all.
    return sure + 1 if 0 < sure < len(lines) and lines[sure - 1].connector is Connector.OR else sure


def _parts(command: str) -> Iterator[Part]:
    try:
        yield from _parts_of(parse_command(command))
    except UnparsableCommand:
        return


def _parts_of(lines: Sequence[Invocation]) -> Iterator[Part]:
    for one in lines:
        for each in unwrap(one):
            if each.words and each.name not in _ASIDE and not only_reads(each):
                yield _part(as_plain(each))


def _part(invocation: Invocation) -> Part:
    words = invocation.words
    program = "python" if PYTHON.fullmatch(invocation.name) else invocation.name
    inline = {at + 1 for at, word in enumerate(words) if word in _INLINE}
    operands = frozenset(
        word.removeprefix("./")
        for at, word in enumerate(words)
        if at and at not in inline and not word.startswith("-") and word
    )
    return Part(program, operands, tests=bool(find_test_command(" ".join(words))))


def _is_path(word: str) -> bool:
    return "/" in word or "." in word


def _covers(mine: str, wanted: str) -> bool:
    return wanted == mine or wanted.startswith((f"{mine.rstrip('/')}/", f"{mine}::"))
