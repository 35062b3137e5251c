"""Reads texts with `{{ values }}`, `{% blocks %}` and `{# comments #}` in them, and fills them in."""

import re
from collections.abc import Sequence
from dataclasses import field
from typing import Any, NamedTuple, Protocol

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.definitions.expressions.cursor import Cursor
from agent_fabric.domain.definitions.expressions.errors import (
    ExpressionError,
    did_you_mean,
    kind_of,
    shorten,
    unreadable,
)
from agent_fabric.domain.definitions.expressions.lexer import Tokens, tokens
from agent_fabric.domain.definitions.expressions.limits import (
    MAX_CHARS,
    MAX_DEPTH,
    MAX_TEMPLATE_CHARS,
    MAX_TEMPLATE_TOKENS,
    Evaluation,
)
from agent_fabric.domain.definitions.expressions.list_filters import items_of
from agent_fabric.domain.definitions.expressions.nodes import Conditional, Expression, Literal
from agent_fabric.domain.definitions.expressions.operators import text_of, truth
from agent_fabric.domain.definitions.expressions.parser import SECRETS, Parser


class Output:
    """The text that is being made."""

    __slots__ = ("at", "chars", "texts")

    def __init__(self, at: Evaluation) -> None:
        self.at = at
        self.chars = 0
        self.texts: list[str] = []

    def add(self, text: str) -> None:
        """Append a text, if there is still room for it."""
        self.chars += len(text)
        if self.chars > MAX_CHARS:
            self.at.make(self.chars)
        self.at.work_on(len(text))
        self.texts.append(text)


class Piece(Protocol):
    """A piece of a template."""

    def write(self, output: Output) -> None:
        """Append what it stands for."""
        ...


class Text(NamedTuple):
    """What stands between the braces; it stays as it is."""

    text: str

    def write(self, output: Output) -> None:
        output.add(self.text)


class Value(NamedTuple):
    """`{{ expression }}`."""

    expression: Expression

    def write(self, output: Output) -> None:
        output.add(text_of(output.at, self.expression.value(output.at)))


class If(NamedTuple):
    """`{% if %}` … `{% elif %}` … `{% else %}` … `{% endif %}`."""

    branches: tuple[tuple[Expression, tuple[Piece, ...]], ...]
    otherwise: tuple[Piece, ...]

    def write(self, output: Output) -> None:
        for condition, body in self.branches:
            if truth(condition.value(output.at)):
                write_all(body, output)
                return
        write_all(self.otherwise, output)


class For(NamedTuple):
    """`{% for name in list %}` … `{% else %}` … `{% endfor %}`."""

    names: tuple[str, ...]
    items: Expression
    body: tuple[Piece, ...]
    otherwise: tuple[Piece, ...]

    def write(self, output: Output) -> None:
        at = output.at
        items = items_of(at, self.items.value(at))
        if not items:
            write_all(self.otherwise, output)
            return
        before = at.local
        for place, item in enumerate(items):
            at.spend(1)
            at.local = {**before, **self._bind(item), "loop": _loop(place, len(items))}
            write_all(self.body, output)
        at.local = before

    def _bind(self, item: Any) -> dict[str, Any]:
        if len(self.names) == 1:
            return {self.names[0]: item}
        if not isinstance(item, list | tuple) or len(item) != len(self.names):
            raise ExpressionError(
                f"each item must be a list of {len(self.names)} for {', '.join(self.names)}, not {kind_of(item)}",
                hint="Write | items to go through keys and values of a mapping.",
            )
        return dict(zip(self.names, item, strict=True))


class Template(NamedTuple):
    """A text that was read."""

    pieces: tuple[Piece, ...]

    @property
    def only(self) -> Expression | None:
        """The expression that is all there is, if so."""
        if len(self.pieces) == 1 and isinstance(self.pieces[0], Value):
            return self.pieces[0].expression
        return None

    def text(self, at: Evaluation) -> str:
        """Return the text with everything filled in."""
        output = Output(at)
        write_all(self.pieces, output)
        return "".join(output.texts)


def write_all(pieces: Sequence[Piece], output: Output) -> None:
    """Append all pieces."""
    for piece in pieces:
        piece.write(output)


def _loop(place: int, count: int) -> dict[str, Any]:
    return {
        "index": place + 1,
        "index0": place,
        "first": place == 0,
        "last": place == count - 1,
        "length": count,
    }


# Reads a template: finds the braces in a text and puts the blocks together.
_OPENING = re.compile(r"\{\{|\{%|(?<!\$)\{#")
"""Not `${#`: that is the shell's."""
_RAW = re.compile(r"\{%(-?)\s*raw\s*(-?)%\}")
_END_RAW = re.compile(r"\{%(-?)\s*endraw\s*(-?)%\}")
_WORD = re.compile(r"\{%-?\s*(\w{0,40})")
_WORDS = ("if", "elif", "else", "endif", "for", "endfor", "raw", "endraw")


@dataclass(slots=True)
class _Open:
    """A block that is not closed yet."""

    word: str
    at: int
    names: tuple[str, ...] = ()
    heads: list[Expression] = field(default_factory=list)
    bodies: list[list[Piece]] = field(default_factory=lambda: [[]])
    has_else: bool = False

    def close(self) -> Piece:
        bodies = [tuple(body) for body in self.bodies]
        otherwise = bodies.pop() if self.has_else else ()
        if self.word == "for":
            return For(self.names, self.heads[0], bodies[0], otherwise)
        return If(tuple(zip(self.heads, bodies, strict=True)), otherwise)


