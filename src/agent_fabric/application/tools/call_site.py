"""Where a call comes from."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from agent_fabric.domain.approvals.answers import Grant
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.policy.labels import NOTHING_READ, Flow
from agent_fabric.domain.policy.outside_plan import Outside
from agent_fabric.domain.runs.state import Lane, RunState
from agent_fabric.domain.tools.allowlists import Allowlists

if TYPE_CHECKING:  # most runs have no skills
    from agent_fabric.domain.tools.skills import AllowedTools


class CallSite(NamedTuple):
    """What the run knows about a call beside the call itself."""

    run_id: RunId
    lane: LaneId
    step: int
    agent: str
    target: str
    """Where the call would happen: the workspace, or another machine."""
    scopes: frozenset[str]
    """Scopes of the user behind the run; empty: not limited."""
    root: RunId | None = None
    """The run above all others that it works for; None: it works for no other."""
    attempt: int = 0
    """How often the call has been begun."""
    began_with: Mapping[str, Any] = MappingProxyType({})
    """The arguments of the attempt before; a person may have changed them."""
    node: str = ""
    """The machine of the fleet that a call to machines means if it names none; empty: it has to name one."""
    flow: Flow = NOTHING_READ
    """What the run has read so far, and sent unasked."""
    grants: Sequence[Grant] = ()
    asked: ApprovalRequested | None = None
    """What a person was asked about this call."""
    decided: ApprovalDecided | None = None
    outside: Outside | None = None
    """What the call would do outside the box; None: it would run in the box."""
    outside_allowed: bool = True
    """Whether a command that a person agrees to may run outside the box."""
    unattended: bool = False
    """No person can be asked: what needs one is refused."""
    by_itself: bool = False
    """A model makes the call in a run that a schedule or a trigger has started."""
    plans: bool = False
    """The run only makes a plan."""
    limits: tuple[Allowlists, ...] = ()
    """The agent's own allowlists, and those of skills that it has read."""
    narrowed: "tuple[AllowedTools, ...]" = ()
    """What the skills that it has read leave of its tools."""
    secrets: frozenset[str] = frozenset()
    """Secrets that the call may name as `${secret:NAME}`: those that a person has written into the workflow. Others are
    plain text, so that neither a model nor a page can ask for one."""


def user_scopes(state: RunState) -> frozenset[str]:
    """Return the scopes of the user behind a run; empty: not limited."""
    return frozenset() if state.task is None else frozenset(state.task.user_scopes)


def own_limits(state: RunState, lane: Lane | None = None) -> tuple[Allowlists, ...]:
    """Return the allowlists of the agent that does a run, and of the skills that it has read."""
    limits = () if state.task is None or state.task.agent is None else state.task.agent.limits
    return (
        limits
        if lane is None or not lane.narrowed
        else (*limits, *(each for left in lane.narrowed for each in left.limits))
    )
