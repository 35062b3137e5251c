"""A bash command line, understood well enough to name every program in it.

The reader follows bash's grammar, not its run time: what a variable holds or a glob finds is not known here, and such
words are marked. Whatever is unusual enough that bash's reading of it is in doubt is refused, never guessed.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

MAX_COMMAND_BYTES = 100_000
"""Longer command lines are refused unread."""
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


def parse_command(text: str) -> tuple[Invocation, ...]:
    """Return every simple command in the text, in source order.

    Raises:
        UnparsableCommand: the text is too long, too deep, not bash, or bash too unusual to be sure about.
    """
    if len(text) > MAX_COMMAND_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_COMMAND_BYTES:
        raise UnparsableCommand(f"it is longer than {MAX_COMMAND_BYTES} bytes")
    if "\0" in text:
        raise UnparsableCommand("it contains a NUL character")
    reader = _Reader(text)
    reader.read_all()
    return reader.invocations()


def started_by(text: str) -> tuple[Invocation, ...]:
    """Return every command that the text would start: also those inside `env`, `xargs`, `bash -c` and their like.

    Raises:
        UnparsableCommand: as for `parse_command`, also for the text inside a wrapper.
    """
    return tuple(inner for invocation in parse_command(text) for inner in unwrap(invocation))


def unwrap(invocation: Invocation) -> Iterator[Invocation]:
    """Yield the invocation and, behind it, every command that it starts in turn."""
    yield from _unwrap(invocation, 0)


def _unwrap(invocation: Invocation, depth: int) -> Iterator[Invocation]:
    if depth > MAX_NESTING:
        raise UnparsableCommand(f"more than {MAX_NESTING} commands start each other")
    yield invocation
    for inner in wrapped(invocation):
        yield from _unwrap(inner, depth + 1)


def wrapped(invocation: Invocation) -> tuple[Invocation, ...]:
    """Return the commands that this one starts itself; their connectors and nesting are those inside of it.

    A command that is only known at run time is returned with its first word unknown.

    Raises:
        UnparsableCommand: it holds command text that is not understood.
    """
    if invocation.dynamic:
        return ()
    see_through = _SEE_THROUGH.get(invocation.name)
    return see_through(invocation) if see_through else ()


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Word(NamedTuple):
    text: str
    plain: int
    """How many characters at the start are neither quoted nor expanded."""
    unknown: bool
    quoted: bool
    """Some part of it stands in quotes or behind a backslash."""


@dataclass(slots=True)
class _Draft:
    """An invocation while it is read: a heredoc's body comes long after its redirect."""

    nested: bool
    words: list[str] = field(default_factory=list)
    unknown: set[int] = field(default_factory=set)
    assignments: list[tuple[str, str]] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    connector: Connector = Connector.END

    def finished(self, *, is_function: bool) -> Invocation:
        return Invocation(
            words=() if is_function else tuple(self.words),
            unknown=frozenset() if is_function else frozenset(self.unknown),
            assignments=tuple(self.assignments),
            redirects=tuple(self.redirects),
            connector=self.connector,
            nested=self.nested,
        )


class _Heredoc(NamedTuple):
    """A heredoc whose body is still to come."""

    redirects: list[Redirect]
    place: int
    delimiter: str
    literal: bool


_BLANKS = re.compile(r"(?:[ \t]|\\\n)*")
_COMMENT = re.compile(r"#[^\n]*")
_PLAIN = re.compile(r"[^ \t\n;&|()<>\\'\"$`]+")
_PLAIN_WORD = re.compile(r"[A-Za-z0-9_./:=,@%+-]+(?=[ \t\n;|)])")
_PLAIN_QUOTED = re.compile(r"[^\"\\$`]+")
_PLAIN_PARAMETER = re.compile(r"[^}'\"\\$`<>]+")
_PLAIN_ARITHMETIC = re.compile(r"[^()'\"\\$`]+")
_BACKTICKED = re.compile(r"`([^`\\]*(?:\\.[^`\\]*)*)`", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-])")
_ANSI_C = re.compile(r"\$'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL)
_ANSI_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_ANSI_LETTERS = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ASSIGNMENT = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<index>\[[^\]]*\])?\+?=", re.DOTALL)
_STREAM = re.compile(r"[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\}")
_REDIRECT = re.compile(r"(?:[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(<<<|<<-|<<|<>|<&|>>|>&|>\||[<>](?!\())|(&>>|&>)")
_REDIRECT_STARTS = frozenset("<>&{0123456789")
_CONNECTOR = re.compile(r"&&|\|\||\|&|\||;(?![;&])|&|\n")
_CONNECTORS = {"|&": Connector.PIPE, "\n": Connector.THEN}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PATTERN = re.compile(r"[*?\[{~]")
_CLOSERS = frozenset({"then", "elif", "else", "fi", "do", "done", "esac", "}"})
_OPENERS = frozenset({"{", "[[", "if", "while", "until", "for", "select", "case"})
_RESERVED = _CLOSERS | _OPENERS | {"!", "coproc", "function", "in", "time"}
_NEVER_PROGRAMS = _RESERVED - {"time"}
_FIRST_LETTERS = frozenset(word[0] for word in _RESERVED)
_KEYWORD = re.compile(
    "(?:" + "|".join(re.escape(word) for word in sorted(_RESERVED, key=len, reverse=True)) + r")(?=[ \t\n;&|()<>]|$)"
)


