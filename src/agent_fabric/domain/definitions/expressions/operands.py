"""Reads what stands between operators: values, names, and everything that follows a value."""

from collections.abc import Callable

from agent_fabric.domain.definitions.expressions.chains import Filtered, Index, Slice, Step, Tested
from agent_fabric.domain.definitions.expressions.cursor import CONSTANTS, KEYWORDS, Cursor
from agent_fabric.domain.definitions.expressions.errors import did_you_mean, shorten
from agent_fabric.domain.definitions.expressions.filters import problem_with
from agent_fabric.domain.definitions.expressions.lexer import NAME, SYMBOL, VALUE, Token
from agent_fabric.domain.definitions.expressions.nodes import Chain, ListOf, Literal, MappingOf, Name, Node, Secret
from agent_fabric.domain.definitions.expressions.syntax_hints import call_hint, in_place_of_value
from agent_fabric.domain.definitions.expressions.value_tests import CHECKS

SECRETS = "secrets"


class Operands:
    """Reads operands of expressions."""

    def __init__(self, cursor: Cursor, expression: Callable[[], Node]) -> None:
        self._cursor = cursor
        self._expression = expression

    def plain(self) -> Node:
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

    def followed(self, node: Node) -> Node:
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
        arguments = tuple(cursor.deeper(self.plain) for _ in range(CHECKS[name].arguments))
        return Tested(name, arguments, negated)


def _chain(base: Node, steps: list[Step]) -> Node:
    if not steps:
        return base
    if isinstance(base, Chain):
        return Chain(base.base, (*base.steps, *steps))
    return Chain(base, tuple(steps))
