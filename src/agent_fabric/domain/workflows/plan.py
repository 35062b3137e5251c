"""The plan of a workflow: the order of its steps, and whose outputs each step can read."""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from typing import Any, Final

from agent_fabric.domain.definitions.expressions.errors import ExpressionError
from agent_fabric.domain.definitions.expressions.references import references
from agent_fabric.domain.workflows.definition import BuiltIn, Mode, Step, WorkflowDefinition


class StepKind(Enum):
    """How a step does its work."""

    PURE = auto()
    """Computed from the state alone."""
    WAIT = auto()
    PERSON = auto()
    CONTAINER = auto()
    """Runs the steps inside it."""
    TOOL = auto()
    CHILD = auto()
    """A child run does the work."""


_KINDS: Final = {
    BuiltIn.TRANSFORM.value: StepKind.PURE,
    BuiltIn.VALIDATE.value: StepKind.PURE,
    BuiltIn.WAIT.value: StepKind.WAIT,
    BuiltIn.APPROVE.value: StepKind.PERSON,
    BuiltIn.CONDITIONAL.value: StepKind.CONTAINER,
    BuiltIn.PARALLEL_GROUP.value: StepKind.CONTAINER,
    BuiltIn.FOR_EACH.value: StepKind.CONTAINER,
    BuiltIn.INVOKE_AGENT.value: StepKind.CHILD,
    BuiltIn.WORKFLOW.value: StepKind.CHILD,
}


_IDEMPOTENT_ACTIONS: Final = frozenset(
    action.value
    for action in (
        BuiltIn.READ_FILE,
        BuiltIn.WRITE_FILE,
        BuiltIn.SEARCH_MEMORY,
        BuiltIn.PROPOSE_FACT,
        BuiltIn.SEND_MESSAGE,
    )
)


class StartOrder(Enum):
    """When the steps of a list may start."""

    GRAPH = auto()
    """As soon as the steps that they name are done."""
    SEQUENCE = auto()
    """One after another."""
    LEVELS = auto()
    """In groups, each of which waits for the whole group before it."""


_ROOT_ORDERS: Final = {
    Mode.DEPENDENCY_AWARE: StartOrder.GRAPH,
    Mode.SEQUENTIAL: StartOrder.SEQUENCE,
    Mode.PARALLEL: StartOrder.LEVELS,
}


class PlanNode:
    """A step and its position in the plan."""

    __slots__ = ("by_branch", "index", "kind", "parent", "reads", "step", "step_list", "takes_slot")

    def __init__(self, step: Step, step_list: "StepList", index: int, parent: "PlanNode | None") -> None:
        self.step = step
        self.step_list = step_list
        """The list that contains it."""
        self.index = index
        self.parent = parent
        kind = _KINDS.get(step.action, StepKind.TOOL)
        if step.action == BuiltIn.WAIT and "approval" in step.inputs:
            kind = StepKind.PERSON
        self.kind = kind
        self.takes_slot = kind is StepKind.TOOL or kind is StepKind.CHILD
        """Counts against `parallel_limit` while its work is in flight."""
        self.by_branch: dict[str, StepList] = {}
        """The lists inside it: `steps`, or `then` and `else`."""
        self.reads: dict[str, tuple[str, ...]] | None = None
        """The names that each input reads; None until first computed."""

    @property
    def is_idempotent(self) -> bool:
        """Whether an interrupted attempt may be repeated without asking a person."""
        return self.step.idempotent or self.step.action in _IDEMPOTENT_ACTIONS

    @property
    def repeats(self) -> bool:
        """Whether the steps inside run once for each item; steps outside cannot read them."""
        return self.step.action == BuiltIn.FOR_EACH


def in_order(needs: Sequence[Sequence[int]]) -> list[int]:
    """Return indexes so that each comes after those it needs; those on a cycle and behind one are left out."""
    counts = list(map(len, needs))
    followers: list[list[int]] = [[] for _ in needs]
    for index, needed in enumerate(needs):
        for other in needed:
            followers[other].append(index)
    order = [index for index, count in enumerate(counts) if not count]
    for index in order:  # grows while it is walked
        for follower in followers[index]:
            counts[follower] -= 1
            if not counts[follower]:
                order.append(follower)
    return order


