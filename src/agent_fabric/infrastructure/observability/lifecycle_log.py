"""Tells operators how runs begin, stop and end. What a run does in between is in its own log."""

from collections.abc import Container, Mapping, Sequence
from typing import Final

from agent_fabric.application.ports.events import EventsOnly
from agent_fabric.application.ports.operations import OperationsLog
from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
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
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.observability.operations_log import bind, bound_fields


class RunLifecycleLog(EventsOnly):
    """EventSink that writes one line for each turning point of a run: never a prompt, an answer or a tool's output.

    From a run's beginning on, its id is on everything else that is logged in the same task, too. A run that works for
    another one may do so in that one's task: then the id changes whenever one of the two records something.
    """

    def __init__(self, log: OperationsLog) -> None:
        self._log = log
        self.discreet_about: Container[RunId] = ()
        """Encrypted runs: of them, no text is told either that may quote what they are about."""

    def publish(self, run_id: RunId, events: Sequence[Event]) -> None:
        if bound_fields().get("run_id") != run_id:  # it begins, or goes on after one that works for it
            bind(run_id=run_id)
        for event in events:
            entry = _ENTRIES.get(type(event.body))
            if entry is not None:
                level, names = entry
                fields = _fields(event.body, names)
                if run_id in self.discreet_about:
                    fields = {name: "(encrypted)" if name in _TEXTS else value for name, value in fields.items()}
                getattr(self._log, level)(event.body.kind, run_id=run_id, **_lane(event), **fields)


_ENTRIES: Final[Mapping[type, tuple[str, str]]] = {
    RunCreated: ("info", "model_key specialist_ids sandbox network_allowed"),
    SpecialistsRecruited: ("debug", "specialist_ids routing_method"),
    RunResumed: ("info", "by driver"),
    ApprovalRequested: ("info", "approval_id tool rule agent"),
    ApprovalDecided: ("info", "approval_id decision by via reach"),
    RunWaited: ("info", "reason"),
    RunCompleted: ("info", "specialist_ids"),
    RunFailed: ("error", "code message"),
    RunCancelled: ("info", "by reason"),
    RunInterrupted: ("warning", "reason"),
    PackFailed: ("warning", "code message"),
    SecurityViolated: ("warning", "event_type tool message=error_message"),
    ModelFailed: ("warning", "code=error_type message=error_message attempt retryable"),
}
"""Level of the line for each kind of event, and the attributes that it shows, `as=attribute` where names differ."""

_TEXTS: Final = frozenset({"message", "reason"})


def _fields(body: object, names: str) -> dict[str, object]:
    pairs = (name.partition("=") for name in names.split())
    return {shown: getattr(body, attribute or shown) for shown, _, attribute in pairs}


def _lane(event: Event) -> Mapping[str, object]:
    return {} if event.lane is None else {"lane": event.lane}
