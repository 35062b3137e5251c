"""Where one step stands, and one list of steps. Only `evolve_workflow` changes them."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, NamedTuple

from agent_fabric.domain.approval_events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.events import ToolErred, ToolReturned
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.workflow_events import ChildFinished, SignalReceived, StepStatus, TimerFired
from agent_fabric.domain.workflows.definition import Step
from agent_fabric.domain.workflows.plan import Node, Row


class Phase(Enum):
    """What a step does next, or waits for."""

    READY = auto()
    """May start as soon as there is room for it."""
    BEGUN = auto()
    """Started; what follows from that comes at once, unless the program was stopped in between."""
    HALF_BEGUN = auto()
    """The program was stopped in between."""
    CALLED = auto()
    """Its tool runs."""
    IN_DOUBT = auto()
    """Its tool was under way when the program was stopped."""
    ASKED = auto()
    """A person has to answer."""
    CALL_DUE = auto()
    """The attempt has begun, and now its tool may run."""
    WAITING = auto()
    """For time or for a signal."""
    DELAYED = auto()
    """Until the next attempt."""
    CHILD = auto()
    """A run of its own does the work."""
    CHILD_WAITS = auto()
    """That run waits for somebody."""
    CHILD_LEFT = auto()
    """That run was left alone when the program was stopped."""
    OPEN = auto()
    """The steps inside it are under way."""
    JUDGING = auto()
    """Everything is there to say how the attempt ended."""
    STOPPING = auto()
    """What it has under way has to be ended."""
    DONE = auto()


Outcome = ToolReturned | ToolErred | ApprovalDecided | ChildFinished | SignalReceived | TimerFired
"""What an attempt came to."""


class StepCall(NamedTuple):
    """A step's tool call, for whoever makes it."""

    number: int
    """Which attempt at the step it belongs to."""
    attempt: int
    """How often the call has been begun in it."""
    began_with: Mapping[str, Any]
    asked: ApprovalRequested | None
    decided: ApprovalDecided | None


class StepState:
    """One step, or one of a `for-each` for one item, from the moment when it may start."""

    __slots__ = (
        "asked",
        "attempt",
        "began_with",
        "block",
        "blocks",
        "branch",
        "calls",
        "child_asks",
        "child_run_id",
        "cut",
        "decided",
        "error",
        "error_type",
        "filling",
        "finished_at",
        "inner_open",
        "inputs",
        "items",
        "items_open",
        "lane",
        "listens_to",
        "next_item",
        "node",
        "order",
        "outcome",
        "outputs",
        "phase",
        "reason",
        "reused_from",
        "started_at",
        "status",
    )

    def __init__(self, lane: LaneId, node: Node, block: "Block") -> None:
        self.lane = lane
        self.node = node
        self.block = block
        """The list that it is run in."""
        self.order: tuple[int, ...] = (*block.order, node.index)
        """Its place in the definition, to start what stands first."""
        self.phase = Phase.READY
        self.status: StepStatus | None = None
        """How it ended."""
        self.attempt = 0
        self.inputs: Mapping[str, Any] = {}
        self.started_at: float | None = None
        self.finished_at: float | None = None
        self.outputs: Mapping[str, Any] = {}
        self.error = ""
        self.error_type = ""
        self.reused_from: RunId | None = None
        self.outcome: Outcome | None = None
        self.asked: ApprovalRequested | None = None
        """What a person was asked about this attempt."""
        self.decided: ApprovalDecided | None = None
        self.calls = 0
        """How often this attempt's tool was begun."""
        self.began_with: Mapping[str, Any] = {}
        """Arguments of the newest call that was begun, as they were executed."""
        self.child_run_id: RunId | None = None
        self.child_asks: tuple[str, ...] = ()
        """Questions that the child waits for."""
        self.listens_to = ""
        """The signal that it waits for."""
        self.reason = ""
        """Why it has to be stopped."""
        self.branch = ""
        """Of a `conditional`: what it has chosen."""
        self.items: list[Any] = []
        """Of a `for-each`."""
        self.next_item = 0
        self.items_open = 0
        self.inner_open = 0
        """Of a container: steps right inside it that have begun and not come to their end."""
        self.filling = False
        """Items are being begun right now."""
        self.blocks: list[Block] = []
        """Of a container: the lists that it has begun, one for each item of a `for-each`."""
        self.cut: tuple[str, str] | None = None
        """Of a container: type and text of the error that keeps it from beginning anything new."""

    def __lt__(self, other: object) -> bool:
        """Leave the order of two entries for the same step in a heap open."""
        return False

    @property
    def step(self) -> Step:
        """The step as the definition tells it."""
        return self.node.step

    @property
    def summary(self) -> tuple[object, ...]:
        """Everything that can differ between two states of the same step."""
        return (
            self.phase,
            self.status,
            self.attempt,
            self.inputs,
            self.started_at,
            self.finished_at,
            self.outputs,
            self.error,
            self.error_type,
            self.outcome,
            self.asked,
            self.decided,
            self.calls,
            self.child_run_id,
            self.reason,
            self.next_item,
            self.items_open,
            self.cut,
            [(block.left, block.open, block.level, block.counts, block.broken) for block in self.blocks],
        )


class Block:
    """A list of steps under way: of the workflow itself, of a container, or of one item of a `for-each`."""

    __slots__ = (
        "broken",
        "counts",
        "index",
        "left",
        "level",
        "level_left",
        "open",
        "order",
        "owner",
        "prefix",
        "row",
        "values",
    )

    def __init__(
        self, row: Row, owner: StepState | None, index: int | None, values: dict[str, Mapping[str, Any]]
    ) -> None:
        self.row = row
        self.owner = owner
        self.index = index
        """Of the item, in a `for-each`."""
        self.values = values
        """Outputs of the steps that succeeded, by id; one mapping for the workflow and one for each item."""
        self.counts = list(row.counts)
        """How many steps each one still waits for."""
        self.left = len(row.nodes)
        """Steps that have not come to their end."""
        self.open = 0
        """Steps that have begun and not come to their end."""
        self.level = 0
        self.level_left = len(row.levels[0]) if row.levels else 0
        self.broken: dict[int, str] = {}
        """Steps that nobody can build on any more, and which failed step is to blame."""
        self.prefix = ""
        """What stands before the ids of its steps in their lanes."""
        self.order: tuple[int, ...] = ()
        if owner is not None:
            self.prefix = f"{owner.lane}[{index}]." if index is not None else owner.block.prefix
            self.order = (*owner.order, index) if index is not None else owner.order


_WITHOUT_TIMEOUT = frozenset({Phase.READY, Phase.DELAYED, Phase.JUDGING, Phase.STOPPING, Phase.DONE})


def timer_counts(step: StepState, attempt: int, purpose: str) -> bool:
    """Tell whether anybody still waits for a moment."""
    if step.attempt != attempt:
        return False
    match purpose:
        case "retry":
            return step.phase is Phase.DELAYED
        case "wait":
            return step.phase is Phase.WAITING
        case _:
            return step.phase not in _WITHOUT_TIMEOUT
