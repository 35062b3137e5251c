"""Checks expressions: their syntax, and that the values they read always exist when they are evaluated."""

from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple

from agent_fabric.domain.definitions.expressions.references import Reference, check_syntax, references
from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.definitions.problems import CheckPosition, ProblemCollector
from agent_fabric.domain.workflows.checks.graph import Graph, GraphNode
from agent_fabric.domain.workflows.checks.output_types import KnownNames, outputs_of
from agent_fabric.domain.workflows.definition import BuiltIn

_FIXED: Final[Mapping[str, frozenset[str]]] = {
    "run": frozenset({"id"}),
    "workflow": frozenset({"name", "version"}),
}
_OPTIONAL_HINT: Final = "Give it a default, make it required, or write {name} | default('…')"


Tested = frozenset[tuple[str, ...]]
"""What a condition has found to be there: `("fetch",)`, `("inputs", "topic")`."""


class Written(NamedTuple):
    """An expression, or text that may hold some, where it stands."""

    place: CheckPosition
    text: str
    bare: bool = False
    """An expression as a whole, without {{ }}."""
    extra: frozenset[str] = frozenset()
    """Names that mean something only here."""


class Flow:
    """The check of all expressions of one definition."""

    def __init__(
        self, graph: Graph, inputs: Mapping[str, Parameter], known: KnownNames, findings: ProblemCollector
    ) -> None:
        self._graph = graph
        self._inputs = inputs
        self._known = known
        self._findings = findings

    def check(self, plain: Mapping[str, Any]) -> None:
        """Note what is wrong with the expressions of every step and of the outputs."""
        for node in self._graph.nodes():
            tested = self._tests_around(node)
            for written in _written_parts(node):
                for reference in self._read(written):
                    self._check_reference(reference, written, node, tested)
        outputs = plain.get("outputs")
        for name, output in outputs.items() if isinstance(outputs, dict) else ():
            value = output.get("value") if isinstance(output, dict) else output
            place = CheckPosition(("outputs", name, "value") if isinstance(output, dict) else ("outputs", name))
            for written in _texts_in(value, place):
                for reference in self._read(written):
                    self._check_reference(reference, written, None, frozenset())

    def _read(self, written: Written) -> tuple[Reference, ...]:
        messages = check_syntax(written.text, bare=written.bare)
        for message in messages:
            what, _, hint = message.partition(". ")
            self._findings.add(written.place, f"{written.place.name}: the expression cannot be read: {what}", hint)
        return () if messages else references(written.text, bare=written.bare)

    def _tests_around(self, node: GraphNode) -> Tested:
        """Return the steps and inputs whose existence the conditions around a step have already tested."""
        tested: set[tuple[str, ...]] = set()
        for each in node.chain():
            condition = each.plain.get("condition")
            if isinstance(condition, str) and not check_syntax(condition, bare=True):
                tested.update(_subject(found.path) for found in references(condition, bare=True) if found.guarded)
        return frozenset(tested)

    def _check_reference(self, reference: Reference, written: Written, node: GraphNode | None, tested: Tested) -> None:
        root, fields = reference.path[0], reference.path[1:]
        add, place = self._findings.add, written.place
        if root in written.extra:
            if root == "result" and node is not None:
                self._check_field("result", outputs_of(node, self._known, own=False), fields, place)
        elif root == "inputs":
            self._check_input(reference, place, tested)
        elif root in _FIXED:
            if fields and fields[0] not in _FIXED[root]:
                hint = self._findings.did_you_mean(fields[0], sorted(_FIXED[root]))
                add(place, f"{place.name}: there is no {root}.{fields[0]}", hint)
        elif root == "secrets":
            if not fields:
                add(place, f"{place.name}: secrets are named one by one", "Write secrets.NAME.")
        elif root in {"item", "index"}:
            if node is None or all(each.action != BuiltIn.FOR_EACH for each in node.chain() if each is not node):
                hint = "Move the step into the for-each."
                add(place, f"{place.name}: {root!r} means something only inside a for-each", hint)
        elif root == "result":
            add(
                place,
                f"{place.name}: 'result' means something only in a step's outputs",
                "Refer to the step by its id.",
            )
        else:
            self._check_step(reference, written, node, tested)

    def _check_input(self, reference: Reference, place: CheckPosition, tested: Tested) -> None:
        name = reference.path[1] if len(reference.path) > 1 else None
        if name is None:
            return
        declared = self._inputs.get(name)
        if declared is None:
            hint = self._findings.did_you_mean(
                name, self._inputs, otherwise=f"Declare it at the top of the file: inputs: {{{name}: string}}"
            )
            self._findings.add(place, f"{place.name}: the workflow has no input {name!r}", hint)
        elif not (declared.required or declared.has_default or reference.guarded or reference.path[:2] in tested):
            self._findings.add(
                place,
                f"{place.name}: the input {name!r} need not be given",
                _OPTIONAL_HINT.format(name=f"inputs.{name}"),
            )

    def _check_step(self, reference: Reference, written: Written, node: GraphNode | None, tested: Tested) -> None:
        name, place = reference.path[0], written.place
        named = self._graph.by_id.get(name)
        if named is None:
            known = chain(("inputs", "secrets", "run", "workflow"), self._graph.by_id)
            near = self._findings.did_you_mean(name, known, otherwise=_NO_STEP)
            hint = f"Write inputs.{name}." if name in self._inputs else near
            self._findings.add(place, f"{place.name}: there is no step {name!r}", hint)
            return
        problem = _not_there(named, node, reference.path, guarded=reference.guarded or (name,) in tested)
        if problem is not None:
            message, hint = problem
            self._findings.add(place, f"{place.name}: {message}", hint)
        else:
            self._check_field(name, outputs_of(named, self._known), reference.path[1:], place)

    def _check_field(
        self, name: str, outputs: Mapping[str, str] | None, fields: tuple[str, ...], place: CheckPosition
    ) -> None:
        if outputs is not None and fields and fields[0] not in outputs:
            otherwise = f"It gives {', '.join(outputs)}." if outputs else ""
            hint = self._findings.did_you_mean(fields[0], outputs, otherwise=otherwise)
            self._findings.add(place, f"{place.name}: {name!r} gives no {fields[0]!r}", hint)


