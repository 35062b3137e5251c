"""The dependency graph of the steps: siblings, dependencies, and which steps always end before which."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.definitions.problems import CheckPosition, ProblemCollector
from agent_fabric.domain.definitions.validate import step_place
from agent_fabric.domain.workflows.checks.shape import RESERVED_IDS
from agent_fabric.domain.workflows.definition import BuiltIn, Mode
from agent_fabric.domain.workflows.plan import in_order

_SHOWN_IN_CYCLE: Final = 12


@dataclass(eq=False)
class GraphNode:
    """A step with its place among the others."""

    id: str
    action: str
    plain: Mapping[str, Any]
    place: CheckPosition
    beside: "Siblings"
    index: int
    """Among its siblings."""

    @property
    def owner(self) -> "GraphNode | None":
        """The step that this one is inside of."""
        return self.beside.owner

    def chain(self) -> Iterator["GraphNode"]:
        """Return this step, the one around it, and so on outwards."""
        here: GraphNode | None = self
        while here is not None:
            yield here
            here = here.owner

    def part(self, name: str) -> Mapping[str, Any]:
        """Return one of its mappings, empty if it has none."""
        value = self.plain.get(name)
        return value if isinstance(value, dict) else {}


@dataclass(eq=False)
class Siblings:
    """The steps of one list."""

    owner: GraphNode | None
    key: str
    """`steps`, `then` or `else`."""
    ordered: bool
    """One runs after another, as written."""
    goes_on: bool = False
    """Even when one of them failed, unless it is waited for by name."""
    in_groups: bool = False
    """Whole groups wait for one another, so what no step names may be done before all the same."""
    nodes: list[GraphNode] = field(default_factory=list)
    needs: dict[int, list[int]] = field(default_factory=dict)
    """By index: the indexes that its `depends_on` names."""

    @cached_property
    def before(self) -> list[int | None]:
        """By index: the siblings that it waits for, directly or not, one bit each; None on a cycle or behind one."""
        before: list[int | None] = [None] * len(self.nodes)
        for index in self.in_order():
            bits = 0
            for needed in self.needs.get(index, ()):
                bits |= (before[needed] or 0) | (1 << needed)
            before[index] = bits
        return before

    def in_order(self) -> list[int]:
        """Return the indexes so that each comes after what it needs; those on a cycle and behind one are left out."""
        return in_order([self.needs.get(index, ()) for index in range(len(self.nodes))])

    def surely_before(self, first: GraphNode, second: GraphNode) -> bool:
        """Tell whether one sibling is done before another starts. On a cycle, which is a problem of its own, it is."""
        if self.ordered and not self.goes_on:
            return first.index < second.index
        bits = self.before[second.index]
        return bits is None or bool(bits >> first.index & 1)

    def may_see(self, first: GraphNode, second: GraphNode) -> bool:
        """Tell whether one sibling's outputs can ever be there for another, which has provided for their absence."""
        if self.ordered:
            return first.index < second.index
        return self.in_groups or self.surely_before(first, second)


@dataclass(eq=False)
class Graph:
    """All steps of a workflow."""

    root: Siblings
    lists: list[Siblings]
    by_id: dict[str, GraphNode]

    def nodes(self) -> Iterator[GraphNode]:
        """Return every step with a usable id, list by list."""
        for siblings in self.lists:
            yield from siblings.nodes


def graph_of(plain: Mapping[str, Any], findings: ProblemCollector) -> Graph:
    """Return the graph of whatever in the definition has the shape of steps; note ids that cannot be used."""
    execution = plain.get("execution")
    options = execution if isinstance(execution, dict) else {}
    mode = options.get("mode")
    root = Siblings(
        None,
        "steps",
        ordered=mode == Mode.SEQUENTIAL.value,
        goes_on=options.get("continue_on_error") is True,
        in_groups=mode == Mode.PARALLEL.value,
    )
    graph = Graph(root, [], {})
    ahead: list[tuple[Siblings, Any, CheckPosition]] = [(root, plain.get("steps"), CheckPosition(("steps",)))]
    while ahead:
        siblings, steps, place = ahead.pop()
        graph.lists.append(siblings)
        inner: list[tuple[Siblings, Any, CheckPosition]] = []
        for index, step in enumerate(steps if isinstance(steps, list) else ()):
            at = step_place(step, place.below(index))
            if not at.step:
                continue  # the structure's problem
            action = step.get("action")
            node = GraphNode(
                at.step, action if isinstance(action, str) else "", step, at, siblings, len(siblings.nodes)
            )
            siblings.nodes.append(node)
            _enter(node, graph, findings)
            for key in ("steps", "then", "else"):
                if isinstance(step.get(key), list):
                    ordered = node.action != BuiltIn.PARALLEL_GROUP
                    inner.append((Siblings(node, key, ordered=ordered, goes_on=root.goes_on), step[key], at.below(key)))
        ahead.extend(reversed(inner))
    return graph


