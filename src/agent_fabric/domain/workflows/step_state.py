"""The state of one step and of one list of steps. Only `evolve_workflow` changes them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from operator import attrgetter
from typing import Any, NamedTuple

from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.events import ToolErred, ToolReturned
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.workflows.definition import Step
from agent_fabric.domain.workflows.events import ChildFinished, SignalReceived, StepStatus, TimerFired
from agent_fabric.domain.workflows.plan import PlanNode, StepList


class StepPhase(Enum):
    """The phase of a step: what it does next, or waits for."""

    READY = auto()
    """May start as soon as a slot is free."""
    BEGUN = auto()
    """Its start is recorded; its work follows at once."""
    START_INTERRUPTED = auto()
    """The process ended between the start and the work."""
    CALLED = auto()
    """Its tool runs."""
    IN_DOUBT = auto()
    """Its tool call was in flight when the process ended."""
    ASKED = auto()
    """A person has to answer."""
    CALL_DUE = auto()
    """The attempt has begun, and now its tool may run."""
    WAITING = auto()
    """For time or for a signal."""
    DELAYED = auto()
    """Until the next attempt."""
    CHILD = auto()
    """A child run does the work."""
    CHILD_WAITS = auto()
    """The child run waits for an approval."""
    CHILD_DETACHED = auto()
    """The process ended while the child run was in progress."""
    OPEN = auto()
    """The steps inside it are under way."""
    JUDGING = auto()
    """The outcome of the attempt is known."""
    STOPPING = auto()
    """Its work in flight has to be cancelled."""
    DONE = auto()


AttemptOutcome = ToolReturned | ToolErred | ApprovalDecided | ChildFinished | SignalReceived | TimerFired
"""The events that decide an attempt."""


class StepCall(NamedTuple):
    """The tool call of a step."""

    number: int
    """Which attempt at the step it belongs to."""
    attempt: int
    """How often the call has been begun in it."""
    began_with: Mapping[str, Any]
    asked: ApprovalRequested | None
    decided: ApprovalDecided | None


_COMPARED = attrgetter(
    *("phase", "status", "attempt", "inputs", "started_at", "finished_at", "outputs", "error", "error_type", "outcome"),
    *("asked", "decided", "calls", "child_run_id", "reason", "next_item", "items_open", "cancel_error"),
)


@dataclass(slots=True, eq=False, repr=False)
class StepState:
    """One step that is ready or later; inside a `for-each`, one step of one item."""

    lane: LaneId
    node: PlanNode
    block: "Block"
    """The list that it is run in."""
    order: tuple[int, ...] = field(init=False)
    """Its place in the definition, to start what stands first."""
    phase: StepPhase = StepPhase.READY
    status: StepStatus | None = None
    """How it ended."""
    attempt: int = 0
    inputs: Mapping[str, Any] = field(default_factory=dict)
    started_at: float | None = None
    finished_at: float | None = None
    outputs: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    error_type: str = ""
    reused_from: RunId | None = None
    outcome: AttemptOutcome | None = None
    asked: ApprovalRequested | None = None
    """What a person was asked about this attempt."""
    decided: ApprovalDecided | None = None
    calls: int = 0
    """How often this attempt's tool was begun."""
    began_with: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the newest call that was begun, as they were executed."""
    went_to: str = ""
    """Where that call acts outside this machine; empty: nowhere."""
    child_run_id: RunId | None = None
    child_asks: tuple[str, ...] = ()
    """Questions that the child waits for."""
    listens_to: str = ""
    """The signal that it waits for."""
    reason: str = ""
    """Why it has to be stopped."""
    branch: str = ""
    """Of a `conditional`: what it has chosen."""
    items: list[Any] = field(default_factory=list)
    """Of a `for-each`."""
    next_item: int = 0
    items_open: int = 0
    inner_open: int = 0
    """Of a container: steps right inside it that have begun and not come to their end."""
    filling: bool = False
    """Items are being begun right now."""
    blocks: "list[Block]" = field(default_factory=list)
    """Of a container: the lists that it has begun, one for each item of a `for-each`."""
    cancel_error: tuple[str, str] | None = None
    """Of a container: type and text of the error that keeps it from beginning anything new."""

    def __post_init__(self) -> None:
        self.order = (*self.block.order, self.node.index)

    def __lt__(self, other: object) -> bool:
        """Leave the order of two entries for the same step in a heap open."""
        return False

    @property
    def step(self) -> Step:
        """The step as the definition tells it."""
        return self.node.step

    def owners(self) -> "Iterator[StepState]":
        """Return the containers around it, from the inside out."""
        owner = self.block.owner
        while owner is not None:
            yield owner
            owner = owner.block.owner

    @property
    def summary(self) -> tuple[object, ...]:
        """Everything that can differ between two states of the same step."""
        blocks = [(block.left, block.open, block.level, block.counts, block.broken) for block in self.blocks]
        return (*_COMPARED(self), blocks)


@dataclass(slots=True, eq=False, repr=False)
class Block:
    """A list of steps under way: of the workflow itself, of a container, or of one item of a `for-each`."""

    step_list: StepList
    owner: StepState | None
    index: int | None
    """Of the item, in a `for-each`."""
    values: dict[str, Mapping[str, Any]]
    """Outputs of the steps that succeeded, by id; one mapping for the workflow and one for each item."""
    counts: list[int] = field(init=False)
    """How many steps each one still waits for."""
    left: int = field(init=False)
    """Steps that have not come to their end."""
    open: int = 0
    """Steps that have begun and not come to their end."""
    level: int = 0
    level_left: int = field(init=False)
    broken: dict[int, str] = field(default_factory=dict)
    """Steps that failed or were skipped for a failure, and the failed step."""
    prefix: str = ""
    """The prefix of its lanes."""
    order: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        steps, owner, index = self.step_list, self.owner, self.index
        self.counts = list(steps.counts)
        self.left = len(steps.nodes)
        self.level_left = len(steps.levels[0]) if steps.levels else 0
        if owner is not None:
            self.prefix = f"{owner.lane}[{index}]." if index is not None else owner.block.prefix
            self.order = (*owner.order, index) if index is not None else owner.order


_WITHOUT_TIMEOUT = frozenset(
    {StepPhase.READY, StepPhase.DELAYED, StepPhase.JUDGING, StepPhase.STOPPING, StepPhase.DONE}
)


def timer_counts(step: StepState, attempt: int, purpose: str) -> bool:
    """Tell whether a timer is still awaited."""
    if step.attempt != attempt:
        return False
    match purpose:
        case "retry":
            return step.phase is StepPhase.DELAYED
        case "wait":
            return step.phase is StepPhase.WAITING
        case _:
            return step.phase not in _WITHOUT_TIMEOUT
