"""What other systems are told of a run: the messages that follow from its events, under the subjects they know."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from agent_fabric.domain.events import Event, RunCancelled, RunCompleted, RunCreated, RunFailed
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.effects import Effects, Outcome, open_lines
from agent_fabric.domain.workflows.events import StepStarted

WORKFLOW_STARTED: Final = "agent33.workflow.started"
WORKFLOW_COMPLETED: Final = "agent33.workflow.completed"
"""It has come to its end, well or badly; `status` tells."""
AGENT_INVOKED: Final = "agent33.agent.invoked"
_INVOKING: Final = "invoke-agent"
_ENDS: Final = frozenset({RunCompleted.kind, RunFailed.kind, RunCancelled.kind})
ANNOUNCED: Final = _ENDS | {RunCreated.kind, StepStarted.kind}
"""Kinds of events that others may be told of; see `is_announced`."""


class Announcement(NamedTuple):
    """A message that follows from one event."""

    seq: int
    subject: str
    payload: Mapping[str, Any]

    def with_outcome(self, outcome: Outcome, effects: Effects | None, discreet: bool) -> "Announcement":
        """Return the same with what the run came to, and what it was kept from doing."""
        not_done = [] if effects is None or discreet else [*open_lines(effects)]
        return self._replace(payload={**self.payload, "outcome": outcome.value, "not_done": not_done})


def is_announced(event: Event, *, of_workflow: bool) -> bool:
    """Tell whether an event of a run, or of a workflow, is told."""
    match event.body:
        case RunCreated(workflow=workflow):
            return workflow is not None
        case StepStarted(action=action):
            return action == _INVOKING
        case body:
            return of_workflow and body.kind in _ENDS


def announcements(run_id: RunId, events: Sequence[Event], *, discreet: bool) -> Iterator[Announcement]:
    """Yield what is told of events of a workflow, in their order.

    `discreet`: nothing is told that may quote the run; it is encrypted.
    """
    for event in events:
        match event.body:
            case RunCreated(workflow=workflow) if workflow is not None:
                name, version = workflow.definition["name"], workflow.definition.get("version")
                told = {"run_id": run_id, "workflow": name, "version": version, "at": event.ts}
                yield Announcement(event.seq, WORKFLOW_STARTED, told)
            case StepStarted(action=action) as step if action == _INVOKING:
                told = {"run_id": run_id, "step_id": step.step_id, "attempt": step.attempt}
                told |= {"child_run_id": step.child_run_id, "at": event.ts}
                yield Announcement(event.seq, AGENT_INVOKED, told)
            case RunCompleted(payload=payload) as body:
                ended = _end_announcement(run_id, event, payload, str(payload.get("status", "success")))
                yield ended if body.outcome is None else ended.with_outcome(body.outcome, body.effects, discreet)
            case RunFailed(payload=payload, message=message):
                error = "" if discreet else message
                yield _end_announcement(run_id, event, payload, str(payload.get("status", "failed")), error)
            case RunCancelled(reason=reason):
                yield _end_announcement(run_id, event, {}, "cancelled", "" if discreet else reason)
            case _:
                pass


def _end_announcement(
    run_id: RunId, event: Event, payload: Mapping[str, Any], status: str, error: str = ""
) -> Announcement:
    told = {
        "run_id": run_id,
        "status": status,
        "steps_executed": payload.get("steps_executed", []),
        "duration_ms": payload.get("duration_ms"),
        "error": error or None,
        "at": event.ts,
    }
    return Announcement(event.seq, WORKFLOW_COMPLETED, told)
