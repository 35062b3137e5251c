"""Tells operators how runs begin, stop and end. What a run does in between is in its own log."""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Final, NamedTuple

from agent_fabric.application.ports.operations import OperationsLog
from agent_fabric.domain.approval_events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.events import (
    Event,
    ModelFailed,
    PackFailed,
    RunCancelled,
    RunCompleted,
    RunCreated,
    RunFailed,
    RunInterrupted,
    RunResumed,
    RunWaited,
    SecurityViolated,
    SpecialistsRecruited,
)
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.infrastructure.observability.operations_log import bind, bound


class RunLifecycleLog:
    """EventSink that writes one line for each turning point of a run: never a prompt, an answer or a tool's output.

    From a run's beginning on, its id is on everything else that is logged in the same task, too. A run that works for
    another one may do so in that one's task: then the id changes whenever one of the two records something.
    """

    wants_deltas = False

    def __init__(self, log: OperationsLog) -> None:
        self._log = log
        self.discreet_about: Container[RunId] = ()
        """Encrypted runs: of them, no text is told either that may quote what they are about."""

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        if bound().get("run_id") != run_id:  # it begins, or goes on after one that works for it
            bind(run_id=run_id)
        for event in events:
            entry = _ENTRIES.get(type(event.body))
            if entry is not None:
                write = getattr(self._log, entry.level)
                fields = entry.fields(event.body)
                if run_id in self.discreet_about:
                    fields = {name: "(encrypted)" if name in _TEXTS else value for name, value in fields.items()}
                write(event.body.kind, run_id=run_id, **_lane(event), **fields)

    def delta(self, run_id: RunId, lane: LaneId, text: str) -> None:
        """Let it pass."""

    def notice(self, run_id: RunId, text: str) -> None:
        """Signs of life say nothing that lasts."""


class _Entry(NamedTuple):
    level: str
    fields: Callable[[Any], Mapping[str, object]]
    """What a line tells of an event's body."""


_ENTRIES: Final[Mapping[type, _Entry]] = {
    RunCreated: _Entry(
        "info",
        lambda body: {
            "model_key": body.model_key,
            "specialist_ids": body.specialist_ids,
            "sandbox": body.sandbox,
            "network_allowed": body.network_allowed,
        },
    ),
    SpecialistsRecruited: _Entry(
        "debug", lambda body: {"specialist_ids": body.specialist_ids, "routing_method": body.routing_method}
    ),
    RunResumed: _Entry("info", lambda body: {"by": body.by, "driver": body.driver}),
    ApprovalRequested: _Entry(
        "info",
        lambda body: {"approval_id": body.approval_id, "tool": body.tool, "rule": body.rule, "agent": body.agent},
    ),
    ApprovalDecided: _Entry(
        "info",
        lambda body: {
            "approval_id": body.approval_id,
            "decision": body.decision.value,
            "by": body.by,
            "via": body.via,
            "reach": body.reach.value,
        },
    ),
    RunWaited: _Entry("info", lambda body: {"reason": body.reason}),
    RunCompleted: _Entry("info", lambda body: {"specialist_ids": body.specialist_ids}),
    RunFailed: _Entry("error", lambda body: {"code": body.code, "message": body.message}),
    RunCancelled: _Entry("info", lambda body: {"by": body.by, "reason": body.reason}),
    RunInterrupted: _Entry("warning", lambda body: {"reason": body.reason}),
    PackFailed: _Entry("warning", lambda body: {"code": body.code, "message": body.message}),
    SecurityViolated: _Entry(
        "warning",
        lambda body: {"event_type": body.event_type, "tool": body.tool, "message": body.error_message},
    ),
    ModelFailed: _Entry(
        "warning",
        lambda body: {
            "code": body.error_type,
            "message": body.error_message,
            "attempt": body.attempt,
            "retryable": body.retryable,
        },
    ),
}


_TEXTS: Final = frozenset({"message", "reason"})


def _lane(event: Event) -> Mapping[str, object]:
    return {} if event.lane is None else {"lane": event.lane}
