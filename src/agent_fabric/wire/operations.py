"""How a server and its store are."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from agent_fabric.application.observability.check_health import HealthFinding
from agent_fabric.application.ports.vitals import StoreStatus
from agent_fabric.wire.shape import Listing, Shape


class RunCounts(NamedTuple):
    """How busy the server is."""

    running: int
    queued: int


class Health(NamedTuple):
    """How a server is."""

    ok: bool
    """False: runs cannot be kept, because the store was deleted or replaced."""
    version: str
    sandbox: str
    """How strong the sandbox of tools is: C is none."""
    runs: RunCounts
    policy_profile: str = ""
    """`open` lets everything run without a question, except catastrophes; what may be one asks."""

    @property
    def running(self) -> int:
        """Runs that are driven."""
        return self.runs.running

    @property
    def queued(self) -> int:
        """Runs that wait for their turn."""
        return self.runs.queued


class Readiness(NamedTuple):
    """Whether the server takes on work."""

    ready: bool
    failing: Sequence[Literal["store", "disk", "stopping"]]


class AlertStatus(NamedTuple):
    """One rule, and whether it fires."""

    name: str
    status: Literal["quiet", "pending", "firing"]
    severity: Literal["info", "warning", "critical"]
    when: str
    for_s: float
    value: float | None
    since: float | None


class BackupMade(NamedTuple):
    """A backup at the server."""

    path: str
    size_bytes: int
    files: int
    workspaces: bool
    changed: int
    seconds: float


class Diagnosis(NamedTuple):
    """Whether a task could run."""

    ok: bool
    findings: Sequence[HealthFinding]


class Accepted(NamedTuple):
    """A delivery to a webhook has been taken."""

    delivery: str
    """What it is called here; the same when it is delivered again."""
    run_id: str | None
    """The run of the workflow that it started; null if it starts none."""
    repeated: bool
    """Whether it had been delivered before; then nothing followed from it this time."""


HEALTH = Shape(Health)
READINESS = Shape(Readiness)
ALERTS = Listing("alerts", Shape(AlertStatus, name="AlertStanding"), name="AlertList", about="All rules.")
STORE = Shape(StoreStatus, name="StoreStanding")
BACKUP = Shape(BackupMade)
DIAGNOSIS = Shape(Diagnosis, parts=[Shape(HealthFinding, name="DiagnosisLine")])
ACCEPTED = Shape(Accepted)