_NO_STEP: Final = "Expressions know inputs.NAME, STEP.FIELD, secrets.NAME, run.id, workflow.name."


def _not_there(
    named: GraphNode, node: GraphNode | None, path: tuple[str, ...], *, guarded: bool
) -> tuple[str, str] | None:
    """Say why a step need not have run when another one reads its outputs; None: it surely has."""
    if node is named:
        return "a step cannot read its own outputs", "In its outputs, write result.FIELD."
    around = {id(each.beside): each for each in node.chain()} if node is not None else {}
    inner: list[GraphNode] = []
    """From the named step outwards, up to the list that both have in common."""
    for each in named.chain():
        inner.append(each)
        if id(each.beside) in around:
            break
    top = inner[-1]
    reader = around.get(id(top.beside))
    for each in inner[1:]:
        if each.action == BuiltIn.FOR_EACH and each is not reader:
            return (
                f"{named.id!r} runs once for each item of {each.id!r}, so only steps inside can read it",
                f"Write {each.id}.results: a list with the outputs of every item.",
            )
    if reader is top:
        if top is named:
            return f"{named.id!r} contains this step and is not done yet", f"Refer to a step before {named.id!r}."
        return (
            f"{named.id!r} is in the other branch of {top.id!r}, which does not run",
            "Refer to a step of this branch, or to one before the branches.",
        )
    if guarded:
        if node is None or reader is None or top.beside.may_see(top, reader):
            return None
        return _not_before(top, reader, node)
    if node is not None and reader is not None and not top.beside.surely_before(top, reader):
        return _not_before(top, reader, node)
    return _not_certain(named, inner, node, ".".join(path))


def _not_before(top: GraphNode, reader: GraphNode, node: GraphNode) -> tuple[str, str]:
    where = "" if reader is node else f" on {reader.id!r}"
    if top.beside.ordered and not top.beside.goes_on:
        return f"{top.id!r} runs after this step", f"Move {top.id!r} above {reader.id!r}."
    if top.beside.ordered and top.index < reader.index:
        return (
            f"{top.id!r} may have failed, and with continue_on_error this step runs all the same",
            f"Add depends_on: [{top.id}]{where}",
        )
    return f"{top.id!r} need not have run before this step", f"Add depends_on: [{top.id}]{where}"


def _not_certain(
    named: GraphNode, inner: list[GraphNode], node: GraphNode | None, written: str
) -> tuple[str, str] | None:
    mine = [each.plain.get("condition") for each in node.chain()] if node is not None else []
    hint = f"Write {written} | default('…'), or give the step a condition: {named.id} is defined"
    for each in inner:
        condition = each.plain.get("condition")
        if condition is None or each.action == BuiltIn.CONDITIONAL or condition is True or condition in mine:
            continue
        what = "it has" if each is named else f"{each.id!r} around it has"
        return f"{named.id!r} may be skipped, because {what} a condition", hint
    for each, container in pairwise(inner):
        if container.action == BuiltIn.CONDITIONAL:
            branch = each.beside.key
            return f"{named.id!r} is in the {branch!r} branch of {container.id!r}, which need not run", hint
    return None


def _subject(path: tuple[str, ...]) -> tuple[str, ...]:
    return path[:2] if path[0] == "inputs" else path[:1]


def _written_parts(node: GraphNode) -> Iterator[Written]:
    """Return everything in a step that may hold expressions."""
    condition = node.plain.get("condition")
    if isinstance(condition, str):
        yield Written(node.place.below("condition"), condition, bare=True)
    yield from _texts_in(node.plain.get("command"), node.place.below("command"))
    own = frozenset(node.part("inputs"))
    for name, value in node.part("inputs").items():
        at = node.place.below("inputs", name)
        if node.action == BuiltIn.VALIDATE and name == "rules":
            yield from _rules(value, at, own)
        else:
            yield from _texts_in(value, at)
    for written in _texts_in(node.plain.get("outputs"), node.place.below("outputs")):
        yield written._replace(extra=frozenset({"result"}))


def _rules(value: object, place: CheckPosition, own: frozenset[str]) -> Iterator[Written]:
    for index, each in enumerate(value if isinstance(value, list) else ()):
        rule, at = (
            (each.get("rule"), place.below(index, "rule")) if isinstance(each, dict) else (each, place.below(index))
        )
        if isinstance(rule, str):
            yield Written(at, rule, bare=True, extra=own)


def _texts_in(value: object, place: CheckPosition) -> Iterator[Written]:
    ahead: list[tuple[object, CheckPosition]] = [(value, place)]
    while ahead:
        each, at = ahead.pop()
        if isinstance(each, str):
            if any(braces in each for braces in ("{{", "}}", "{%", "%}")):
                yield Written(at, each)
        elif isinstance(each, dict):
            ahead.extend((item, at.below(key)) for key, item in reversed(each.items()))
        elif isinstance(each, list):
            ahead.extend((item, at.below(index)) for index, item in reversed([*enumerate(each)]))
