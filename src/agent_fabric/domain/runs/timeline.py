"""A run as spans of time: what each lane did, and what it waited for."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from agent_fabric.domain.approvals.events import ApprovalDecided, ApprovalRequested
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.events import (
    ContextCompacted,
    Event,
    ModelAnswered,
    ModelCalled,
    ModelFailed,
    RunCreated,
    RunResumed,
    RunWaited,
    ToolCalled,
    ToolErred,
    ToolReturned,
)
from agent_fabric.domain.runs.task import RunStatus

MODEL: Final = "model"
TOOL: Final = "tool"
WAIT: Final = "wait"
"""Kinds of spans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Something that took time."""

    kind: str
    """`model`, `tool` or `wait`."""
    lane: str
    """Empty: the whole run."""
    label: str
    """The model, the tool, or what was waited for."""
    first_seq: int
    """The event that it began with."""
    last_seq: int | None = None
    """The event that it ended with; None: it goes on."""
    start: float
    """Seconds since 1970."""
    end: float | None = None
    failed: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """All spans of a run, in the order in which they began."""

    started_at: float
    updated_at: float
    events: int
    lanes: tuple[str, ...]
    spans: tuple[Span, ...]
    prompt_tokens: int
    completion_tokens: int
    status: RunStatus


def timeline_of(events: Iterable[Event], status: RunStatus) -> Timeline:
    """Return when what happened in a run."""
    spans: list[Span] = []
    under_way: dict[tuple[str, str], int] = {}
    lanes: dict[str, None] = {}
    started_at = updated_at = 0.0
    count = 0
    for event in events:
        count += 1
        updated_at = event.ts
        lane = event.lane or ""
        if lane:
            lanes[lane] = None
        if isinstance(event.body, RunCreated):
            started_at = event.ts
        for kind, key in _ended_by(event):
            if (index := under_way.pop((lane if kind != WAIT or key else "", f"{kind} {key}"), None)) is not None:
                spans[index] = _end_span(spans[index], event)
        if (begun := _begun_by(event, lane)) is not None:
            key, span = begun
            under_way[span.lane, f"{span.kind} {key}"] = len(spans)
            spans.append(span)
    return Timeline(
        started_at=started_at,
        updated_at=updated_at,
        events=count,
        lanes=tuple(lanes),
        spans=tuple(spans),
        prompt_tokens=sum(each.prompt_tokens for each in spans),
        completion_tokens=sum(each.completion_tokens for each in spans),
        status=status,
    )


def _begun_by(event: Event, lane: str) -> tuple[str, Span] | None:
    match event.body:
        case ModelCalled() as body:
            label = body.model if body.purpose == "turn" else f"{body.model} ({body.purpose})"
            return "", Span(kind=MODEL, lane=lane, label=label, first_seq=event.seq, start=event.ts)
        case ToolCalled() as body:
            return body.call_id, Span(kind=TOOL, lane=lane, label=body.tool, first_seq=event.seq, start=event.ts)
        case ApprovalRequested() as body:
            label = f"approval: {body.tool}"
            return body.approval_id, Span(kind=WAIT, lane=lane, label=label, first_seq=event.seq, start=event.ts)
        case RunWaited() as body:
            return "", Span(kind=WAIT, lane="", label=body.reason, first_seq=event.seq, start=event.ts)
        case _:
            return None


def _ended_by(event: Event) -> tuple[tuple[str, str], ...]:
    match event.body:
        case ModelAnswered() | ModelFailed() | ContextCompacted():
            return ((MODEL, ""),)
        case ToolReturned() | ToolErred() as body:
            return ((TOOL, body.call_id),)
        case ApprovalDecided() as body:
            return ((WAIT, body.approval_id),)
        case RunResumed():
            return ((WAIT, ""),)
        case _:
            return ()


def _end_span(span: Span, event: Event) -> Span:
    span = replace(span, last_seq=event.seq, end=event.ts, failed=isinstance(event.body, ModelFailed | ToolErred))
    if isinstance(event.body, ModelAnswered | ContextCompacted):
        usage = event.body.usage
        span = replace(span, prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens)
    return span
