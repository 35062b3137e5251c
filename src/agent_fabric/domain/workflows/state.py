"""The state of a workflow, folded from its events. Only `evolve_workflow` changes it."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent_fabric.domain.approvals.answers import OnDoubt
from agent_fabric.domain.approvals.events import ApprovalRequested
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.workflows.definition import WorkflowDefinition
from agent_fabric.domain.workflows.events import SignalReceived, StepFinished, StepStatus, TimerFired
from agent_fabric.domain.workflows.plan import Plan
from agent_fabric.domain.workflows.step_state import Block, StepCall, StepPhase, StepState, timer_counts

__all__ = ["Block", "StepPhase", "StepState", "WorkflowState"]

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