class TemplateReader:
    """Reads one text from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._trim = False
        self._tokens = 0
        self._root: list[Piece] = []
        self._open: list[_Open] = []

    def read(self) -> Template:
        """Return the template.

        Raises:
            ExpressionError: it cannot be read; the message says where and why.
        """
        text, at = self._text, 0
        if len(text) > MAX_TEMPLATE_CHARS:
            raise unreadable(text, 0, f"the text has more than {MAX_TEMPLATE_CHARS:,} characters")
        while found := _OPENING.search(text, at):
            opening = found.start()
            inside = opening + 2
            trims = text.startswith("-", inside)
            self._add_text(text[at:opening], trims_end=trims)
            at = self._braces(text[opening:inside], opening, inside + trims)
        self._add_text(text[at:], trims_end=False)
        if self._open:
            left = self._open[-1]
            raise unreadable(
                text, left.at, f"{{% {left.word} %}} is never closed", f"Write {{% end{left.word} %}} behind it."
            )
        return Template(tuple(self._root))

    @property
    def _body(self) -> list[Piece]:
        return self._open[-1].bodies[-1] if self._open else self._root

    def _add_text(self, text: str, *, trims_end: bool) -> None:
        if self._trim:
            text = text.lstrip()
        if trims_end:
            text = text.rstrip()
        self._trim = False
        if text:
            self._body.append(Text(text))

    def _braces(self, braces: str, opening: int, start: int) -> int:
        if braces == "{#":
            end = self._text.find("#}", start)
            if end < 0:
                raise unreadable(self._text, opening, "'{#' is never closed", "Write #} behind the comment.")
            self._trim = self._text[end - 1] == "-" and end > start
            return end + 2
        if braces == "{{":
            read = self._read(start, "}}")
            cursor = Cursor(self._text, read.parts)
            self._body.append(Value(Parser(cursor).expression()))
            cursor.end()
            self._trim = read.trimmed
            return read.end
        raw = _RAW.match(self._text, opening)
        if raw:
            return self._raw(raw)
        self._check_word(opening)
        read = self._read(start, "%}")
        self._block(read, opening)
        self._trim = read.trimmed
        return read.end

    def _read(self, start: int, closing: str) -> Tokens:
        read = tokens(self._text, start, closing)
        self._tokens += len(read.parts)
        if self._tokens > MAX_TEMPLATE_TOKENS:
            raise unreadable(self._text, start, f"the text has more than {MAX_TEMPLATE_TOKENS:,} tokens in braces")
        return read

    def _raw(self, raw: re.Match[str]) -> int:
        end = _END_RAW.search(self._text, raw.end())
        if end is None:
            raise unreadable(self._text, raw.start(), "{% raw %} is never closed", "Write {% endraw %} behind it.")
        self._trim = raw.group(2) == "-"
        self._add_text(self._text[raw.end() : end.start()], trims_end=end.group(1) == "-")
        self._trim = end.group(2) == "-"
        return end.end()

    def _block(self, read: Tokens, opening: int) -> None:
        cursor = Cursor(self._text, read.parts)
        word = str(cursor.take().value)
        match word:
            case "if":
                self._begin(_Open("if", opening, heads=[Parser(cursor).expression()]))
            case "for":
                names = self._names(cursor)
                self._begin(_Open("for", opening, names, [self._items(cursor)]))
            case "elif" | "else" if not self._open or self._open[-1].has_else:
                raise unreadable(self._text, opening, f"{{% {word} %}} belongs to no {{% if %}}")
            case "elif" if self._open[-1].word == "if":
                self._open[-1].heads.append(Parser(cursor).expression())
                self._open[-1].bodies.append([])
            case "else":
                self._open[-1].has_else = True
                self._open[-1].bodies.append([])
            case "endif" | "endfor" if self._open and word == f"end{self._open[-1].word}":
                piece = self._open.pop().close()
                self._body.append(piece)
            case _:
                still = f": {{% {self._open[-1].word} %}} is still open" if self._open else ": nothing is open"
                raise unreadable(self._text, opening, f"{{% {word} %}} does not fit here{still}")
        cursor.end()

    def _names(self, cursor: Cursor) -> tuple[str, ...]:
        names = [cursor.name("a name for each item")]
        while cursor.symbol(","):
            names.append(cursor.name("a name for each item"))
        for name in names:
            if name in (SECRETS, "loop"):
                raise unreadable(self._text, cursor.now.at, f"'{name}' has a meaning of its own", "Take another name.")
        if not cursor.keyword("in"):
            raise cursor.wrong(cursor.now, "'in' is expected here", "Write {% for item in list %}.")
        return tuple(names)

    def _begin(self, block: _Open) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise unreadable(self._text, block.at, f"blocks nest deeper than {MAX_DEPTH} levels")
        self._open.append(block)

    def _items(self, cursor: Cursor) -> Expression:
        start = cursor.now
        items = Parser(cursor).expression()
        root = items.root
        if isinstance(root, Conditional) and isinstance(root.otherwise, Literal) and root.otherwise.literal is None:
            raise cursor.wrong(start, "a loop has no 'if'", "Choose items with | select or | selectattr('FIELD').")
        return items

    def _check_word(self, opening: int) -> None:
        # Before the rest is looked at: what is wrong with it matters only if the block exists.
        found = _WORD.match(self._text, opening)
        word = found.group(1) if found else ""
        if word not in _WORDS:
            meant = did_you_mean(word, _WORDS) or "there are: if, for, raw"
            raise unreadable(self._text, opening, f"there is no block '{shorten(word)}'; {meant}")
