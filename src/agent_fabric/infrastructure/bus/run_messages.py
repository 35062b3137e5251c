"""Tells the bus what becomes of workflows and agents."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent_fabric.application.ports.bus import AGENT_INVOKED, WORKFLOW_COMPLETED, WORKFLOW_STARTED, Bus
from agent_fabric.application.ports.events import EventsOnly
from agent_fabric.domain.events import Event, RunCancelled, RunCompleted, RunCreated, RunFailed
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.workflow_events import StepStarted


class RunMessages(EventsOnly):
    """EventSink that publishes the messages that other systems know."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._workflows: set[RunId] = set()
        """Those under way."""

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        for event in events:
            match event.body:
                case RunCreated() as body:
                    self._created(run_id, event.ts, body)
                case StepStarted() as body:
                    self._workflows.add(run_id)  # it may have been created by another process
                    if body.action == "invoke-agent":
                        self._invoked(run_id, event, body)
                case RunCompleted(payload=payload) if run_id in self._workflows:
                    self._ended(run_id, event.ts, payload, str(payload.get("status", "success")))
                case RunFailed(payload=payload, message=message) if run_id in self._workflows:
                    self._ended(run_id, event.ts, payload, str(payload.get("status", "failed")), error=message)
                case RunCancelled(reason=reason) if run_id in self._workflows:
                    self._ended(run_id, event.ts, {}, "cancelled", error=reason)
                case _:
                    pass

    def _created(self, run_id: RunId, at: float, body: RunCreated) -> None:
        if body.workflow is None:
            return
        self._workflows.add(run_id)
        definition = body.workflow.definition
        message = {"run_id": run_id, "workflow": definition["name"], "version": definition.get("version"), "at": at}
        self._bus.publish(WORKFLOW_STARTED, message)

    def _invoked(self, run_id: RunId, event: Event, body: StepStarted) -> None:
        self._bus.publish(
            AGENT_INVOKED,
            {
                "run_id": run_id,
                "step_id": body.step_id,
                "attempt": body.attempt,
                "child_run_id": body.child_run_id,
                "at": event.ts,
            },
        )

    def _ended(self, run_id: RunId, at: float, payload: Mapping[str, Any], status: str, *, error: str = "") -> None:
        self._workflows.discard(run_id)
        message = {
            "run_id": run_id,
            "status": status,
            "steps_executed": payload.get("steps_executed", []),
            "duration_ms": payload.get("duration_ms"),
            "error": error or None,
            "at": at,
        }
        self._bus.publish(WORKFLOW_COMPLETED, message)
