"""A bash command line, understood well enough to name every program in it.

The reader follows bash's grammar, not its run time: what a variable holds or a glob finds is not known here, and such
words are marked. Whatever is unusual enough that bash's reading of it is in doubt is refused, never guessed.
"""

import re
from collections.abc import Iterator
from dataclasses import field, replace
from functools import partial

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.policy.command_lines.invocation import (
    Connector,
    Invocation,
    Redirect,
    UnfinishedCommand,
    UnparsableCommand,
)
from agent_fabric.domain.policy.command_lines.source import CLOSERS, OPENERS, RESERVED, Source
from agent_fabric.domain.policy.command_lines.words import (
    Word,
    expands,
    holds_code,
    is_pattern,
    read_arithmetic,
    read_word,
    required_word,
)


@dataclass(slots=True)
class Draft:
    """An invocation that may still change: a heredoc's body comes long after its redirect."""

    nested: bool
    words: list[str] = field(default_factory=list)
    unknown: set[int] = field(default_factory=set)
    splits: set[int] = field(default_factory=set)
    assignments: list[tuple[str, str]] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)
    connector: Connector = Connector.END
    defines: str = ""

    @property
    def empty(self) -> bool:
        return not (self.words or self.assignments or self.redirects)

    @property
    def only_a_name(self) -> bool:
        """It is one plain word: parentheses behind it make it the name of a function."""
        return len(self.words) == 1 and not (self.assignments or self.redirects or self.unknown)

    def invocation(self) -> Invocation:
        return Invocation(
            words=tuple(self.words),
            unknown=frozenset(self.unknown),
            splits=frozenset(self.splits),
            assignments=tuple(self.assignments),
            redirects=tuple(self.redirects),
            connector=self.connector,
            defines=self.defines,
            nested=self.nested,
        )


_FORGETFUL = frozenset({"unset", "eval", "source", ".", "trap", "alias", "enable", "exec"})
"""Builtins that can take a function away, or run text that does."""


_NAMED = frozenset({"let", "mapfile", "read", "readarray", "unset"})
_DECLARED = frozenset({"declare", "local", "typeset", "export", "readonly"})


def _works_out(draft: Draft) -> bool:
    words = draft.words
    if words[0] in {"test", "[", "printf", "wait"}:
        return bool({"-v", "-p"} & set(words))
    if words[0] in _DECLARED:
        return bool(draft.unknown) or any(word.startswith("-") and {"i", "n"} & set(word) for word in words)
    return words[0] in _NAMED


@dataclass(frozen=True, slots=True)
class Drafts:
    """All that was read of one text, with what stands in its substitutions and heredocs, in source order."""

    found: list[Draft] = field(default_factory=list)
    functions: dict[str, int] = field(default_factory=dict)
    """Every function that is surely defined, and how many drafts were there before it."""

    def work_out_names(self) -> bool:
        """Tell whether a builtin is given a name or a number to work out that is only known at run time."""
        return any(draft.words and _works_out(draft) for draft in self.found)

    def read_input(self) -> bool:
        """Tell whether a builtin puts what it reads into variables."""
        return any(draft.words[0] in {"read", "mapfile", "readarray"} for draft in self.found if draft.words)

    def invocations(self) -> tuple[Invocation, ...]:
        if self.functions:
            self._drop_calls_of_functions()
        return tuple(draft.invocation() for draft in self.found)

    def _drop_calls_of_functions(self) -> None:
        if any(0 in draft.unknown or not _FORGETFUL.isdisjoint(draft.words) for draft in self.found):
            # A function may be gone by the time it is called.
            return
        # A function counts from its definition on: before it, the same name is still a program.
        known_from = self.functions
        for place, draft in enumerate(self.found):
            if draft.words and 0 not in draft.unknown and known_from.get(draft.words[0], place + 1) <= place:
                draft.words.clear()
                draft.unknown.clear()
                draft.splits.clear()


MAX_COMMAND_BYTES = 100_000
"""Longer command lines are refused unread."""

_CONNECTOR = re.compile(r"&&|\|\||\|&|\||;(?![;&])|&")
_CONNECTORS = {connector.value: connector for connector in Connector} | {"|&": Connector.PIPE}
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NEVER_PROGRAMS = RESERVED - {"time"}
_WORKS_OUT = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v"})
"""What in `[[ … ]]` reads its operands as arithmetic, or as a name with an index."""
_END_OF_CONDITION = Word("]]", 2, unknown=False, quoted=False)


