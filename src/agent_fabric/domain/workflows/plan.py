"""What can be known about a workflow's steps before it runs: who waits for whom, and who may see whose outputs."""

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from agent_fabric.domain.workflows.definition import BuiltIn, Mode, Step, WorkflowDefinition
from agent_fabric.domain.workflows.named_secrets import named_secrets


class Kind(Enum):
    """How the work of an action is done."""

    PURE = auto()
    """Follows from the state alone."""
    WAIT = auto()
    PERSON = auto()
    CONTAINER = auto()
    """Its work is that of the steps inside."""
    TOOL = auto()
    CHILD = auto()
    """A run of its own does it."""


_KINDS: Final = {
    BuiltIn.TRANSFORM.value: Kind.PURE,
    BuiltIn.VALIDATE.value: Kind.PURE,
    BuiltIn.WAIT.value: Kind.WAIT,
    BuiltIn.APPROVE.value: Kind.PERSON,
    BuiltIn.CONDITIONAL.value: Kind.CONTAINER,
    BuiltIn.PARALLEL_GROUP.value: Kind.CONTAINER,
    BuiltIn.FOR_EACH.value: Kind.CONTAINER,
    BuiltIn.INVOKE_AGENT.value: Kind.CHILD,
    BuiltIn.WORKFLOW.value: Kind.CHILD,
}


_TWICE_IS_ONCE: Final = frozenset({BuiltIn.READ_FILE.value, BuiltIn.WRITE_FILE.value})


class Order(Enum):
    """When the steps of a list may start."""

    GRAPH = auto()
    """As soon as the steps that they name are done."""
    SEQUENCE = auto()
    """One after another."""
    LEVELS = auto()
    """In groups, each of which waits for the whole group before it."""


_ROOT_ORDERS: Final = {
    Mode.DEPENDENCY_AWARE: Order.GRAPH,
    Mode.SEQUENTIAL: Order.SEQUENCE,
    Mode.PARALLEL: Order.LEVELS,
}


class Node:
    """A step in its place."""

    __slots__ = ("by_branch", "index", "kind", "parent", "reads", "row", "step", "takes_slot")

    def __init__(self, step: Step, row: "Row", index: int, parent: "Node | None") -> None:
        self.step = step
        self.row = row
        """The list that it stands in."""
        self.index = index
        self.parent = parent
        kind = _KINDS.get(step.action, Kind.TOOL)
        if step.action == BuiltIn.WAIT and "approval" in step.inputs:
            kind = Kind.PERSON
        self.kind = kind
        self.takes_slot = kind is Kind.TOOL or kind is Kind.CHILD
        """Counts against `parallel_limit` while it is under way."""
        self.by_branch: dict[str, Row] = {}
        """The lists inside it: `steps`, or `then` and `else`."""
        self.reads: dict[str, tuple[str, ...]] | None = None
        """Which names feed which input, once somebody has found out."""

    @property
    def twice_is_once(self) -> bool:
        """Whether it may be done again after a crash in the middle, without asking a person."""
        return self.step.idempotent or self.step.action in _TWICE_IS_ONCE

    @property
    def repeats(self) -> bool:
        """Whether what is inside runs once for each item, so that nobody outside can see it."""
        return self.step.action == BuiltIn.FOR_EACH


class Row:
    """The steps of one list, and what must be done before each of them."""

    __slots__ = ("_before", "counts", "followers", "levels", "needs", "nodes", "order")

    def __init__(self, steps: Sequence[Step], order: Order, parent: Node | None) -> None:
        self.order = order
        self.nodes = [Node(step, self, index, parent) for index, step in enumerate(steps)]
        places = {step.id: index for index, step in enumerate(steps)}
        self.needs = [tuple(places[name] for name in step.depends_on if name in places) for step in steps]
        """The steps that each one names; if one of them fails, it is not run."""
        self.followers: list[list[int]] = [[] for _ in steps]
        """The steps for which each one is waited for."""
        self.levels: list[list[int]] = []
        if order is Order.SEQUENCE:
            for index in range(len(steps) - 1):
                self.followers[index].append(index + 1)
            self.counts = [min(index, 1) for index in range(len(steps))]
        else:
            for index, needs in enumerate(self.needs):
                for other in needs:
                    self.followers[other].append(index)
            self.counts = [len(needs) for needs in self.needs]
        """How many steps each one waits for."""
        self._before: list[int] | None = None
        if order is Order.LEVELS:
            self._make_levels()

    def sees(self, index: int, other: int) -> bool:
        """Tell whether the step at `other` is sure to have come to its end before the one at `index` starts.

        Only such steps are visible, so that results do not depend on who happened to be faster.
        """
        if self.order is Order.SEQUENCE:
            return other < index
        if self._before is None:
            self._before = self._ancestors()
        return bool(self._before[index] >> other & 1)

    def _topological(self) -> list[int]:
        counts = list(map(len, self.needs))
        order = [index for index, count in enumerate(counts) if not count]
        for index in order:  # grows while it is walked
            for follower in self.followers[index]:
                counts[follower] -= 1
                if not counts[follower]:
                    order.append(follower)
        return order

    def _ancestors(self) -> list[int]:
        before = [0] * len(self.nodes)
        if self.order is Order.LEVELS:
            done = 0
            for level in self.levels:
                for index in level:
                    before[index] = done
                for index in level:
                    done |= 1 << index
            return before
        for index in self._topological():
            for other in self.needs[index]:
                before[index] |= before[other] | 1 << other
        return before

    def _make_levels(self) -> None:
        depth = [0] * len(self.nodes)
        for index in self._topological():
            depth[index] = max((depth[other] + 1 for other in self.needs[index]), default=0)
        self.levels = [[] for _ in range(max(depth, default=-1) + 1)]
        for index, level in enumerate(depth):
            self.levels[level].append(index)
        self.followers = [[] for _ in self.nodes]


class Plan:
    """All steps of a workflow in their places."""

    __slots__ = ("_secret_names", "definition", "nodes", "root")

    def __init__(self, definition: WorkflowDefinition) -> None:
        self.definition = definition
        self._secret_names: frozenset[str] | None = None
        self.root = Row(definition.steps, _ROOT_ORDERS[definition.execution.mode], None)
        self.nodes: dict[str, Node] = {}
        rows = [self.root]
        for row in rows:  # grows while it is walked
            for node in row.nodes:
                step = node.step
                self.nodes.setdefault(step.id, node)
                if step.action == BuiltIn.PARALLEL_GROUP:
                    node.by_branch["steps"] = Row(step.steps, Order.GRAPH, node)
                elif step.action == BuiltIn.FOR_EACH:
                    node.by_branch["steps"] = Row(step.steps, Order.SEQUENCE, node)
                elif step.action == BuiltIn.CONDITIONAL:
                    node.by_branch["then"] = Row(step.then, Order.SEQUENCE, node)
                    node.by_branch["else"] = Row(step.otherwise, Order.SEQUENCE, node)
                rows.extend(node.by_branch.values())

    @property
    def secret_names(self) -> frozenset[str]:
        """The secrets that its steps may use."""
        if self._secret_names is None:
            self._secret_names = named_secrets(self.definition)
        return self._secret_names