class StepList:
    """One list of steps and their dependencies."""

    __slots__ = ("_before", "counts", "followers", "levels", "needs", "nodes", "order")

    def __init__(self, steps: Sequence[Step], order: StartOrder, parent: PlanNode | None) -> None:
        self.order = order
        self.nodes = [PlanNode(step, self, index, parent) for index, step in enumerate(steps)]
        places = {step.id: index for index, step in enumerate(steps)}
        self.needs = [tuple(places[name] for name in step.depends_on if name in places) for step in steps]
        """The dependencies of each step; if one fails, the step is skipped."""
        self.followers: list[list[int]] = [[] for _ in steps]
        """The steps that wait for each one."""
        self.levels: list[list[int]] = []
        if order is StartOrder.SEQUENCE:
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
        if order is StartOrder.LEVELS:
            self._make_levels()

    def sees(self, index: int, other: int) -> bool:
        """Tell whether the step at `other` always ends before the one at `index` starts.

        Only such steps are visible, so that results do not depend on timing.
        """
        if self.order is StartOrder.SEQUENCE:
            return other < index
        if self._before is None:
            self._before = self._ancestors()
        return bool(self._before[index] >> other & 1)

    def _ancestors(self) -> list[int]:
        before = [0] * len(self.nodes)
        if self.order is StartOrder.LEVELS:
            done = 0
            for level in self.levels:
                for index in level:
                    before[index] = done
                for index in level:
                    done |= 1 << index
            return before
        for index in in_order(self.needs):
            for other in self.needs[index]:
                before[index] |= before[other] | 1 << other
        return before

    def _make_levels(self) -> None:
        depth = [0] * len(self.nodes)
        for index in in_order(self.needs):
            depth[index] = max((depth[other] + 1 for other in self.needs[index]), default=0)
        self.levels = [[] for _ in range(max(depth, default=-1) + 1)]
        for index, level in enumerate(depth):
            self.levels[level].append(index)
        self.followers = [[] for _ in self.nodes]


class Plan:
    """All steps of a workflow and their order."""

    __slots__ = ("_secret_names", "definition", "nodes", "root")

    def __init__(self, definition: WorkflowDefinition) -> None:
        self.definition = definition
        self._secret_names: frozenset[str] | None = None
        self.root = StepList(definition.steps, _ROOT_ORDERS[definition.execution.mode], None)
        self.nodes: dict[str, PlanNode] = {}
        rows = [self.root]
        for step_list in rows:  # grows while it is walked
            for node in step_list.nodes:
                step = node.step
                self.nodes.setdefault(step.id, node)
                if step.action == BuiltIn.PARALLEL_GROUP:
                    node.by_branch["steps"] = StepList(step.steps, StartOrder.GRAPH, node)
                elif step.action == BuiltIn.FOR_EACH:
                    node.by_branch["steps"] = StepList(step.steps, StartOrder.SEQUENCE, node)
                elif step.action == BuiltIn.CONDITIONAL:
                    node.by_branch["then"] = StepList(step.then, StartOrder.SEQUENCE, node)
                    node.by_branch["else"] = StepList(step.otherwise, StartOrder.SEQUENCE, node)
                rows.extend(node.by_branch.values())

    @property
    def secret_names(self) -> frozenset[str]:
        """The secrets that its steps may use."""
        if self._secret_names is None:
            self._secret_names = secret_names_in(self.definition)
        return self._secret_names


def secret_names_in(definition: WorkflowDefinition) -> frozenset[str]:
    """Return the names of all secrets in a definition."""
    return frozenset(
        path[1]
        for step in definition.all_steps()
        for text in _texts(step)
        for path in _paths(text)
        if path[0] == "secrets" and len(path) > 1
    )


def _texts(step: Step) -> Iterator[Any]:
    yield from (step.inputs, step.outputs, list(step.command) if isinstance(step.command, tuple) else step.command)


def _paths(value: Any) -> Iterator[tuple[str, ...]]:
    if not value or "secrets" not in str(value):  # the usual case, at next to no price
        return
    try:
        yield from (each.path for each in references(value))
    except ExpressionError:
        return  # a definition that was checked has none such
