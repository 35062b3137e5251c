"""Reads texts with `{{ values }}`, `{% blocks %}` and `{# comments #}` in them, and fills them in."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from agent_fabric.domain.definitions.expressions.errors import ExpressionError, kind_of
from agent_fabric.domain.definitions.expressions.limits import MAX_CHARS, Evaluation
from agent_fabric.domain.definitions.expressions.list_filters import items_of
from agent_fabric.domain.definitions.expressions.nodes import Expression
from agent_fabric.domain.definitions.expressions.operators import text_of, truth


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
