"""What a command line consists of: invocations, their redirects, and how they are joined."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from enum import StrEnum

from agent_fabric.domain.dataclass import dataclass

MAX_NESTING = 50
"""How deep substitutions, groups and wrappers may stand inside each other."""


_QUIET_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_STREAM = re.compile(r"[0-9]*-?")


class UnparsableCommand(ValueError):
    """The text is not a command line that we understand; the message is a short reason."""


class UnfinishedCommand(UnparsableCommand):
    """The text breaks off: what was meant cannot be known, not even by a shell."""


class Connector(StrEnum):
    """How a command is joined to what follows it."""

    AND = "&&"
    OR = "||"
    PIPE = "|"
    THEN = ";"
    """Also a newline."""
    BACKGROUND = "&"
    END = ""
    """Nothing follows in this list."""


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where a command reads from or writes to."""

    operator: str
    """Without the number of the stream: `>`, `>>`, `>|`, `>&`, `&>`, `&>>`, `<`, `<&`, `<>`, `<<`, `<<-` or `<<<`."""
    target: str
    """The word after the operator; for a heredoc its body."""
    unknown: bool = False
    """The target is only known at run time."""

    @property
    def names_file(self) -> bool:
        """The target is a file, not the text of a heredoc, a stream such as `2` in `>&2`, or nothing at all."""
        if self.operator.startswith("<<") or self.target in _QUIET_TARGETS:
            return False
        return not (self.operator in {">&", "<&"} and _STREAM.fullmatch(self.target))

    @property
    def writes_file(self) -> bool:
        """The target is a file that is made, emptied or added to."""
        return self.names_file and self.operator not in {"<", "<&"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One simple command.

    A group, loop, condition, negation, function definition or call of such a function adds one invocation without
    words, after its parts: it carries the redirects and the connector of the whole.
    """

    words: tuple[str, ...] = ()
    """Program and arguments without their quotes; expansions keep their text."""
    unknown: frozenset[int] = frozenset()
    """Positions in `words` whose value is only known at run time."""
    splits: frozenset[int] = frozenset()
    """Those of them that may turn out to be several words, or none."""
    assignments: tuple[tuple[str, str], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    connector: Connector = Connector.END
    defines: str = ""
    """The function that it defines."""
    nested: bool = False
    """It stands inside something else, so its status does not simply decide that of the line."""
    fed_by: "tuple[Invocation, ...]" = field(default=(), compare=False, repr=False)
    """Commands of the line whose output it may take. Known for those that `started_by` returns."""
    name: str = field(init=False, compare=False, repr=False)
    """The program without its folder."""

    def __post_init__(self) -> None:
        # Every table of the policy asks for it.
        object.__setattr__(self, "name", self.program.rpartition("/")[2])

    @property
    def program(self) -> str:
        """The first word as written, with its folder if it has one; empty if there is none."""
        return self.words[0] if self.words else ""

    @property
    def dynamic(self) -> bool:
        """Which program this starts is only known at run time."""
        return 0 in self.unknown


# Commands that others start, cut out of them.
def part(invocation: Invocation, start: int, end: int, *, nested: bool) -> Invocation:
    """Return some of the words as a command of its own."""
    unknown = frozenset(n - start for n in invocation.unknown if start <= n < end)
    splits = frozenset(n - start for n in invocation.splits if start <= n < end)
    return Invocation(words=invocation.words[start:end], unknown=unknown, splits=splits, nested=nested)


def only_at_run_time(what: str) -> tuple[Invocation, ...]:
    """Return a command of which nothing is known but that there is one."""
    return (Invocation(words=(what,), unknown=frozenset({0}), nested=True),)


def mark_unknown(commands: Iterable[Invocation], marks: set[str]) -> Iterator[Invocation]:
    """Yield the commands with every word unknown that something found at run time is put into."""
    for inner in commands:
        marked = {n for n, word in enumerate(inner.words) if any(mark in word for mark in marks)}
        yield replace(inner, unknown=inner.unknown | marked)
