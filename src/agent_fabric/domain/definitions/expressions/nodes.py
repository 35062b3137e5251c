"""The parts of a parsed expression; each knows its value.

No part ever touches an attribute of a Python object: a field is a key of a mapping, and nothing else. So there is no
way from a value to the program that holds it.

The parts are named tuples: as fixed as frozen dataclasses, and made in a tenth of the time when the program starts.
"""

from typing import Any, NamedTuple

from agent_fabric.domain.definitions.expressions.chains import Node, Step, walk
from agent_fabric.domain.definitions.expressions.errors import ExpressionError, first_names, kind_of, shorten
from agent_fabric.domain.definitions.expressions.limits import Evaluation
from agent_fabric.domain.definitions.expressions.operators import arithmetic, compare, negative, text_of, truth

_ONLY_SOMEWHERE = {
    "item": "it exists only inside a for-each",
    "index": "it exists only inside a for-each",
    "result": "it exists only in the outputs of a step",
    "loop": "it exists only inside {% for %}",
    "inputs": "nothing was given",
}


class Expression(NamedTuple):
    """A whole expression."""

    root: Node
    cost: int
    """How many parts it has: it has no loops, so this is what it costs beside the work of its filters."""

    def value(self, at: Evaluation) -> Any:
        at.spend(self.cost)
        return self.root.value(at)


class Literal(NamedTuple):
    """A number, a text, true, false or none."""

    literal: Any

    def value(self, at: Evaluation) -> Any:  # noqa: ARG002 - always the same
        return self.literal


class Secret(NamedTuple):
    """A secret: its place in a text, never what it is. It is filled in where the text leaves us."""

    name: str

    def value(self, at: Evaluation) -> str:  # noqa: ARG002 - always the same
        return f"${{secret:{self.name}}}"


class Name(NamedTuple):
    """Something that the surroundings know."""

    name: str

    def value(self, at: Evaluation) -> Any:
        name = self.name
        if at.local and name in at.local:
            return at.local[name]
        if name in at.scope:
            return at.scope[name]
        why = _ONLY_SOMEWHERE.get(name, "it has not run")
        here = first_names(at.scope, len(at.scope))
        raise ExpressionError(f"there is no '{shorten(name)}' here: {why}", hint=f"Here is: {here}.", missing=(name,))


class Chain(NamedTuple):
    """A value and what is done to it, one after another: fields, indexes, filters, tests."""

    base: Node
    steps: tuple[Step, ...]

    def value(self, at: Evaluation) -> Any:
        return walk(self.base, self.steps, at)


class ListOf(NamedTuple):
    """`[a, b]`."""

    items: tuple[Node, ...]

    def value(self, at: Evaluation) -> Any:
        return [each.value(at) for each in self.items]


class MappingOf(NamedTuple):
    """`{'a': b}`."""

    pairs: tuple[tuple[Node, Node], ...]

    def value(self, at: Evaluation) -> Any:
        made = {}
        for name, each in self.pairs:
            key = name.value(at)
            if not isinstance(key, str):
                raise ExpressionError(f"the keys of a mapping are text, not {kind_of(key)}")
            made[key] = each.value(at)
        return made


class Negative(NamedTuple):
    """`-a`."""

    operand: Node

    def value(self, at: Evaluation) -> Any:
        return negative(self.operand.value(at))


class Not(NamedTuple):
    """`not a`."""

    operand: Node

    def value(self, at: Evaluation) -> bool:
        return not truth(self.operand.value(at))


class Arithmetic(NamedTuple):
    """`a + b - c`: operators of one rank, from left to right."""

    first: Node
    rest: tuple[tuple[str, Node], ...]

    def value(self, at: Evaluation) -> Any:
        result = self.first.value(at)
        for symbol, operand in self.rest:
            result = arithmetic(at, symbol, result, operand.value(at))
        return result


class Joined(NamedTuple):
    """`a ~ b`: everything as text."""

    parts: tuple[Node, ...]

    def value(self, at: Evaluation) -> str:
        texts = [text_of(at, each.value(at)) for each in self.parts]
        at.make(sum(map(len, texts)))
        return "".join(texts)


class Compared(NamedTuple):
    """`a < b <= c`: true if each neighbour fits."""

    first: Node
    rest: tuple[tuple[str, Node], ...]

    def value(self, at: Evaluation) -> bool:
        left = self.first.value(at)
        for symbol, operand in self.rest:
            right = operand.value(at)
            if not compare(at, symbol, left, right):
                return False
            left = right
        return True


class AllOf(NamedTuple):
    """`a and b`: the first part that is false, else the last."""

    parts: tuple[Node, ...]

    def value(self, at: Evaluation) -> Any:
        result = None
        for each in self.parts:
            result = each.value(at)
            if not truth(result):
                break
        return result


class AnyOf(NamedTuple):
    """`a or b`: the first part that is true, else the last."""

    parts: tuple[Node, ...]

    def value(self, at: Evaluation) -> Any:
        result = None
        for each in self.parts:
            result = each.value(at)
            if truth(result):
                break
        return result


class Conditional(NamedTuple):
    """`a if condition else b`; without `else`, none."""

    condition: Node
    then: Node
    otherwise: Node

    def value(self, at: Evaluation) -> Any:
        return (self.then if truth(self.condition.value(at)) else self.otherwise).value(at)
