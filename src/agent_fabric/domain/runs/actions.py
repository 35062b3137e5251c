"""What a run may do next. `decide` chooses among these; `perform` carries them out."""

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.events import Body
from agent_fabric.domain.ids import LaneId, SpecialistId
from agent_fabric.domain.models.messages import ToolCallRequest
from agent_fabric.domain.workflows.actions import StepAction


@dataclass(frozen=True, slots=True)
class Record:
    """Write down what follows from the state alone."""

    lane: LaneId | None
    bodies: tuple[Body, ...]


@dataclass(frozen=True, slots=True)
class Recruit:
    """Find out who does the task."""


@dataclass(frozen=True, slots=True)
class OpenLane:
    """Let a specialist begin."""

    specialist_id: SpecialistId
    index: int


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the lane's model for its next step."""

    lane: LaneId
    attempt: int
    delay_s: float
    must_finish: bool


@dataclass(frozen=True, slots=True)
class CallTool:
    """Let a tool run."""

    lane: LaneId
    call: ToolCallRequest
    attempt: int


@dataclass(frozen=True, slots=True)
class AskWhatHappened:
    """Let a person say what became of a call that may have reached the world outside before a crash."""

    lane: LaneId
    call: ToolCallRequest


@dataclass(frozen=True, slots=True)
class Compact:
    """Replace messages `first` up to `last` of a lane by a summary."""

    lane: LaneId
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class LookAtChanges:
    """See what has changed in the workspace, before a lane's result is judged."""

    lane: LaneId


Action = Record | Recruit | OpenLane | CallModel | CallTool | AskWhatHappened | Compact | LookAtChanges | StepAction


def lane_of(action: Action) -> LaneId | None:
    """Return the lane that an action belongs to; None: the whole run."""
    match action:
        case Recruit():
            return None
        case OpenLane():
            return LaneId(action.specialist_id)
        case _:
            return action.lane
