"""The state of a workflow, its steps and their lists, folded from its events. Only `evolve_workflow` changes it."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import field
from enum import Enum, auto
from operator import attrgetter
from typing import Any, NamedTuple

from agent_fabric.domain.approvals.answers import OnDoubt
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.events import ToolErred, ToolReturned
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.workflows.definition import Step, WorkflowDefinition
from agent_fabric.domain.workflows.events import ChildFinished, SignalReceived, StepFinished, StepStatus, TimerFired
from agent_fabric.domain.workflows.plan import Plan, PlanNode, StepList


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


INTERNAL_ERROR = "InternalError"
"""Error type of a step that could not be carried out, through no fault of its own."""


@dataclass(slots=True, eq=False)
class WorkflowState:
    """Everything the engine knows about a workflow's run."""

    run_id: RunId
    plan: Plan
    inputs: Mapping[str, Any]
    exclusive: frozenset[str]
    """Agents of which only one may be at work at a time."""
    root: Block
    steps: dict[LaneId, StepState] = field(default_factory=dict)
    """Every step that may start, or has."""
    adopted: dict[LaneId, tuple[StepFinished, float]] = field(default_factory=dict)
    """Ends of steps that were taken over from another run before it was their turn."""

    ready: list[tuple[tuple[int, ...], StepState]] = field(default_factory=list)
    """Heap of what may start at once."""
    queued: list[tuple[tuple[int, ...], StepState]] = field(default_factory=list)
    """Heap of what may start when fewer than `parallel_limit` are under way."""
    lines: dict[str, list[tuple[tuple[int, ...], StepState]]] = field(default_factory=dict)
    """Heaps of steps that want an agent who is busy."""
    busy_agents: dict[str, LaneId] = field(default_factory=dict)
    settling: deque[StepState] = field(default_factory=deque)
    """Steps about which something has to be decided now, and some about which it has been."""
    under_way: int = 0
    """Tools and children at work."""
    open: dict[LaneId, StepState] = field(default_factory=dict)
    """Steps that have begun and not come to their end."""
    questions: dict[LaneId, StepState] = field(default_factory=dict)
    """Steps that a person has to answer."""
    children: dict[LaneId, StepState] = field(default_factory=dict)
    """Steps whose work a run of its own does."""
    detached_children: dict[LaneId, StepState] = field(default_factory=dict)
    """Children that have to be driven again."""
    listeners: dict[str, dict[LaneId, StepState]] = field(default_factory=dict)
    """Who waits for which signal."""
    signals: dict[str, deque[SignalReceived]] = field(default_factory=dict)
    """Signals that no step has waited for yet."""
    timers: list[tuple[float, int, StepState, int, str]] = field(default_factory=list)
    """Heap of moments: when, a number, whose, of which attempt, and what for."""
    moves: list[tuple[float, int, StepState, int, str]] = field(default_factory=list)
    """Those of them at which a step goes on by itself: heap of its own."""
    timers_made: int = 0
    on_doubt: OnDoubt = OnDoubt.ASK
    """What becomes of a step that a crash has cut off and that only a person can judge."""

    executed: list[LaneId] = field(default_factory=list)
    """Steps that came to an end here, in that order, without those that were skipped or taken over."""
    failed: list[LaneId] = field(default_factory=list)
    succeeded: int = 0
    halted: str = ""
    """Why nothing new begins any more."""
    timed_out: bool = False
    ended: bool = False
    first_at: float | None = None
    last_at: float = 0.0
    driven_s: float = 0.0
    """Time that counts against the whole workflow's time-out."""
    paused: bool = False
    """The newest event says that no process drives the run."""

    @property
    def definition(self) -> WorkflowDefinition:
        """What the run was started with."""
        return self.plan.definition

    @property
    def asked(self) -> list[ApprovalRequested]:
        """The questions that are not answered yet."""
        return [step.asked for step in self.questions.values() if step.asked] if self.questions else []

    @property
    def open_children(self) -> dict[LaneId, RunId]:
        """The runs that do the work of steps now, by the step's lane."""
        return {lane: step.child_run_id for lane, step in self.children.items() if step.child_run_id is not None}

    @property
    def is_left_to_children(self) -> bool:
        """Nothing is to be done but to go on with other runs, each of which knows how often it was taken over."""
        full = len(self.detached_children) >= self.definition.execution.parallel_limit
        return bool(self.detached_children) and not self.ready and not self.settling and (full or not self.queued)

    @property
    def secret_names(self) -> frozenset[str]:
        """The secrets that its steps may use."""
        return self.plan.secret_names

    def lane_that_asked(self, approval_id: str) -> LaneId | None:
        """Return the step whose question this is, if it still waits for the answer."""
        for lane, step in self.questions.items():
            if step.asked is not None and step.asked.approval_id == approval_id:
                return lane
        return None

    def lane_of_child(self, run_id: RunId) -> LaneId | None:
        """Return the step that a run works for, if its end is still awaited."""
        return next((lane for lane, step in self.children.items() if step.child_run_id == run_id), None)

    def call_of(self, lane: LaneId) -> StepCall:
        """Return what has become of a step's tool call so far; the same number before and after the step has begun."""
        step = self.steps[lane]
        number = step.attempt + (step.phase is StepPhase.READY)
        return StepCall(number, step.calls, step.began_with, step.asked, step.decided)

    def internal_failure(self, lane: LaneId, message: str) -> StepFinished:
        """Return the end of a step that cannot be carried out, through no fault of its own."""
        step = self.steps[lane]
        return StepFinished(
            step_id=step.step.id,
            attempt=max(step.attempt, 1),
            status=StepStatus.FAILED,
            error=message,
            error_type=INTERNAL_ERROR,
        )

    @property
    def deadline(self) -> float | None:
        """When the whole workflow has taken too long, if it is driven from now on."""
        limit = self.definition.execution.timeout_s
        if limit is None or self.timed_out or self.ended or self.paused or self.first_at is None:
            return None
        return self.last_at + max(0.0, limit - self.driven_s)

    @property
    def next_timer(self) -> float | None:
        """The next moment that a step waits for."""
        return self.timers[0][0] if self.timers else None

    @property
    def moves_at(self) -> float | None:
        """The next moment at which a step goes on by itself, and not only gives up."""
        return self.moves[0][0] if self.moves else None

    @property
    def next_due(self) -> float | None:
        """The next moment at which `due` will have something to tell."""
        moments = [each for each in (self.next_timer, self.deadline) if each is not None]
        return min(moments, default=None)

    def due(self, now: float) -> list[tuple[LaneId | None, TimerFired]]:
        """Return what has to be recorded because a moment has come."""
        found: list[tuple[float, int, LaneId, TimerFired]] = []
        places = [0]
        for place in places:  # grows while it is walked: the part of the heap that is not later than now
            if place >= len(self.timers) or self.timers[place][0] > now:
                continue
            moment, number, step, attempt, purpose = self.timers[place]
            if timer_counts(step, attempt, purpose):
                found.append((moment, number, step.lane, TimerFired(step_id=step.step.id, purpose=purpose)))  # type: ignore[arg-type]  # one of three words
            places += (2 * place + 1, 2 * place + 2)
        fired: list[tuple[LaneId | None, TimerFired]] = [
            (lane, body) for _, _, lane, body in sorted(found, key=lambda each: each[:2])
        ]
        deadline = self.deadline
        if deadline is not None and deadline <= now:
            fired.append((None, TimerFired(step_id="", purpose="timeout")))
        return fired

    def __eq__(self, other: object) -> bool:
        """Tell whether two states are alike; steps refer to each other, so they are compared by what they hold."""
        return isinstance(other, WorkflowState) and list(self._summary()) == list(other._summary())

    __hash__ = None  # type: ignore[assignment]  # changes in place

    def _summary(self) -> Iterator[object]:
        yield from (self.run_id, self.definition, self.inputs, self.exclusive, self.root.values)
        yield from (self.root.left, self.root.open, self.root.level, self.root.counts, self.root.broken)
        yield from ((lane, step.summary) for lane, step in self.steps.items())
        for heap in (self.ready, self.queued, *self.lines.values()):
            yield [step.lane for _, step in heap]
        yield [step.lane for step in self.settling]
        yield [(moment, step.lane, attempt, purpose) for moment, _, step, attempt, purpose in self.timers]
        yield from (list(self.open), list(self.detached_children), self.adopted, self.signals, self.busy_agents)
        yield [(name, list(steps)) for name, steps in self.listeners.items() if steps]
        yield from (self.under_way, self.executed, self.failed, self.succeeded, self.halted, self.timed_out, self.ended)
        yield from (self.first_at, self.last_at, self.driven_s, self.paused)