def _enter(node: GraphNode, graph: Graph, findings: ProblemCollector) -> None:
    at = node.place.below("id")
    if node.id.lower() in RESERVED_IDS:
        hint = f"Call it {node.id}_step, for example."
        findings.add(at, f"the id {node.id!r} means something else in expressions", hint)
    first = graph.by_id.setdefault(node.id, node)
    if first is not node:
        hint = "Every id may be used once in a file, inside groups and branches too."
        findings.add(at, f"the id {node.id!r} is used by another step too", hint, other=(*first.place.path, "id"))


def check_dependencies(graph: Graph, findings: ProblemCollector) -> None:
    """Note dependencies on what is not there, cycles, and an order that contradicts them."""
    for siblings in graph.lists:
        here = {node.id: node.index for node in reversed(siblings.nodes)}
        for node in siblings.nodes:
            wanted = node.plain.get("depends_on")
            for nth, name in enumerate(wanted if isinstance(wanted, list) else ()):
                if not isinstance(name, str):
                    continue
                if name in here and siblings.nodes[here[name]] is not node:
                    siblings.needs.setdefault(node.index, []).append(here[name])
                else:
                    _explain(node, name, node.place.below("depends_on", nth), graph, findings)
        _check_cycles(siblings, findings)


def _explain(node: GraphNode, name: str, at: CheckPosition, graph: Graph, findings: ProblemCollector) -> None:
    if name == node.id:
        findings.add(at, "it depends on itself", f"Take {name!r} out of its depends_on.")
        return
    named = graph.by_id.get(name)
    if named is None:
        hint = findings.did_you_mean(name, (each.id for each in node.beside.nodes if each is not node))
        findings.add(at, f"it depends on {name!r}, but there is no such step", hint)
        return
    container = next((each for each in named.chain() if each.beside is node.beside), None)
    if container is node:
        message, hint = f"it depends on {name!r}, which is inside it", "Take it out: it waits for that step anyway."
    elif container is not None:
        message = f"it depends on {name!r}, which is inside {container.id!r}"
        hint = f"Write depends_on: [{container.id}]"
    else:
        around = node.owner.id if node.owner is not None else ""
        message = f"it depends on {name!r}, which is outside of {around!r}"
        hint = f"Put depends_on: [{name}] on {around!r}: what is inside starts after it."
    findings.add(at, message, hint)


def _check_cycles(siblings: Siblings, findings: ProblemCollector) -> None:
    ordered = set(siblings.in_order())
    seen: set[int] = set()
    for start in range(len(siblings.nodes)):
        if start in ordered or start in seen:
            continue
        walked: list[int] = []
        here = start
        while here not in seen:
            seen.add(here)
            walked.append(here)
            here = next(each for each in siblings.needs[here] if each not in ordered)
        if here in walked:
            _tell_cycle([siblings.nodes[index] for index in walked[walked.index(here) :]], findings)
    if siblings.ordered and len(ordered) == len(siblings.nodes):
        _check_sequence(siblings, findings)


def _tell_cycle(cycle: list[GraphNode], findings: ProblemCollector) -> None:
    names = [node.id for node in (*cycle, cycle[0])]
    if len(names) > _SHOWN_IN_CYCLE:
        left_out = len(names) - _SHOWN_IN_CYCLE
        names[_SHOWN_IN_CYCLE - 2 : -2] = [f"({left_out} more)"]
    hint = "None of them could ever start. Take one of these depends_on out."
    findings.add(cycle[0].place.below("depends_on"), f"it waits for itself: {' -> '.join(names)}", hint)


def _check_sequence(siblings: Siblings, findings: ProblemCollector) -> None:
    for index, needed in siblings.needs.items():
        node = siblings.nodes[index]
        for each in needed:
            if each > index:
                later = siblings.nodes[each]
                where = f"inside {node.owner.id!r}" if node.owner is not None else "in sequential mode"
                findings.add(
                    node.place.below("depends_on"),
                    f"it depends on {later.id!r}, which comes later, and {where} steps run in the order of the file",
                    f"Move {later.id!r} above {node.id!r}.",
                    other=later.place.path,
                )