def breaks_off(command: str) -> str:
    """Return where a command line breaks off, so that it can only be a mistake; empty: it does not."""
    try:
        parse_command(command)
    except UnfinishedCommand as problem:
        return str(problem)
    except UnparsableCommand:
        return ""  # it may well mean something
    return ""


def parse_command(text: str) -> tuple[Invocation, ...]:
    """Return every simple command in the text, in source order.

    Raises:
        UnparsableCommand: the text is too long, too deep, not bash, or bash too unusual to be sure about.
    """
    if len(text) > MAX_COMMAND_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_COMMAND_BYTES:
        raise UnparsableCommand(f"it is longer than {MAX_COMMAND_BYTES} bytes")
    if "\0" in text:
        raise UnparsableCommand("it contains a NUL character")
    drafts = Drafts()
    source = Source(text, lambda inner: _CommandReader(inner, drafts).read_list())
    source.read_all()
    seen = source.seen
    if (seen.code and (seen.arithmetic or drafts.work_out_names())) or (seen.body and drafts.read_input()):
        raise UnparsableCommand("it works something out, and holds text that could be run by that")
    return drafts.invocations()


class _CommandReader:
    """Reads commands in a source, down to their words, and adds a draft for each."""

    def __init__(self, source: Source, drafts: Drafts) -> None:
        self._source = source
        self._drafts = drafts

    # ── lists and commands ──

    def read_list(self, *closers: str) -> None:
        """Read commands up to one of the reserved words, a closing sign or the end."""
        source = self._source
        source.skip_lines()
        before = Connector.THEN
        while source.sign() not in {"", ")"} and not source.sees(";;", ";&"):
            keyword = source.keyword()
            if keyword in closers:
                break
            before = self._command(keyword, before)
            source.skip_lines()
        if before in {Connector.AND, Connector.OR, Connector.PIPE}:
            raise UnparsableCommand(f"a command is missing after {before.value}")

    def _command(self, keyword: str, before: Connector) -> Connector:
        """Read one command, which may start with a reserved word, with its redirects and its connector."""
        if keyword == "time" and before is not Connector.PIPE:
            return self._read_time()
        if keyword == "!":
            return self._read_negation()
        place = len(self._drafts.found)
        function = self._function() if keyword == "function" else ""
        if not function and not self._compound(keyword):
            draft = self._new_draft()
            self._drafts.found.append(draft)
            function = self._simple(draft)
            if not function:
                draft.connector = self._connector()
                return draft.connector
        connector = self._whole(function)
        if function and self._surely_runs(before, connector):
            self._drafts.functions.setdefault(function, place)
        return connector

    def _surely_runs(self, before: Connector, after: Connector) -> bool:
        """Tell whether a command between the two runs in this shell, whatever the others do."""
        return (
            not self._source.depth
            and before in {Connector.THEN, Connector.BACKGROUND}
            and after not in {Connector.BACKGROUND, Connector.PIPE}
        )

    def _whole(self, defines: str = "") -> Connector:
        """End a compound command: its redirects and connector."""
        draft = self._new_draft()
        draft.defines = defines
        while read_redirect(self._source, draft.redirects):
            pass
        self._drafts.found.append(draft)
        draft.connector = self._connector()
        return draft.connector

    def _new_draft(self) -> Draft:
        return Draft(nested=self._source.depth > 0)

    def _read_time(self) -> Connector:
        source = self._source
        source.take("time")
        source.skip_blanks()
        for option in ("-p", "--"):
            if source.sees(f"{option} ", f"{option}\t"):
                source.at += 2
                source.skip_blanks()
        if source.sign() in {"", ";", "\n", "&", "|", ")"}:
            return self._whole()
        return self._command(source.keyword(), Connector.THEN)

    def _read_negation(self) -> Connector:
        source = self._source
        source.take("!")
        connector, before = Connector.PIPE, Connector.THEN
        with source.deeper():
            while connector is Connector.PIPE:
                source.skip_lines()
                connector = self._command(source.keyword(), before)
                before = connector
        whole = self._new_draft()
        whole.connector = connector
        self._drafts.found.append(whole)
        return connector

    def _simple(self, draft: Draft) -> str:
        """Read words, assignments and redirects; if they turn out to define a function, read it and return its name."""
        source = self._source
        while True:
            if read_redirect(source, draft.redirects):
                continue
            sign = source.sign()
            if sign == "(" and draft.only_a_name:
                self._drafts.found.pop()
                self._parentheses()
                self._function_body()
                return draft.words[0]
            if not sign or sign in "\n;&|()#":
                break
            word = read_word(source)
            if source.sees("<", ">") and not word.quoted and STREAM.fullmatch(word.text):
                raise UnparsableCommand("a line ends between the number of a stream and its redirect")
            self._add_word(draft, word)
        if draft.empty:
            raise source.refusal()
        return ""

    def _add_word(self, draft: Draft, word: Word) -> None:
        if not draft.words:
            if match := word.assigns():
                if word.code:
                    raise UnparsableCommand(f"{match['name']} is given text that could be run later")
                draft.assignments.append((match["name"], word.text[match.end() :]))
                return
            if word.text in _NEVER_PROGRAMS and not word.quoted and draft.empty:
                raise UnparsableCommand(f"{word.text!r} stands where a command should")
        if word.unknown:
            draft.unknown.add(len(draft.words))
        if word.splits:
            draft.splits.add(len(draft.words))
        draft.words.append(word.text)

    def _connector(self) -> Connector:
        source = self._source
        source.skip_blanks()
        source.skip_comment()
        if source.sees("\n"):
            connector = Connector.THEN
        elif match := source.match(_CONNECTOR):
            connector = _CONNECTORS[match[0]]
        else:
            # A reserved word may follow a closing parenthesis directly: `if (a) then`.
            if source.sign() not in {"", ")", ";"} and source.keyword() not in CLOSERS:
                raise source.refusal()
            return Connector.END
        if connector is Connector.THEN:
            source.skip_lines()
            if source.sign() in {"", ")"} or source.keyword() in CLOSERS:
                return Connector.END
        return connector

    # ── compound commands ──

    def _compound(self, keyword: str) -> bool:
        """Read a compound command, without what follows it, if there is one here."""
        source = self._source
        if source.sees("("):
            self._read_parentheses()
            return True
        if keyword not in OPENERS:
            return False
        source.take(keyword)
        with source.deeper():
            match keyword:
                case "{":
                    self.read_list("}")
                    source.take("}")
                case "[[":
                    self._condition()
                case "if":
                    self._if()
                case "while" | "until":
                    self.read_list("do")
                    self._loop_body()
                case "case":
                    self._case()
                case _:
                    self._for()
        return True

    def _read_parentheses(self) -> None:
        source = self._source
        if source.skip("(("):
            read_arithmetic(source)
            return
        source.take("(")
        with source.deeper():
            self.read_list()
            source.take(")")

    def _if(self) -> None:
        source = self._source
        self._branch()
        while source.keyword() == "elif":
            source.take("elif")
            self._branch()
        if source.keyword() == "else":
            source.take("else")
            self.read_list("fi")
        source.take("fi")

    def _branch(self) -> None:
        self.read_list("then")
        self._source.take("then")
        self.read_list("elif", "else", "fi")

    def _for(self) -> None:
        source = self._source
        source.skip_blanks()
        if source.skip("(("):
            read_arithmetic(source)
        else:
            variable = required_word(source, "the variable of a loop")
            if not _IDENTIFIER.fullmatch(variable.text):
                raise UnparsableCommand("the variable of a loop is not a name")
            source.skip_lines()
            if source.keyword() == "in":
                source.take("in")
                self._words_of_loop()
        source.skip_blanks()
        source.skip(";")
        source.skip_lines()
        self._loop_body()

    def _words_of_loop(self) -> None:
        source = self._source
        while True:
            source.skip_blanks()
            source.skip_comment()
            if source.sign() in {"", ";", "\n"}:
                return
            required_word(source, "a loop's word")

    def _loop_body(self) -> None:
        self._source.take("do")
        self.read_list("done")
        self._source.take("done")

    def _case(self) -> None:
        source = self._source
        source.skip_blanks()
        required_word(source, "the word of a case")
        source.skip_lines()
        source.take("in")
        source.skip_lines()
        while source.keyword() != "esac":
            self._case_pattern()
            self.read_list("esac")
            if not any(source.skip(end) for end in (";;&", ";;", ";&")):
                break
            source.skip_lines()
        source.take("esac")

    def _case_pattern(self) -> None:
        source = self._source
        source.skip("(")
        while True:
            source.skip_blanks()
            required_word(source, "a pattern of a case")
            source.skip_blanks()
            if not source.skip("|"):
                break
        source.take(")")

    def _condition(self) -> None:
        """`[[ … ]]`: only its substitutions matter, and where it ends."""
        source = self._source
        with source.apart():
            while True:
                source.skip_newlines()
                sign = source.sign()
                if sign in {"(", ")", "&", "|"} or (sign in {"<", ">"} and not source.sees_process()):
                    source.at += 1
                    continue
                word = required_word(source, "]]")
                if word == _END_OF_CONDITION:
                    return
                source.seen.arithmetic = source.seen.arithmetic or word.text in _WORKS_OUT

    # ── functions ──

    def _function(self) -> str:
        """Read `function name { … }` and return the name."""
        source = self._source
        source.take("function")
        source.skip_blanks()
        word = required_word(source, "the name of a function")
        source.skip_blanks()
        if source.sees("("):
            self._parentheses()
        self._function_body()
        if word.unknown or not word.text:
            raise UnparsableCommand("the name of a function is not plain")
        return word.text

    def _parentheses(self) -> None:
        self._source.take("(")
        self._source.take(")")

    def _function_body(self) -> None:
        source = self._source
        source.skip_lines()
        with source.deeper():
            if not self._compound(source.keyword()):
                raise UnparsableCommand("the body of a function is missing")


