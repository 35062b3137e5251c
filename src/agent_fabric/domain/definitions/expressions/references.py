"""What can be told of expressions without values: what they refer to, and what is wrong with their syntax."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from functools import lru_cache
from typing import Any, NamedTuple

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.definitions.expressions.chains import (
    DEFAULTS,
    Filtered,
    Index,
    Node,
    Slice,
    Step,
    Tested,
    catches,
    path_of,
)
from agent_fabric.domain.definitions.expressions.errors import ExpressionError
from agent_fabric.domain.definitions.expressions.evaluation import bare_expression, has_braces, read_template
from agent_fabric.domain.definitions.expressions.limits import MAX_VALUE_DEPTH
from agent_fabric.domain.definitions.expressions.nodes import (
    AllOf,
    AnyOf,
    Arithmetic,
    Chain,
    Compared,
    Conditional,
    Joined,
    ListOf,
    Literal,
    MappingOf,
    Name,
    Negative,
    Not,
    Secret,
)
from agent_fabric.domain.definitions.expressions.parser import SECRETS
from agent_fabric.domain.definitions.expressions.templates import For, If, Piece, Value

Path = tuple[str, ...]

ALWAYS_THERE = frozenset({"inputs", "item", "index", "run", "workflow", "result"})
"""That one of their fields is there says nothing about their others; of a step, it says that it has run."""


class Reference(NamedTuple):
    """A path that an expression uses."""

    path: Path
    """Such as `("fetch", "body")`. It ends before an index that is computed."""
    guarded: bool
    """Used only where it may be missing: under `default` or `is defined`, or after such a test."""


def references(value: Any, *, bare: bool = False) -> tuple[Reference, ...]:
    """Return every path that the texts of a value use, at any depth, in the order of their first use.

    With `bare`, the texts are expressions without braces around them. Texts that cannot be read refer to nothing here;
    `check_syntax` tells what is wrong with them.
    """
    # Every run of a workflow asks about the same texts.
    return _of_text(value, bare) if isinstance(value, str) else _all_in(value, bare)


def _all_in(value: Any, bare: bool) -> tuple[Reference, ...]:
    found = _Found()
    for text in texts_in(value):
        try:
            if bare:
                found.visit(bare_expression(text).root, _NOTHING)
            elif has_braces(text):
                found.visit_all(read_template(text).pieces, _NOTHING)
        except (ExpressionError, RecursionError):
            continue
    return tuple(Reference(path, guarded) for path, guarded in found.paths.items())


_of_text = lru_cache(2048)(_all_in)


def texts_in(value: Any) -> Iterator[str]:
    """Return all texts in a value, keys too, in order."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            waiting.extend(part for pair in reversed(list(each.items())) for part in reversed(pair))
        elif isinstance(each, list | tuple):
            waiting.extend(reversed(each))


class _Known(NamedTuple):
    """What is known at a place in an expression."""

    bound: frozenset[str] = frozenset()
    """Names of loops: they refer to nothing outside."""
    tested: frozenset[Path] = frozenset()
    """Paths that are there, or this place would not be reached."""
    optional: bool = False
    """Whatever is missing here is caught."""

    def after(self, tested: Iterable[Path]) -> "_Known":
        return _Known(self.bound, self.tested.union(tested), self.optional)

    def guards(self, path: Path) -> bool:
        return self.optional or any(_vouches(tested, path) for tested in self.tested)


_NOTHING = _Known()