class _Reader:
    """Reads one text from left to right; substitutions are read in place, by the same methods."""

    def __init__(self, text: str, *, depth: int = 0, drafts: list[_Draft] | None = None) -> None:
        self._text = text
        self._at = 0
        self._depth = depth
        self._drafts: list[_Draft] = [] if drafts is None else drafts
        self._heredocs: list[_Heredoc] = []
        self._functions: dict[str, int] = {}
        if depth > MAX_NESTING:
            raise UnparsableCommand(f"it is nested deeper than {MAX_NESTING} levels")

    def read_all(self) -> None:
        self._list()
        if self._at < len(self._text):
            raise self._unexpected()
        if self._heredocs:
            raise UnparsableCommand("a heredoc has no end")

    def read_heredoc_body(self) -> bool:
        """Find the substitutions in a heredoc's body; tell whether there is anything to expand."""
        return self._double_quoted(closed=False)[1]

    def invocations(self) -> tuple[Invocation, ...]:
        forgotten = {word for draft in self._drafts if "unset" in draft.words for word in draft.words}
        # A function counts from its definition on: before it, the same name is still a program.
        known_from = {name: place for name, place in self._functions.items() if name not in forgotten}
        return tuple(
            draft.finished(
                is_function=bool(draft.words)
                and 0 not in draft.unknown
                and known_from.get(draft.words[0], len(self._drafts)) <= place
            )
            for place, draft in enumerate(self._drafts)
        )

    # ── lists and commands ──

    def _list(self, *closers: str) -> None:
        """Read commands up to one of the reserved words, a closing sign or the end."""
        self._skip_lines()
        before = Connector.THEN
        while not self._at_close(closers):
            before = self._command(before)
            self._skip_lines()
        if before in {Connector.AND, Connector.OR, Connector.PIPE}:
            raise UnparsableCommand(f"a command is missing after {before.value}")

    def _at_close(self, closers: tuple[str, ...]) -> bool:
        rest = self._text[self._at : self._at + 2]
        return not rest or rest[0] == ")" or rest in {";;", ";&"} or self._keyword() in closers

    def _command(self, before: Connector) -> Connector:
        """Read one command with its redirects and its connector."""
        keyword = self._keyword()
        if keyword == "time" and before is not Connector.PIPE:
            return self._timed()
        if keyword == "!":
            return self._negated()
        place = len(self._drafts)
        function = self._function() if keyword == "function" else ""
        if not function and not self._compound():
            draft = _Draft(nested=self._depth > 0)
            self._drafts.append(draft)
            function = self._simple(draft)
            if not function:
                draft.connector = self._connector()
                return draft.connector
        whole = self._whole()
        certain = before in {Connector.THEN, Connector.BACKGROUND} and whole.connector is not Connector.BACKGROUND
        if function and certain and not self._depth and whole.connector is not Connector.PIPE:
            self._functions.setdefault(function, place)
        return whole.connector

    def _whole(self) -> _Draft:
        """End a compound command: its redirects and connector."""
        draft = _Draft(nested=self._depth > 0)
        while self._redirect(draft):
            pass
        self._drafts.append(draft)
        draft.connector = self._connector()
        return draft

    def _timed(self) -> Connector:
        self._take("time")
        self._blanks()
        if self._text.startswith(("-p ", "-p\t"), self._at):
            self._at += 2
            self._blanks()
        at_end = self._text[self._at : self._at + 1] in {"", ";", "\n", "&", "|", ")"}
        return self._whole().connector if at_end else self._command(Connector.THEN)

    def _negated(self) -> Connector:
        self._take("!")
        connector = Connector.PIPE
        with self._deeper():
            while connector is Connector.PIPE:
                self._skip_lines()
                connector = self._command(connector)
        self._drafts.append(_Draft(nested=self._depth > 0, connector=connector))
        return connector

    def _simple(self, draft: _Draft) -> str:
        """Read words, assignments and redirects; if they turn out to define a function, read it and return its name."""
        while True:
            if self._redirect(draft):
                continue
            sign = self._text[self._at : self._at + 1]
            if sign == "(" and len(draft.words) == 1 and not (draft.assignments or draft.redirects or draft.unknown):
                self._drafts.pop()
                self._parentheses()
                self._function_body()
                return draft.words[0]
            if not sign or sign in "\n;&|()#":
                break
            word = self._word()
            if self._text.startswith(("<", ">"), self._at) and not word.quoted and _STREAM.fullmatch(word.text):
                raise UnparsableCommand("a line ends between the number of a stream and its redirect")
            self._add_word(draft, word)
        if not (draft.words or draft.assignments or draft.redirects):
            raise self._unexpected()
        return ""

    def _add_word(self, draft: _Draft, word: _Word) -> None:
        if not draft.words:
            if match := _assigns(word):
                draft.assignments.append((match["name"], word.text[match.end() :]))
                return
            if word.text in _NEVER_PROGRAMS and not (word.quoted or draft.assignments or draft.redirects):
                raise UnparsableCommand(f"{word.text!r} stands where a command should")
        if word.unknown:
            draft.unknown.add(len(draft.words))
        draft.words.append(word.text)

    def _connector(self) -> Connector:
        self._blanks()
        self._skip_comment()
        match = _CONNECTOR.match(self._text, self._at)
        if not match:
            # A reserved word may follow a closing parenthesis directly: `if (a) then`.
            if self._at < len(self._text) and self._text[self._at] not in ");" and self._keyword() not in _CLOSERS:
                raise self._unexpected()
            return Connector.END
        if match[0] == "\n":
            self._skip_lines()
        else:
            self._at = match.end()
        connector = _CONNECTORS.get(match[0]) or Connector(match[0])
        if connector is Connector.THEN:
            self._skip_lines()
            if self._at == len(self._text) or self._text[self._at] == ")" or self._keyword() in _CLOSERS:
                return Connector.END
        return connector

    # ── compound commands ──

    def _compound(self) -> bool:
        """Read a compound command, without what follows it, if there is one here."""
        if self._text.startswith("(", self._at):
            if self._text.startswith("((", self._at):
                self._at += 2
                self._arithmetic()
            else:
                self._at += 1
                with self._deeper():
                    self._list()
                    self._take(")")
            return True
        keyword = self._keyword()
        if keyword not in _OPENERS:
            return False
        self._take(keyword)
        with self._deeper():
            match keyword:
                case "{":
                    self._group()
                case "[[":
                    self._condition()
                case "if":
                    self._if()
                case "while" | "until":
                    self._while()
                case "case":
                    self._case()
                case _:
                    self._for()
        return True

    def _group(self) -> None:
        self._list("}")
        self._take("}")

    def _if(self) -> None:
        self._list("then")
        self._take("then")
        self._list("elif", "else", "fi")
        while self._keyword() == "elif":
            self._take("elif")
            self._list("then")
            self._take("then")
            self._list("elif", "else", "fi")
        if self._keyword() == "else":
            self._take("else")
            self._list("fi")
        self._take("fi")

    def _while(self) -> None:
        self._list("do")
        self._loop_body()

    def _for(self) -> None:
        self._blanks()
        if self._text.startswith("((", self._at):
            self._at += 2
            self._arithmetic()
        else:
            self._bare_name("a loop")
            self._skip_lines()
            if self._keyword() == "in":
                self._take("in")
                self._words_of_loop()
        self._blanks()
        if self._text.startswith(";", self._at):
            self._at += 1
        self._skip_lines()
        self._loop_body()

    def _words_of_loop(self) -> None:
        self._blanks()
        self._skip_comment()
        while self._text[self._at : self._at + 1] not in {"", ";", "\n"}:
            self._required_word("a loop's word")
            self._blanks()
            self._skip_comment()

    def _loop_body(self) -> None:
        self._take("do")
        self._list("done")
        self._take("done")

    def _case(self) -> None:
        self._blanks()
        self._required_word("the word of a case")
        self._skip_lines()
        self._take("in")
        self._skip_lines()
        while self._keyword() != "esac":
            self._case_pattern()
            self._list("esac")
            for end in (";;&", ";;", ";&"):
                if self._text.startswith(end, self._at):
                    self._at += len(end)
                    break
            else:
                break
            self._skip_lines()
        self._take("esac")

    def _case_pattern(self) -> None:
        if self._text.startswith("(", self._at):
            self._at += 1
        while True:
            self._blanks()
            self._required_word("a pattern of a case")
            self._blanks()
            if not self._text.startswith("|", self._at):
                break
            self._at += 1
        self._take(")")

    def _condition(self) -> None:
        """`[[ … ]]`: only its substitutions matter, and where it ends."""
        with self._apart():
            while True:
                self._skip_newlines_only()
                sign = self._text[self._at : self._at + 1]
                if sign in {"(", ")", "&", "|"} or (sign in {"<", ">"} and not self._at_process()):
                    self._at += 1
                elif self._required_word("]]") == _Word("]]", 2, unknown=False, quoted=False):
                    return

    def _function(self) -> str:
        self._take("function")
        self._blanks()
        word = self._required_word("the name of a function")
        self._blanks()
        if self._text.startswith("(", self._at):
            self._parentheses()
        self._function_body()
        if word.unknown:
            raise UnparsableCommand("the name of a function is not plain")
        return word.text

    def _parentheses(self) -> None:
        self._take("(")
        self._blanks()
        self._take(")")

    def _function_body(self) -> None:
        self._skip_lines()
        with self._deeper():
            if not self._compound():
                raise UnparsableCommand("the body of a function is missing")

    # ── words ──

    def _word(self) -> _Word:
        start = self._at
        if whole := _PLAIN_WORD.match(self._text, start):
            self._at = whole.end()
            return _Word(whole[0], len(whole[0]), unknown=False, quoted=False)
        pieces: list[str] = []
        plain = size = 0
        unknown = quoted = patterned = False
        while self._at < len(self._text):
            if match := _PLAIN.match(self._text, self._at):
                self._at = match.end()
                text, expanded, literal = match[0], False, True
                patterned = patterned or _PATTERN.search(text) is not None
            else:
                sign = self._text[self._at]
                if sign in "<>" and self._at_process():
                    text, expanded = self._substitution(skip=2)
                elif sign == "(" and not quoted and not unknown and _ASSIGNMENT.fullmatch("".join(pieces)):
                    text, expanded = self._array()
                elif sign in " \t\n;&|()<>":
                    break
                else:
                    text, expanded = self._special(sign)
                literal = not text and sign == "\\"
                quoted = quoted or (not literal and not expanded)
            plain += len(text) if literal and plain == size else 0
            size += len(text)
            pieces.append(text)
            unknown = unknown or expanded
        if self._at == start:
            raise self._unexpected()
        word = "".join(pieces)
        return _Word(word, plain, unknown or (patterned and _is_pattern(word)), quoted)

    def _special(self, sign: str) -> tuple[str, bool]:
        """Read what starts with a quote, a backslash, a dollar or a backtick: its text, and whether it is expanded."""
        match sign:
            case "\\":
                return self._escaped(), False
            case "'":
                return self._single_quoted(), False
            case '"':
                self._at += 1
                return self._double_quoted(closed=True)
            case "$":
                return self._dollar(quoted=False)
            case _:
                return self._backticked()

    def _escaped(self) -> str:
        self._at += 2
        if self._at > len(self._text):
            raise UnparsableCommand("it ends with a backslash")
        sign = self._text[self._at - 1]
        return "" if sign == "\n" else sign

    def _single_quoted(self) -> str:
        end = self._text.find("'", self._at + 1)
        if end < 0:
            raise UnparsableCommand("a single quote is not closed")
        text = self._text[self._at + 1 : end]
        self._at = end + 1
        return text

    def _double_quoted(self, *, closed: bool) -> tuple[str, bool]:
        """Read up to the closing quote, or a heredoc's body to its end."""
        pieces: list[str] = []
        unknown = False
        while self._at < len(self._text):
            text, expanded = "", False
            if match := _PLAIN_QUOTED.match(self._text, self._at):
                self._at = match.end()
                text = match[0]
            else:
                sign = self._text[self._at]
                if sign == '"':
                    self._at += 1
                    if closed:
                        return "".join(pieces), unknown
                    text = sign
                elif sign == "\\":
                    text = self._escaped_in_quotes('$`\\\n"' if closed else "$`\\\n")
                else:
                    text, expanded = self._dollar(quoted=True) if sign == "$" else self._backticked(quoted=closed)
            pieces.append(text)
            unknown = unknown or expanded
        if closed:
            raise UnparsableCommand("a double quote is not closed")
        return "".join(pieces), unknown

    def _escaped_in_quotes(self, escapable: str) -> str:
        following = self._text[self._at + 1 : self._at + 2]
        self._at += 1 + len(following)
        if following and following in escapable:
            return following.strip("\n")
        return "\\" + following

    def _dollar(self, *, quoted: bool) -> tuple[str, bool]:
        text, at = self._text, self._at
        if text.startswith("$((", at):
            self._at += 3
            self._arithmetic()
            return text[at : self._at], True
        match text[at + 1 : at + 2]:
            case "(":
                return self._substitution(skip=2)
            case "{":
                return self._parameter(quoted=quoted)
            case "[":
                raise UnparsableCommand("$[ is not supported; use $((…)), or quote it")
            case "\\" if text.startswith("\n", at + 2):
                raise UnparsableCommand("a line ends between $ and what belongs to it")
            case "'" if not quoted:
                return self._ansi_c(), False
            case '"' if not quoted:
                self._at += 2
                return self._double_quoted(closed=True)
            case _:
                match = _VARIABLE.match(text, at)
                self._at = match.end() if match else at + 1
                return text[at : self._at], match is not None

    def _ansi_c(self) -> str:
        match = _ANSI_C.match(self._text, self._at)
        if not match:
            raise UnparsableCommand("a $' quote is not closed")
        self._at = match.end()
        text = _ANSI_ESCAPE.sub(_ansi_character, match[1])
        if "\0" in text:
            raise UnparsableCommand("a $' quote contains a NUL character")
        return text

    def _substitution(self, *, skip: int) -> tuple[str, bool]:
        start = self._at
        self._at += skip
        with self._apart():
            self._list()
            self._take(")")
        return self._text[start : self._at], True

    def _backticked(self, *, quoted: bool = False) -> tuple[str, bool]:
        match = _BACKTICKED.match(self._text, self._at)
        if not match:
            raise UnparsableCommand("a backtick is not closed")
        if "#" in match[1] or (quoted and '\\"' in match[1]):
            raise UnparsableCommand("what stands in backticks is too involved; use $(…)")
        self._at = match.end()
        inner = _Reader(re.sub(r"\\([$`\\])", r"\1", match[1]), depth=self._depth + 1, drafts=self._drafts)
        inner.read_all()
        return match[0], True

    def _parameter(self, *, quoted: bool) -> tuple[str, bool]:
        start = self._at
        self._at += 2
        if self._text[self._at : self._at + 1] in {"", " ", "\t", "\n", "|"}:
            raise UnparsableCommand("${ is followed by no name")
        with self._deeper():
            while not self._text.startswith("}", self._at):
                if self._at >= len(self._text):
                    raise UnparsableCommand("${ is not closed")
                if match := _PLAIN_PARAMETER.match(self._text, self._at):
                    self._at = match.end()
                else:
                    self._parameter_sign(self._text[self._at], quoted=quoted)
        self._at += 1
        if self._text.endswith("@P}", start, self._at):
            raise UnparsableCommand("${…@P} runs what a variable holds")
        return self._text[start : self._at], True

    def _parameter_sign(self, sign: str, *, quoted: bool) -> None:
        if sign in "<>":
            if self._at_process():
                raise UnparsableCommand("a process substitution stands in ${…}")
            self._at += 1
        elif sign == "'" and quoted:
            raise UnparsableCommand("a single quote stands in a quoted ${…}")
        elif sign == "$":
            self._dollar(quoted=quoted)
        else:
            self._special(sign)

    def _arithmetic(self) -> None:
        """Read up to the closing `))`; parentheses that are nested subshells instead are refused."""
        opened = 0
        with self._apart():
            while self._at < len(self._text):
                if match := _PLAIN_ARITHMETIC.match(self._text, self._at):
                    self._at = match.end()
                    continue
                sign = self._text[self._at]
                if sign == "'":
                    raise UnparsableCommand("a single quote stands in ((…))")
                if sign not in "()":
                    self._dollar(quoted=True) if sign == "$" else self._special(sign)
                    continue
                self._at += 1
                if sign == ")" and not opened:
                    if not self._text.startswith(")", self._at):
                        raise UnparsableCommand("(( opens two subshells; put a space between the parentheses")
                    self._at += 1
                    return
                opened += 1 if sign == "(" else -1
        raise UnparsableCommand("(( is not closed")

    def _array(self) -> tuple[str, bool]:
        start = self._at
        self._at += 1
        with self._apart():
            self._skip_lines()
            while not self._text.startswith(")", self._at):
                self._required_word("the end of an array")
                self._skip_lines()
            self._at += 1
        return self._text[start : self._at], True

    # ── redirects ──

    def _redirect(self, draft: _Draft) -> bool:
        """Read one redirect if there is one here."""
        self._blanks()
        if self._text[self._at : self._at + 1] not in _REDIRECT_STARTS:
            return False
        match = _REDIRECT.match(self._text, self._at)
        if not match:
            return False
        operator = match[1] or match[2]
        self._at = match.end()
        self._blanks()
        target = self._required_word(f"what {operator} refers to")
        if operator in {"<<", "<<-"}:
            if target.unknown and not target.quoted and not _is_pattern(target.text):
                raise UnparsableCommand("the end of a heredoc is not a plain word")
            self._heredocs.append(_Heredoc(draft.redirects, len(draft.redirects), target.text, target.quoted))
        draft.redirects.append(Redirect(operator, target.text, target.unknown))
        return True

    def _heredoc_body(self, heredoc: _Heredoc) -> None:
        redirect = heredoc.redirects[heredoc.place]
        lines: list[str] = []
        for line in self._logical_lines(joined=not heredoc.literal):
            text = line.lstrip("\t") if redirect.operator == "<<-" else line
            if text == heredoc.delimiter:
                break
            lines.append(text + "\n")
        else:
            raise UnparsableCommand("a heredoc has no end")
        body = "".join(lines)
        unknown = False
        if not heredoc.literal:
            unknown = _Reader(body, depth=self._depth + 1, drafts=self._drafts).read_heredoc_body()
        heredoc.redirects[heredoc.place] = replace(redirect, target=body, unknown=unknown)

    def _logical_lines(self, *, joined: bool) -> Iterator[str]:
        parts: list[str] = []
        while self._at < len(self._text):
            end = self._text.find("\n", self._at)
            end = len(self._text) if end < 0 else end
            part = self._text[self._at : end]
            self._at = min(end + 1, len(self._text))
            if joined and (len(part) - len(part.rstrip("\\"))) % 2:
                parts.append(part[:-1])
                continue
            yield "".join([*parts, part])
            parts.clear()

    # ── small steps ──

    def _blanks(self) -> None:
        if self._text.startswith((" ", "\t", "\\\n"), self._at) and (match := _BLANKS.match(self._text, self._at)):
            self._at = match.end()

    def _skip_comment(self) -> None:
        if self._text.startswith("#", self._at) and (match := _COMMENT.match(self._text, self._at)):
            self._at = match.end()

    def _skip_lines(self) -> None:
        """Skip blanks, comments and newlines; behind a newline stand the bodies of the line's heredocs."""
        while True:
            self._blanks()
            self._skip_comment()
            if not self._text.startswith("\n", self._at):
                return
            self._at += 1
            waiting, self._heredocs = self._heredocs, []
            for heredoc in waiting:
                self._heredoc_body(heredoc)

    def _skip_newlines_only(self) -> None:
        self._blanks()
        while self._text.startswith("\n", self._at):
            self._at += 1
            self._blanks()

    def _keyword(self) -> str:
        if self._text[self._at : self._at + 1] not in _FIRST_LETTERS:
            return ""
        match = _KEYWORD.match(self._text, self._at)
        return match[0] if match else ""

    def _at_process(self) -> bool:
        return self._text.startswith("(", self._at + 1)

    def _take(self, sign: str) -> None:
        self._blanks()
        found = self._keyword() if sign in _RESERVED else self._text[self._at : self._at + len(sign)]
        if found != sign:
            raise UnparsableCommand(f"{sign!r} is missing")
        self._at += len(sign)

    def _required_word(self, what: str) -> _Word:
        if self._at >= len(self._text) or (self._text[self._at] in " \t\n;&|()<>" and not self._at_process()):
            raise UnparsableCommand(f"{what} is missing")
        if self._text[self._at] == "#":
            raise UnparsableCommand(f"a comment stands where {what} should")
        return self._word()

    def _bare_name(self, what: str) -> None:
        match = _IDENTIFIER.fullmatch(self._required_word(f"the variable of {what}").text)
        if not match:
            raise UnparsableCommand(f"the variable of {what} is not a name")

    def _unexpected(self) -> UnparsableCommand:
        found = self._text[self._at : self._at + 1]
        return UnparsableCommand(f"{found!r} is unexpected" if found else "it ends too early")

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        if self._depth >= MAX_NESTING:
            raise UnparsableCommand(f"it is nested deeper than {MAX_NESTING} levels")
        self._depth += 1
        yield
        self._depth -= 1

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Read something whose heredocs are its own; shells differ on what happens when they are not."""
        start, waiting = self._at, self._heredocs
        self._heredocs = []
        with self._deeper():
            yield
        if self._heredocs or (waiting and "\n" in self._text[start : self._at]):
            raise UnparsableCommand("a heredoc and a substitution overlap")
        self._heredocs = waiting


def _assigns(word: _Word) -> re.Match[str] | None:
    match = _ASSIGNMENT.match(word.text)
    if match and word.plain > match.end("name") and (match["index"] or word.plain >= match.end()):
        return match
    return None


def _is_pattern(word: str) -> bool:
    """Tell whether unquoted signs in a word make bash replace it: a glob, braces or a home folder."""
    if word in {"[", "[["}:
        return False
    braces = "{" in word and ("," in word or ".." in word)
    return braces or word.startswith("~") or any(sign in word for sign in "*?[")


def _ansi_character(match: re.Match[str]) -> str:
    two, four, eight, octal, control, letter = match.groups()
    if digits := two or four or eight:
        code = int(digits, 16)
        if code > 0x10FFFF:
            raise UnparsableCommand("a $' quote contains an impossible character")
        return chr(code)
    if octal:
        return chr(int(octal, 8) & 0xFF)
    if control:
        return chr(ord(control) & 0x1F)
    return _ANSI_LETTERS.get(letter, letter if letter in "\\'\"?" else "\\" + letter)


# ── seeing through wrappers ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wrapper:
    """A program whose arguments are options, some operands, and then another command."""

    valued: frozenset[str] = frozenset()
    """Options whose value is the next word."""
    operands: int = 0
    """Words of its own between the options and the command."""
    under: str = ""
    """Its subcommand that starts the command, as in `uv run`."""
    queries: frozenset[str] = frozenset()
    """Options with which it starts nothing."""
    opaque: frozenset[str] = frozenset()
    """Options that hold a command in a form of their own."""
    keeps_status: bool = True
    """Its success is that of the command."""

    def __call__(self, invocation: Invocation) -> tuple[Invocation, ...]:
        start = self._start(invocation)
        if start is None:
            return _only_at_run_time(f"the command that {invocation.name} starts")
        words = invocation.words[start:]
        if not words:
            return ()
        unknown = frozenset(n - start for n in invocation.unknown if n >= start)
        return (Invocation(words=words, unknown=unknown, nested=not self.keeps_status),)

    def _start(self, invocation: Invocation) -> int | None:
        """Find the command's first word: the number of words if there is none, None if that cannot be known."""
        words, unknown = invocation.words, invocation.unknown
        own = [self.under] if self.under else [""] * self.operands
        at = 1
        while at < len(words):
            word = words[at]
            if word in self.queries:
                return len(words)
            if _ASSIGNMENT.match(word):
                at += 1
            elif word.startswith("-"):
                if self._is_opaque(word) or at in unknown or (word in self.valued and at + 1 in unknown):
                    return None
                at += 2 if word in self.valued else 1
            elif own:
                if at in unknown:
                    return None
                if own.pop() not in {"", word}:
                    return len(words)
                at += 1
            else:
                break
        return at

    def _is_opaque(self, word: str) -> bool:
        return any(word.startswith(o) if o.startswith("--") else o[1] in word.partition("=")[0] for o in self.opaque)


