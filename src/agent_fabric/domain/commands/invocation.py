"""What a command line consists of: invocations, their redirects, and how they are joined."""

from dataclasses import dataclass
from enum import StrEnum

MAX_NESTING = 50
"""How deep substitutions, groups and wrappers may stand inside each other."""


class UnparsableCommand(ValueError):
    """The text is not a command line that we understand; the message is a short reason."""


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
    nested: bool = False
    """It stands inside something else, so its status does not simply decide that of the line."""

    @property
    def program(self) -> str:
        """The first word as written, with its folder if it has one; empty if there is none."""
        return self.words[0] if self.words else ""

    @property
    def name(self) -> str:
        """The program without its folder."""
        return self.program.rpartition("/")[2]

    @property
    def dynamic(self) -> bool:
        """Which program this starts is only known at run time."""
        return 0 in self.unknown