@dataclass(slots=True)
class _Found:
    """Collects paths."""

    paths: dict[Path, bool] = field(default_factory=dict)

    def visit_all(self, pieces: Iterable[Piece], known: _Known) -> None:
        for piece in pieces:
            match piece:
                case Value():
                    self.visit(piece.expression.root, known)
                case If():
                    self._visit_if(piece, known)
                case For():
                    self.visit(piece.items.root, known)
                    inside = _Known(known.bound.union(piece.names, ["loop"]), known.tested, known.optional)
                    self.visit_all(piece.body, inside)
                    self.visit_all(piece.otherwise, known)
                case _:
                    pass  # plain text

    def visit(self, node: Node, known: _Known) -> None:
        match node:
            case Name():
                self._add((node.name,), known)
            case Secret():
                self._add((SECRETS, node.name), known)
            case Chain():
                self._visit_chain(node, known)
            case AllOf() | AnyOf():
                for part in node.parts:
                    self.visit(part, known)
                    known = known.after(_proven(part, true=isinstance(node, AllOf)))
            case Conditional():
                self.visit(node.condition, known)
                self.visit(node.then, known.after(_proven(node.condition, true=True)))
                self.visit(node.otherwise, known.after(_proven(node.condition, true=False)))
            case _:
                for part in _parts_of(node):
                    self.visit(part, known)

    def _visit_if(self, piece: If, known: _Known) -> None:
        for condition, body in piece.branches:
            self.visit(condition.root, known)
            self.visit_all(body, known.after(_proven(condition.root, true=True)))
            known = known.after(_proven(condition.root, true=False))
        self.visit_all(piece.otherwise, known)

    def _visit_chain(self, chain: Chain, known: _Known) -> None:
        last_catch = max((place for place, step in enumerate(chain.steps) if catches(step)), default=-1)
        inside = _Known(known.bound, known.tested, known.optional or last_catch >= 0)
        path = path_of(chain.base, chain.steps) if isinstance(chain.base, Name) else ()
        if path:
            self._add(path, inside)
        else:
            self.visit(chain.base, inside)
        for place, step in enumerate(chain.steps):
            for part in _parts_of_step(step):
                self.visit(part, inside if place < last_catch else known)

    def _add(self, path: Path, known: _Known) -> None:
        if path[0] not in known.bound:
            self.paths[path] = self.paths.get(path, True) and known.guards(path)


def _vouches(tested: Path, path: Path) -> bool:
    shared = min(len(tested), len(path))
    return tested[:shared] == path[:shared] or (tested[0] == path[0] and path[0] not in ALWAYS_THERE)


def _proven(condition: Node, *, true: bool) -> frozenset[Path]:
    """Return the paths that must be there if a condition came out true, or false."""
    match condition:
        case Not():
            return _proven(condition.operand, true=not true)
        case AllOf() if true:
            return frozenset().union(*(_proven(part, true=True) for part in condition.parts))
        case AnyOf() if not true:
            return frozenset().union(*(_proven(part, true=False) for part in condition.parts))
        case Chain() if isinstance(condition.base, Name) and condition.steps:
            path, last = path_of(condition.base, condition.steps), condition.steps[-1]
            if len(path) == len(condition.steps) and _tells_that_it_is_there(last, true=true):
                return frozenset({path})
    return frozenset()


def _tells_that_it_is_there(step: Step, *, true: bool) -> bool:
    match step:
        case Tested():
            return catches(step) and true is ((step.name == "defined") is not step.negated)
        case Filtered() if step.name in DEFAULTS and true:
            return all(isinstance(each, Literal) and not each.literal for each in step.arguments[:1])
        case _:
            return False


def _parts_of(node: Node) -> Iterator[Node]:
    match node:
        case ListOf():
            yield from node.items
        case MappingOf():
            for pair in node.pairs:
                yield from pair
        case Negative() | Not():
            yield node.operand
        case Arithmetic() | Compared():
            yield node.first
            yield from (operand for _, operand in node.rest)
        case Joined():
            yield from node.parts
        case _:
            return


def _parts_of_step(step: Step) -> Iterator[Node]:
    match step:
        case Index():
            yield step.key
        case Slice():
            yield from (end for end in step.ends if end is not None)
        case Filtered():
            yield from step.arguments
            yield from (each for _, each in step.named)
        case Tested():
            yield from step.arguments
        case _:
            return


def check_syntax(value: Any, *, bare: bool = False) -> list[str]:
    """Return what is wrong with each text of a value, in plain words with the place; empty if all can be read.

    With `bare`, the texts are expressions without braces around them.
    """
    return [f"{place}{problem}" for place, problem in _problems(value, "", bare=bare, depth=0)]


def _problems(value: Any, at: str, *, bare: bool, depth: int) -> Iterator[tuple[str, str]]:
    place = f"{at}: " if at else ""
    if isinstance(value, str):
        if problem := _problem(value, bare=bare):
            yield place, problem
    elif isinstance(value, Mapping | list | tuple):
        if depth >= MAX_VALUE_DEPTH:
            yield place, f"lists and mappings nest deeper than {MAX_VALUE_DEPTH} levels"
            return
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, each in pairs:
            if isinstance(key, str) and has_braces(key) and (problem := _problem(key, bare=False)):
                yield place, problem
            inside = f"{at}[{key}]" if isinstance(key, int) else f"{at}.{key}" if at else str(key)
            yield from _problems(each, inside, bare=bare, depth=depth + 1)


def _problem(text: str, *, bare: bool) -> str:
    try:
        if bare:
            bare_expression(text)
        elif has_braces(text):
            read_template(text)
    except ExpressionError as error:
        return f"{error.message}. {error.hint}" if error.hint else error.message
    except RecursionError:
        return "the expression nests too deep"
    return ""
