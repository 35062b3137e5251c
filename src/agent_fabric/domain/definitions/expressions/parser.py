"""Reads an expression: from tokens to nodes, by the rank of the operators."""

from collections.abc import Callable

from agent_fabric.domain.definitions.expressions.chains import Filtered, Index, Node, Slice, Step, Tested
from agent_fabric.domain.definitions.expressions.cursor import CONSTANTS, KEYWORDS, Cursor, call_hint, in_place_of_value
from agent_fabric.domain.definitions.expressions.errors import did_you_mean, shorten
from agent_fabric.domain.definitions.expressions.filters import problem_with
from agent_fabric.domain.definitions.expressions.lexer import NAME, SYMBOL, VALUE, Token, tokens
from agent_fabric.domain.definitions.expressions.nodes import (
    AllOf,
    AnyOf,
    Arithmetic,
    Chain,
    Compared,
    Conditional,
    Expression,
    Joined,
    ListOf,
    Literal,
    MappingOf,
    Name,
    Negative,
    Not,
    Secret,
)
from agent_fabric.domain.definitions.expressions.value_tests import CHECKS

SECRETS = "secrets"
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})


class Parser:
    """Reads expressions at a cursor."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor

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
            return self._filters_and_tests(Negative(self._cursor.deeper(self._bare_operand)))
        return self._power(self._filters_and_tests(self._plain()), self._sign)

    def _bare_operand(self) -> Node:
        if self._cursor.symbol("-"):
            return Negative(self._cursor.deeper(self._bare_operand))
        return self._power(self._plain(), self._bare_operand)

    def _power(self, base: Node, exponent: Callable[[], Node]) -> Node:
        if not self._cursor.symbol("**"):
            return base
        return Arithmetic(base, (("**", self._cursor.deeper(exponent)),))

    def _plain(self) -> Node:
        """Read a value with its fields and indexes."""
        cursor = self._cursor
        subject = cursor.now
        base = self._primary()
        steps: list[Step] = []
        while True:
            cursor.cost += 1
            if cursor.symbol("."):
                steps.append(self._field())
            elif cursor.sees("["):
                steps.append(self._index())
            elif cursor.sees("(") and cursor.before is not None and cursor.before.kind == NAME:
                raise cursor.wrong(cursor.before, *call_hint(subject, cursor.before))
            else:
                break
        if isinstance(base, Name) and base.name == SECRETS:
            base, steps = self._secret(subject, steps), steps[1:]
        return _chain(base, steps)

    def _filters_and_tests(self, node: Node) -> Node:
        """Read the filters and tests behind a value."""
        cursor = self._cursor
        steps: list[Step] = []
        while True:
            cursor.cost += 1
            if cursor.symbol("|"):
                steps.append(self._filter())
            elif cursor.keyword("is"):
                steps.append(self._test())
            else:
                return _chain(node, steps)

    def _primary(self) -> Node:
        cursor = self._cursor
        token = cursor.take()
        if token.kind == VALUE:
            return Literal(token.value)
        if token.kind == NAME and token.value in CONSTANTS:
            return Literal(CONSTANTS[token.value])
        if token.kind == NAME and token.value not in KEYWORDS:
            return Name(str(token.value))
        if token.kind == SYMBOL and token.value == "(":
            node = self._expression()
            if cursor.sees(","):
                raise cursor.wrong(cursor.now, "',' is not expected here", "Write a list as [a, b].")
            cursor.expect(")", token)
            return node
        if token.kind == SYMBOL and token.value == "[":
            return ListOf(cursor.until("]", token, self._expression))
        if token.kind == SYMBOL and token.value == "{":
            return MappingOf(cursor.until("}", token, self._pair))
        raise cursor.wrong(token, *in_place_of_value(token))

    def _pair(self) -> tuple[Node, Node]:
        key = self._expression()
        if not self._cursor.symbol(":"):
            raise self._cursor.wrong(self._cursor.now, "':' is expected behind a key", "Write {'key': value}.")
        return key, self._expression()

    def _field(self) -> str:
        token = self._cursor.take()
        if token.kind != NAME:
            hint = "Write keys that are no names as ['KEY']."
            raise self._cursor.wrong(token, "the name of a field is expected behind the dot", hint)
        return str(token.value)

    def _index(self) -> Step:
        cursor = self._cursor
        opening = cursor.take()
        ends: list[Node | None] = []
        while True:
            ends.append(None if cursor.sees(":", "]") else self._expression())
            if not cursor.symbol(":"):
                break
        cursor.expect("]", opening)
        first = ends[0]
        if len(ends) == 1 and first is not None:
            literal = first.literal if isinstance(first, Literal) else None
            named = isinstance(literal, str | int) and not isinstance(literal, bool)
            return Index(first, str(literal) if named else None)
        if len(ends) in (2, 3):
            return Slice((first, ends[1], ends[2] if len(ends) == 3 else None))
        raise cursor.wrong(opening, "write [index], ['key'] or [start:stop]")

    def _secret(self, token: Token, steps: list[Step]) -> Secret:
        first = steps[0] if steps else None
        name = first if isinstance(first, str) else first.constant if isinstance(first, Index) else None
        if name is None or not name.replace("-", "_").replace(".", "_").isidentifier():
            raise self._cursor.wrong(token, "a secret is named where it is used", "Write secrets.NAME.")
        return Secret(name)

    def _filter(self) -> Filtered:
        cursor = self._cursor
        token = cursor.now
        name = cursor.name("the name of a filter")
        named: dict[str, Node] = {}
        opening = cursor.now
        given = cursor.until(")", opening, lambda: self._argument(named)) if cursor.symbol("(") else ()
        arguments = tuple(each for each in given if each is not None)
        problem = problem_with(name, len(arguments), tuple(named))
        if not problem and name == "map" and arguments and isinstance(arguments[0], Literal):
            problem = problem_with(str(arguments[0].literal), len(arguments) - 1, ())
        if problem:
            raise cursor.wrong(token, problem)
        return Filtered(name, arguments, tuple(named.items()))

    def _argument(self, named: dict[str, Node]) -> Node | None:
        cursor = self._cursor
        if cursor.now.kind == NAME and cursor.after.kind == SYMBOL and cursor.after.value == "=":
            name = str(cursor.take().value)
            cursor.take()
            named[name] = self._expression()
            return None
        if named:
            raise cursor.wrong(cursor.now, "values with names come last")
        return self._expression()

    def _test(self) -> Tested:
        cursor = self._cursor
        negated = cursor.keyword("not")
        token = cursor.take()
        name = str(token.value)
        name = name if name in CHECKS else name.lower()
        if token.kind != NAME or name not in CHECKS:
            known = [each for each in CHECKS if each.isidentifier()]
            meant = did_you_mean(name, known) or f"there are: {', '.join(known)}"
            raise cursor.wrong(token, f"there is no test '{shorten(name)}'; {meant}", "Write == to compare.")
        arguments = tuple(cursor.deeper(self._plain) for _ in range(CHECKS[name].arguments))
        return Tested(name, arguments, negated)


def parse(text: str) -> Expression:
    """Read a bare expression, without the braces around it.

    Raises:
        ExpressionError: it cannot be read; the message says where and why.
    """
    cursor = Cursor(text, tokens(text).parts)
    expression = Parser(cursor).expression()
    cursor.end()
    return expression


def _chain(base: Node, steps: list[Step]) -> Node:
    if not steps:
        return base
    if isinstance(base, Chain):
        return Chain(base.base, (*base.steps, *steps))
    return Chain(base, tuple(steps))
