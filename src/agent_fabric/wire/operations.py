"""How a server and its store are."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from agent_fabric.application.ports.vitals import StoreStatus
from agent_fabric.application.ports.webhooks import Received
from agent_fabric.domain.observability.findings import HealthFinding
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
    """`open` lets everything run without a question, except catastrophes; push, deploy and what may be one ask."""

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


HEALTH = Shape(Health)
READINESS = Shape(Readiness)
ALERTS = Listing("alerts", Shape(AlertStatus, name="AlertStanding"), name="AlertList", about="All rules.")
STORE = Shape(StoreStatus, name="StoreStanding")
BACKUP = Shape(BackupMade)
DIAGNOSIS = Shape(Diagnosis, parts=[Shape(HealthFinding, name="DiagnosisLine")])
ACCEPTED = Shape(
    Received,
    "delivery=delivery_id run_id repeated=is_repeated",
    name="Accepted",
    about="A delivery to a webhook has been taken.",
)
