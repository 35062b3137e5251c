"""A text that is read as bash from left to right: where the reader stands, and its small steps."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.policy.command_lines.invocation import MAX_NESTING, UnfinishedCommand, UnparsableCommand

CLOSERS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
"""Reserved words that end a list of commands."""
OPENERS = frozenset({"{", "[[", "if", "while", "until", "for", "select", "case"})
"""Reserved words that start a compound command."""
RESERVED = CLOSERS | OPENERS | {"!", "coproc", "function", "in", "time"}

_FIRST_LETTERS = frozenset(word[0] for word in RESERVED)
_KEYWORD = re.compile(
    "(?:" + "|".join(re.escape(word) for word in sorted(RESERVED, key=len, reverse=True)) + r")(?=[ \t\n;&|()<>]|$)"
)
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_SKIPPED = frozenset(" \t\n\\#")
"""What can start blanks, comments and empty lines."""


@dataclass(slots=True)
class Seen:
    """Two things that are harmless unless they meet: arithmetic runs the commands in an index that a variable holds."""

    code: bool = False
    """What would be a command substitution, as mere text."""
    body: bool = False
    """The same in the body of a heredoc that is taken as it is."""
    arithmetic: bool = False
    """Something that is worked out from what variables hold."""


@dataclass(slots=True)
class Source:
    """One text and how far it is read.

    Nothing is put back in order when reading fails: a text that is refused is not read on.
    """

    text: str
    read_commands: Callable[["Source"], None]
    """Reads commands up to what closes them: words contain commands, which contain words."""
    depth: int = 0
    """How many things stand around the reader's place."""
    at: int = 0
    seen: Seen = field(default_factory=Seen)
    """Shared by all sources of one text."""
    bodies: list[Callable[[], None]] = field(default_factory=list)
    """Reads the body of each heredoc of this line; they stand behind its end."""

    def __post_init__(self) -> None:
        if self.depth > MAX_NESTING:
            raise _too_deep()

    def inside(self, text: str) -> "Source":
        """Return a source for a text that is not read in place."""
        return Source(text, self.read_commands, self.depth + 1, seen=self.seen)

    def read_all(self) -> None:
        """Read the whole text as commands."""
        self.read_commands(self)
        if self.at < len(self.text):
            raise self.refusal()
        if self.bodies:
            raise UnparsableCommand("a heredoc has no end")

    # ── looking ──

    def sign(self) -> str:
        """Return the next character; nothing at the end."""
        return self.text[self.at : self.at + 1]

    def sees(self, *signs: str) -> bool:
        return self.text.startswith(signs, self.at)

    def sees_process(self) -> bool:
        """Tell whether the `<` or `>` here starts a process substitution."""
        return self.text.startswith("(", self.at + 1)

    def keyword(self) -> str:
        """Return the reserved word that stands here, if one does."""
        if self.text[self.at : self.at + 1] not in _FIRST_LETTERS:
            return ""
        match = _KEYWORD.match(self.text, self.at)
        return match[0] if match else ""

    def refusal(self) -> UnparsableCommand:
        found = self.sign()
        return UnparsableCommand(f"{found!r} is unexpected") if found else UnfinishedCommand("it ends too early")

    # ── moving ──

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Read what the pattern matches here, if it does."""
        match = pattern.match(self.text, self.at)
        if match:
            self.at = match.end()
        return match

    def skip(self, sign: str) -> bool:
        """Read the sign if it stands here."""
        if not self.text.startswith(sign, self.at):
            return False
        self.at += len(sign)
        return True

    def take(self, sign: str) -> None:
        """Read blanks and a sign or reserved word that has to stand here."""
        self.skip_blanks()
        found = self.keyword() if sign in RESERVED else self.text[self.at : self.at + len(sign)]
        if found != sign:
            raise UnparsableCommand(f"{sign!r} is missing")
        self.at += len(sign)

    def skip_blanks(self) -> None:
        if self.text.startswith((" ", "\t", "\\\n"), self.at):
            self.match(_BLANKS)

    def skip_comment(self) -> None:
        if self.text.startswith("#", self.at):
            self.match(_COMMENT)

    def skip_lines(self) -> None:
        """Skip blanks, comments and newlines; behind a newline stand the bodies of the line's heredocs."""
        while self.sign() in _SKIPPED:
            self.skip_blanks()
            self.skip_comment()
            if not self.skip("\n"):
                return
            bodies, self.bodies = self.bodies, []
            for read_body in bodies:
                read_body()

    def skip_newlines(self) -> None:
        """Skip blanks and newlines where neither a comment nor a heredoc can stand."""
        self.skip_blanks()
        while self.skip("\n"):
            self.skip_blanks()

    # ── nesting ──

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Read something inside something else."""
        if self.depth >= MAX_NESTING:
            raise _too_deep()
        self.depth += 1
        yield
        self.depth -= 1

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Read something whose heredocs are its own; shells differ on what happens when they are not."""
        start, waiting = self.at, self.bodies
        self.bodies = []
        with self.deeper():
            yield
        if self.bodies or (waiting and "\n" in self.text[start : self.at]):
            raise UnparsableCommand("a heredoc and a substitution overlap")
        self.bodies = waiting


def _too_deep() -> UnparsableCommand:
    return UnparsableCommand(f"it is nested deeper than {MAX_NESTING} levels")