# Redirects, and the bodies of heredocs.
STREAM = re.compile(r"[0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\}")
"""What a redirect is about: the number of a stream, or the variable that receives one."""

_REDIRECT = re.compile(rf"(?:{STREAM.pattern})?(<<<|<<-|<<|<>|<&|>>|>&|>\||[<>](?!\())|(&>>|&>)")
_STARTS = frozenset("<>&{0123456789")


def read_redirect(source: Source, redirects: list[Redirect]) -> bool:
    """Read one redirect, if there is one here, and append it; a heredoc's is completed at the end of the line."""
    source.skip_blanks()
    if source.sign() not in _STARTS:
        return False
    match = source.match(_REDIRECT)
    if not match:
        return False
    operator = match[1] or match[2]
    source.skip_blanks()
    target = required_word(source, f"what {operator} refers to")
    if operator in {"<<", "<<-"}:
        if target.unknown and not target.quoted and not is_pattern(target.text):
            raise UnparsableCommand("the end of a heredoc is not a plain word")
        source.bodies.append(partial(_read_body, source, redirects, len(redirects), target))
    redirects.append(Redirect(operator, target.text, target.unknown))
    return True


def _read_body(source: Source, redirects: list[Redirect], place: int, delimiter: Word) -> None:
    """Read a heredoc's body and make it the target of its redirect."""
    redirect, literal = redirects[place], delimiter.quoted
    lines: list[str] = []
    for line in _lines(source, joined=not literal):
        text = line.lstrip("\t") if redirect.operator == "<<-" else line
        if text == delimiter.text:
            break
        lines.append(text + "\n")
    else:
        raise UnparsableCommand("a heredoc has no end")
    body = "".join(lines)
    source.seen.body = source.seen.body or (literal and holds_code(body))
    unknown = not literal and expands(source.inside(body))
    redirects[place] = replace(redirect, target=body, unknown=unknown)


def _lines(source: Source, *, joined: bool) -> Iterator[str]:
    """Read line by line; `joined` also joins lines that a backslash ends."""
    parts: list[str] = []
    while source.at < len(source.text):
        end = source.text.find("\n", source.at)
        end = len(source.text) if end < 0 else end
        part = source.text[source.at : end]
        source.at = min(end + 1, len(source.text))
        if joined and (len(part) - len(part.rstrip("\\"))) % 2:
            parts.append(part[:-1])
        elif parts:
            yield "".join([*parts, part])
            parts.clear()
        else:
            yield part
