"""The actions of a workflow, beside recording events."""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import LaneId
from agent_fabric.domain.models.messages import ToolCallRequest
from agent_fabric.domain.workflows.events import StepFinished, StepRetried, StepStarted

if TYPE_CHECKING:  # every run imports this module, few have steps
    from agent_fabric.domain.workflows.definition import Step


@dataclass(frozen=True, slots=True)
class CallStepTool:
    """Let the tool run that does a step's work; the policy and perhaps a person are asked first."""

    lane: LaneId
    step: "Step"
    call: ToolCallRequest
    attempt: int
    started: StepStarted | None
    """To be recorded first; None when the attempt has begun and a person has been asked since."""


@dataclass(frozen=True, slots=True)
class AskAboutStep:
    """Let a person say what became of a step that was under way when the program was stopped."""

    lane: LaneId
    step: "Step"
    call: ToolCallRequest


@dataclass(frozen=True, slots=True)
class AskPerson:
    """Let a person answer a step's question."""

    lane: LaneId
    step: "Step"
    started: StepStarted | None
    """To be recorded first; None when it stands in the log and the program was stopped before it could ask."""
    message: str
    form: Mapping[str, Any]
    """JSON schema of what the person fills in; empty: only yes or no."""
    timeout_s: float | None


@dataclass(frozen=True, slots=True)
class RunChild:
    """Let a run of its own do a step's work, or go on with it after a crash."""

    lane: LaneId
    step: "Step"
    started: StepStarted
    kind: Literal["agent", "workflow"]
    name: str
    inputs: Mapping[str, Any]
    begun: bool
    """The child exists already: `started` stands in the log."""
    state: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What the step can see of the workflow, for the prompts of an agent."""


@dataclass(frozen=True, slots=True)
class StopStep:
    """End what a step has under way: it took too long, or the rest of the workflow does not need it any more."""

    lane: LaneId
    reason: str
    ended: StepFinished | StepRetried
    """To be recorded when it has been ended."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing moves before a moment comes or something happens outside."""

    lane: None
    reason: str
    until: float | None
    """When a time-out, at the latest, ends the waiting."""
    approvals: tuple[str, ...]
    moves_at: float | None = None
    """When a step goes on by itself; None: only an event from outside can make one go on."""


StepAction = CallStepTool | AskAboutStep | AskPerson | RunChild | StopStep | Wait
