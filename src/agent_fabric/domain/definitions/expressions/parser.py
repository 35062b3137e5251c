"""Reads an expression: from tokens to nodes, by the rank of the operators."""

from collections.abc import Callable

from agent_fabric.domain.definitions.expressions.cursor import Cursor
from agent_fabric.domain.definitions.expressions.lexer import NAME, SYMBOL, tokens
from agent_fabric.domain.definitions.expressions.nodes import (
    AllOf,
    AnyOf,
    Arithmetic,
    Compared,
    Conditional,
    Expression,
    Joined,
    Literal,
    Negative,
    Node,
    Not,
)
from agent_fabric.domain.definitions.expressions.operands import Operands

_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})


class Parser:
    """Reads expressions at a cursor."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._operands = Operands(cursor, self._expression)

    def expression(self) -> Expression:
        """Read one expression; what follows it stays."""
        self._cursor.cost = 0
        root = self._expression()
        return Expression(root, self._cursor.cost)

    def _expression(self) -> Node:
        return self._cursor.deeper(self._choice)

    def _choice(self) -> Node:
        node = self._any_of()
        if not self._cursor.keyword("if"):
            return node
        condition = self._any_of()
        return Conditional(condition, node, self._expression() if self._cursor.keyword("else") else Literal(None))

    def _any_of(self) -> Node:
        parts = self._with_word("or", self._all_of)
        return parts[0] if len(parts) == 1 else AnyOf(parts)

    def _all_of(self) -> Node:
        parts = self._with_word("and", self._not)
        return parts[0] if len(parts) == 1 else AllOf(parts)

    def _with_word(self, word: str, read: Callable[[], Node]) -> tuple[Node, ...]:
        parts = [read()]
        while self._cursor.keyword(word):
            parts.append(read())
        return tuple(parts)

    def _not(self) -> Node:
        if self._cursor.keyword("not"):
            return Not(self._cursor.deeper(self._not))
        return self._comparison()

    def _comparison(self) -> Node:
        first = self._concatenation()
        rest = []
        while symbol := self._comparing():
            rest.append((symbol, self._concatenation()))
        return Compared(first, tuple(rest)) if rest else first

    def _comparing(self) -> str:
        cursor = self._cursor
        if cursor.now.kind == SYMBOL and cursor.now.value in _COMPARISONS:
            return str(cursor.take().value)
        if cursor.keyword("in"):
            return "in"
        if cursor.after.kind == NAME and cursor.after.value == "in" and cursor.keyword("not"):
            cursor.take()
            return "not in"
        return ""

    def _concatenation(self) -> Node:
        parts = [self._sum()]
        while self._cursor.symbol("~"):
            parts.append(self._sum())
        return Joined(tuple(parts)) if len(parts) > 1 else parts[0]

    def _sum(self) -> Node:
        return self._arithmetic(self._product, "+", "-")

    def _product(self) -> Node:
        return self._arithmetic(self._sign, "*", "/", "//", "%")

    def _arithmetic(self, read: Callable[[], Node], *symbols: str) -> Node:
        first = read()
        rest = []
        while self._cursor.sees(*symbols):
            symbol = str(self._cursor.take().value)
            rest.append((symbol, read()))
        return Arithmetic(first, tuple(rest)) if rest else first

    def _sign(self) -> Node:
        # `-1 | abs` is 1: a filter takes the sign with it.
        if self._cursor.symbol("-"):
            return self._operands.followed(Negative(self._cursor.deeper(self._bare_operand)))
        return self._power(self._operands.followed(self._operands.plain()), self._sign)

    def _bare_operand(self) -> Node:
        if self._cursor.symbol("-"):
            return Negative(self._cursor.deeper(self._bare_operand))
        return self._power(self._operands.plain(), self._bare_operand)

    def _power(self, base: Node, exponent: Callable[[], Node]) -> Node:
        if not self._cursor.symbol("**"):
            return base
        return Arithmetic(base, (("**", self._cursor.deeper(exponent)),))


def parse(text: str) -> Expression:
    """Read a bare expression, without the braces around it.

    Raises:
        ExpressionError: it cannot be read; the message says where and why.
    """
    cursor = Cursor(text, tokens(text).parts)
    expression = Parser(cursor).expression()
    cursor.end()
    return expression
