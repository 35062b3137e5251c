"""Who wanted what, by which rule or person it was allowed, and what came of it: read from the log of a run."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any

from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.events import Event, RunCancelled, RunCreated, ToolCalled, ToolErred, ToolReturned
from agent_fabric.domain.ids import CallId, LaneId, RunId
from agent_fabric.domain.policy.calls import argument_hash
from agent_fabric.domain.tools.specs import FINISH_TASK


class AuditStatus(StrEnum):
    """What became of a call."""

    PENDING = "pending"
    SUCCESS = "success"
    ERROR = "error"
    BLOCKED = "blocked"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One call."""

    run_id: RunId
    seq: int
    """Of the event that begins it."""
    at: float
    agent: str
    tool: str
    args: Mapping[str, Any]
    args_hash: str
    rule: str
    approval_id: str
    approver: str
    sandbox: str
    status: AuditStatus
    ended_at: float | None = None


def tells_audit(event: Event) -> bool:
    """Tell whether an event matters to `audit_of`; most do not, and need not be kept."""
    return isinstance(event.body, _TELLING)


_TELLING = (RunCreated, ApprovalRequested, ApprovalDecided, ToolCalled, ToolReturned, ToolErred, RunCancelled)
OUTSIDE = "outside"
"""In the place of a box's level: the call has run outside the box, with a person's agreement."""
_BY_ERROR = {"Denied": AuditStatus.DENIED, "ApprovalExpired": AuditStatus.EXPIRED}


def audit_of(run_id: RunId, events: Iterable[Event]) -> list[AuditEntry]:
    """Return every call of a run that reached the gate, in order. Finishing a task is no call."""
    entries: list[AuditEntry] = []
    latest: dict[tuple[LaneId | None, CallId], int] = {}
    deciders: dict[str, str] = {}
    asked: dict[tuple[LaneId | None, CallId], ApprovalRequested] = {}
    sandbox = ""
    for event in events:
        match event.body:
            case RunCreated() as body:
                sandbox = body.sandbox
            case ApprovalRequested() as body:
                asked[event.lane, body.call_id] = body
            case ApprovalDecided() as body:
                deciders[body.approval_id] = body.by
            case ToolCalled() as body if body.tool != FINISH_TASK:
                stopped = latest.get((event.lane, body.call_id))
                if stopped is not None:  # by a crash: this is another attempt
                    entries[stopped] = replace(entries[stopped], status=AuditStatus.ERROR, ended_at=event.ts)
                question = asked.get((event.lane, body.call_id))
                approval = body.approval_id or (question.approval_id if question else "")
                latest[event.lane, body.call_id] = len(entries)
                entries.append(
                    AuditEntry(
                        run_id=run_id,
                        seq=event.seq,
                        at=event.ts,
                        agent=event.lane or "",
                        tool=body.tool,
                        args=body.args,
                        args_hash=body.args_hash or argument_hash(body.args),
                        rule=body.rule or (question.rule if question else ""),
                        approval_id=approval,
                        approver=body.approved_by or deciders.get(approval, ""),
                        sandbox=sandbox if body.outside is None else OUTSIDE,
                        status=AuditStatus.PENDING,
                    )
                )
            case ToolReturned() | ToolErred() as body:
                at = latest.pop((event.lane, body.call_id), None)
                asked.pop((event.lane, body.call_id), None)
                if at is not None:
                    entries[at] = replace(entries[at], status=_status(body), ended_at=event.ts)
            case RunCancelled():
                for at in latest.values():
                    entries[at] = replace(entries[at], status=AuditStatus.CANCELLED, ended_at=event.ts)
            case _:
                pass
    return entries


def _status(body: ToolReturned | ToolErred) -> AuditStatus:
    if isinstance(body, ToolReturned):
        return AuditStatus.SUCCESS
    if body.rule:
        return AuditStatus.BLOCKED
    return _BY_ERROR.get(body.error_type, AuditStatus.ERROR)
