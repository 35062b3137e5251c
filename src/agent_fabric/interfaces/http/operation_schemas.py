"""What operators send and get over HTTP."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Readiness(BaseModel):
    """Whether work is welcome."""

    ready: bool
    failing: list[Literal["store", "disk", "stopping"]]


class AlertStanding(BaseModel):
    """One rule, and how it stands."""

    name: str
    status: Literal["quiet", "pending", "firing"]
    severity: Literal["info", "warning", "critical"]
    when: str
    for_s: float
    value: float | None
    since: float | None


class AlertList(BaseModel):
    """All rules."""

    alerts: list[AlertStanding]


class StoreStanding(BaseModel):
    """How the store stands."""

    path: str
    format: int
    size_bytes: int
    wal_bytes: int
    unused_bytes: int
    free_bytes: int
    runs: dict[str, int]
    events: int
    blobs: int
    oldest_run_at: float | None
    served: bool
    damage: list[str] | None


class BackupRequest(BaseModel):
    """What to put into a backup."""

    model_config = ConfigDict(extra="forbid", strict=True)

    workspaces: bool = True


class BackupMade(BaseModel):
    """A backup at the server."""

    path: str
    size_bytes: int
    files: int
    workspaces: bool
    changed: int
    seconds: float


class DiagnosisLine(BaseModel):
    """One thing that was looked at."""

    about: str
    level: Literal["ok", "warn", "fail"]
    text: str
    fix: str


class Diagnosis(BaseModel):
    """Whether a task could run."""

    ok: bool
    findings: list[DiagnosisLine]
