"""What else has to be written when events are appended to a run's log.

Every store writes these values in the transaction of the events. None of them decides anything itself.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.events import (
    Event,
    RunCancelled,
    RunCompleted,
    RunCreated,
    RunFailed,
    RunInterrupted,
    RunResumed,
    RunWaited,
)
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.announcements import is_announced
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.domain.workflows.child_run_ids import child_run_id
from agent_fabric.domain.workflows.events import StepFinished, StepRetried, StepStatus

_STATUS_AFTER: Final[Mapping[str, RunStatus]] = {
    RunResumed.kind: RunStatus.RUNNING,
    RunWaited.kind: RunStatus.WAITING,
    RunInterrupted.kind: RunStatus.INTERRUPTED,
    RunCompleted.kind: RunStatus.COMPLETED,
    RunFailed.kind: RunStatus.FAILED,
    RunCancelled.kind: RunStatus.CANCELLED,
}
_APPROVALS: Final = frozenset({ApprovalRequested.kind, ApprovalDecided.kind})
_STEP_ENDS: Final = frozenset({StepFinished.kind, StepRetried.kind})
_WITH_CONSEQUENCES: Final = frozenset({RunCreated.kind, *_STATUS_AFTER, *_APPROVALS, *_STEP_ENDS})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildCancel:
    """A request to children that have not settled."""

    child: RunId | None
    """The one child; None: all of them."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Consequences:
    """What a store writes beside events."""

    status: RunStatus | None = None
    """The run's new status; None: it stays."""
    wake_at: float | None = None
    """When a waiting run goes on by itself."""
    notify_parent: RunId | None = None
    """The run that learns of this one's end, unless it has settled."""
    cancel_children: tuple[ChildCancel, ...] = ()
    approvals: tuple[Event, ...] = ()
    """Events that change approval rows."""
    cancel_approvals: bool = False
    """Whether open approvals end with the run."""
    empty_inbox: bool = False
    """Whether the rest of the inbox will never be read."""
    seal: bool = False
    """Whether the audit chain gets an entry."""
    messages: tuple[Event, ...] = ()
    """Events that may make messages of the session that the run is a turn of."""
    announce_from: int | None = None
    """The first event that other systems are told of; None: they are told of none."""

    @property
    def more_than_seal(self) -> bool:
        """Whether anything has to be written but an entry of the audit chain."""
        return self is not NO_CONSEQUENCES and self != SEAL_ALONE

    @property
    def settles_alone(self) -> bool:
        """Whether the run ends, and no other run has to be told of it: so do most."""
        return self.status is not None and self == Consequences(
            status=self.status, cancel_approvals=True, empty_inbox=True, seal=True
        )


NO_CONSEQUENCES: Final = Consequences()
SEAL_ALONE: Final = Consequences(seal=True)


def has_consequences(kind: str) -> bool:
    """Tell whether anything can follow from events of a kind."""
    return kind in _WITH_CONSEQUENCES


def consequences(run_id: RunId, created: RunCreated | None, events: Sequence[Event]) -> Consequences:
    """Decide what follows from events; `created` is what the run began with, if that is not among them."""
    for event in events:
        if event.body.kind in _WITH_CONSEQUENCES:
            break
    else:
        if created is not None and created.workflow is None:  # so it is in most commits
            return NO_CONSEQUENCES
    found = [event for event in events if event.body.kind in _WITH_CONSEQUENCES]
    announced = _first_announced(created, events)
    if not found:
        return NO_CONSEQUENCES if announced is None else Consequences(announce_from=announced)
    if isinstance(found[0].body, RunCreated):
        created = found[0].body
    status, wake_at = None, None
    approvals: list[Event] = []
    cancels: list[ChildCancel] = []
    for event in found:
        body = event.body
        if body.kind in _STATUS_AFTER:
            status = _STATUS_AFTER[body.kind]
            wake_at = body.until if isinstance(body, RunWaited) else None
        elif body.kind in _APPROVALS:
            approvals.append(event)
        elif isinstance(body, StepFinished | StepRetried) and body.status is StepStatus.FAILED:
            assert event.lane is not None
            child = child_run_id(run_id, event.lane, body.attempt)
            cancels.append(ChildCancel(child=child, reason="its step has ended"))
    settled = status is not None and status.settled
    if settled and created is not None and created.workflow is not None:
        cancels = [ChildCancel(child=None, reason="the workflow has ended")]
    return Consequences(
        status=status,
        wake_at=wake_at,
        notify_parent=created.parent.run_id if settled and created is not None and created.parent else None,
        cancel_children=tuple(cancels),
        approvals=tuple(approvals),
        messages=tuple(found) if created is not None and created.session else (),
        cancel_approvals=settled,
        empty_inbox=settled,
        seal=status is not None or isinstance(found[0].body, RunCreated),
        announce_from=announced,
    )


def _first_announced(created: RunCreated | None, events: Sequence[Event]) -> int | None:
    if created is None and events and isinstance(events[0].body, RunCreated):
        created = events[0].body
    if created is None or created.workflow is None:
        return None
    return next((event.seq for event in events if is_announced(event, of_workflow=True)), None)
