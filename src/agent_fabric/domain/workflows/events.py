"""What happens to the steps of a workflow; see `events` for the contract.

Every one of them carries its step's lane. A step's lane is its id, or, inside a `for-each`, `EACH[3].ID`.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, ClassVar, Literal

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.effects import Effects


class StepStatus(StrEnum):
    """How a step stands."""

    RUNNING = "running"
    WAITING = "waiting"
    SUCCESS = "success"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """An attempt at a step begins, with these inputs."""

    kind: ClassVar = "step_started"

    step_id: str
    action: str
    attempt: int
    inputs: Mapping[str, Any]
    """As resolved. Secrets stand in it as references."""
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Which values fed which input: `{"text": ("fetch.body", "inputs.topic")}`."""
    child_run_id: RunId | None = None
    """The run that does the step's work, if it is an agent or another workflow."""
    status: StepStatus = StepStatus.RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWaited:
    """A step waits: for time to pass, for a signal, or for the run that does its work and that waits itself."""

    kind: ClassVar = "step_waiting"

    step_id: str
    attempt: int
    seconds: float | None = None
    """Counted from this event."""
    until: float | None = None
    """Seconds since 1970."""
    event: str = ""
    """The name of the signal."""
    timeout_s: float | None = None
    """After so long the step fails; None: it waits for ever."""
    approvals: tuple[str, ...] = ()
    """What the run that does its work waits for."""
    status: StepStatus = StepStatus.WAITING


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRetried:
    """An attempt failed, and another one follows after a while."""

    kind: ClassVar = "step_retrying"

    step_id: str
    attempt: int
    """The one that failed."""
    error: str
    error_type: str
    delay_s: float
    """Counted from this event."""
    status: StepStatus = StepStatus.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished:
    """A step is done, for good."""

    kind: ClassVar = "step_finished"

    step_id: str
    attempt: int
    status: StepStatus
    outputs: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    error_type: str = ""
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Which values fed which output."""
    reused_from: RunId | None = None
    """The run that really did it, if this one only goes on from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired:
    """The time that a step waited for has come."""

    kind: ClassVar = "timer_fired"

    step_id: str
    purpose: Literal["wait", "retry", "timeout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalReceived:
    """A signal told the workflow that something has happened. Kept for the first step that waits for it."""

    kind: ClassVar = "signal_received"

    name: str
    data: Mapping[str, Any] = field(default_factory=dict)
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildFinished:
    """The run that a step left its work to has come to its end."""

    kind: ClassVar = "child_finished"

    step_id: str
    child_run_id: RunId
    run_status: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""
    error_type: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    untrusted: tuple[str, ...] = ()
    """Where untrusted text that it has read came from: its result may hold some."""
    private: tuple[str, ...] = ()
    """What it has read that the world must not have."""
    addresses: tuple[str, ...] = ()
    """Addresses in its result that it has read, or its owner wrote."""
    effects: Effects | None = None
    """What it was denied, what failed, left and changed, and is in doubt; None: nothing, or an older log."""