def _options(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _only_at_run_time(what: str) -> tuple[Invocation, ...]:
    return (Invocation(words=(what,), unknown=frozenset({0}), nested=True),)


_XARGS = _Wrapper(
    valued=_options("-a -d -E -I -L -n -P -s --arg-file --delimiter --max-lines --max-args --max-procs --max-chars"),
    keeps_status=False,
)


def _xargs(invocation: Invocation) -> tuple[Invocation, ...]:
    """`xargs`: what it reads is added at the end, or stands for the mark of `-I`."""
    marks = {"{}"}
    for option, value in zip(invocation.words, invocation.words[1:], strict=False):
        if option.startswith(("-I", "--replace=")):
            marks.add(value if option == "-I" else option.removeprefix("-I").removeprefix("--replace="))
    return tuple(_with_input(inner, marks - {""}, added=True) for inner in _XARGS(invocation))


def _find(invocation: Invocation) -> tuple[Invocation, ...]:
    """`find … -exec x … ;`, once for each."""
    found: list[Invocation] = []
    start: int | None = None
    for at, word in enumerate(invocation.words):
        if start is None and word in {"-exec", "-execdir", "-ok", "-okdir"}:
            start = at + 1
        elif start is not None and (word == ";" or (word == "+" and invocation.words[at - 1] == "{}")):
            unknown = frozenset(n - start for n in invocation.unknown if start <= n < at)
            inner = Invocation(words=invocation.words[start:at], unknown=unknown, nested=True)
            found.append(_with_input(inner, {"{}"}, added=False))
            start = None
    return tuple(found)


def _with_input(inner: Invocation, marks: set[str], *, added: bool) -> Invocation:
    marked = {n for n, word in enumerate(inner.words) if any(mark in word for mark in marks)}
    if added:
        return replace(inner, words=(*inner.words, "{}"), unknown=inner.unknown | marked | {len(inner.words)})
    return replace(inner, unknown=inner.unknown | marked)


def _shell(invocation: Invocation) -> tuple[Invocation, ...]:
    """`bash -c …`, or a shell that reads commands from its input. A script file is not opened."""
    words = invocation.words
    at, takes_text, takes_input, ended = 1, False, False, False
    while at < len(words) and not ended and words[at][:1] in {"-", "+"}:
        option = words[at]
        if at in invocation.unknown:
            return _only_at_run_time(f"what {invocation.name} runs")
        if option in {"--version", "--help"}:
            return ()
        ended = option in {"-", "--"}
        short = "" if option.startswith("--") else option[1:]
        takes_text = takes_text or "c" in short
        takes_input = takes_input or "s" in short
        at += 1 + short.count("o") + short.count("O") + (option in {"--rcfile", "--init-file"})
    if takes_text:
        if at >= len(words) or at in invocation.unknown:
            return _only_at_run_time(f"what {invocation.name} -c runs")
        return parse_command(words[at])
    if at < len(words) and not takes_input and not words[at].startswith(("<(", "/dev/")):
        return ()
    for redirect in reversed(invocation.redirects):
        if redirect.operator in {"<<", "<<-", "<<<"} and not redirect.unknown:
            return parse_command(redirect.target)
        if redirect.operator == "<" and not redirect.unknown and not redirect.target.startswith("/dev/"):
            return ()
    return _only_at_run_time(f"what {invocation.name} reads and runs")


def _sourced(invocation: Invocation) -> tuple[Invocation, ...]:
    return _shell(invocation) if invocation.words[1:2] and invocation.words[1].startswith(("<(", "/dev/")) else ()


def _eval(invocation: Invocation) -> tuple[Invocation, ...]:
    if invocation.unknown:
        return _only_at_run_time("what eval runs")
    return parse_command(" ".join(invocation.words[1:]))


def _trap(invocation: Invocation) -> tuple[Invocation, ...]:
    handler = next((n for n, word in enumerate(invocation.words) if n and word != "--"), 0)
    if handler in invocation.unknown:
        return _only_at_run_time("what trap runs")
    text = invocation.words[handler] if handler else "-"
    if text.startswith("-") or len(invocation.words) <= handler + 1:
        return ()
    return tuple(replace(inner, nested=True) for inner in parse_command(text))


def _alias(invocation: Invocation) -> tuple[Invocation, ...]:
    if invocation.unknown:
        return _only_at_run_time("what an alias runs")
    texts = (word.partition("=")[2] for word in invocation.words[1:])
    return tuple(replace(inner, nested=True) for text in texts for inner in parse_command(text))


_RUN_VALUED = _options(
    "-p --python --with --with-editable --with-requirements --extra --group --only-group --project --directory "
    "--env-file --package -P -C --index --default-index -i --index-url --from"
)


def _python_project(wrapper: _Wrapper) -> Callable[[Invocation], tuple[Invocation, ...]]:
    """`uv run x`, where `x` may also be a Python file."""

    def see_through(invocation: Invocation) -> tuple[Invocation, ...]:
        return tuple(
            replace(inner, words=("python", *inner.words), unknown=frozenset(n + 1 for n in inner.unknown))
            if inner.program.endswith(".py")
            else inner
            for inner in wrapper(invocation)
        )

    return see_through


_SEE_THROUGH: dict[str, Callable[[Invocation], tuple[Invocation, ...]]] = {
    "env": _Wrapper(valued=_options("-u --unset -C --chdir"), opaque=_options("-S --split-string")),
    "nice": _Wrapper(valued=_options("-n --adjustment")),
    "ionice": _Wrapper(valued=_options("-c --class -n --classdata")),
    "nohup": _Wrapper(),
    "timeout": _Wrapper(valued=_options("-k --kill-after -s --signal"), operands=1),
    "time": _Wrapper(valued=_options("-f --format -o --output")),
    "stdbuf": _Wrapper(valued=_options("-i --input -o --output -e --error")),
    "setsid": _Wrapper(keeps_status=False),
    "command": _Wrapper(queries=_options("-v -V")),
    "builtin": _Wrapper(),
    "exec": _Wrapper(valued=_options("-a")),
    "uv": _python_project(_Wrapper(under="run", valued=_RUN_VALUED)),
    "poetry": _python_project(_Wrapper(under="run", valued=_RUN_VALUED)),
    "pipenv": _python_project(_Wrapper(under="run")),
    "uvx": _Wrapper(valued=_RUN_VALUED),
    "npx": _Wrapper(valued=_options("-p --package -w --workspace"), opaque=_options("-c --call")),
    "xargs": _xargs,
    "find": _find,
    "bash": _shell,
    "sh": _shell,
    "dash": _shell,
    "eval": _eval,
    "trap": _trap,
    "alias": _alias,
    "source": _sourced,
    ".": _sourced,
}
