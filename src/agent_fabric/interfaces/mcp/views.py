"""Runs as programs that speak MCP see them: short, because a model reads it."""

from typing import Any

from agent_fabric.application.ports.runs import RunRecord
from agent_fabric.domain.events import Event, ToolCalled, ToolReturned
from agent_fabric.domain.runs.effects import warning
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.wire.results import EFFECTS, PROOF

MAX_CHARS = 2_000
"""Longer texts of events are cut: `fabric logs show` has them whole."""


def ended(result: RunResult) -> dict[str, Any]:
    """Return how a run stands, and what came of it as far as it has ended."""
    told = warning(result.effects, result.outcome) if result.status is RunStatus.COMPLETED else ""
    shown: dict[str, Any] = {
        **({"warning": told} if told else {}),  # first: what is read first is believed
        "run_id": result.run_id,
        "status": result.status.value,
        "result": dict(result.payload),
        "workspace": result.workspace,
    }
    if result.status is RunStatus.COMPLETED:
        shown["proof"] = PROOF.dump(result.proof)
        shown["outcome"] = result.outcome
    if result.effects:
        shown["effects"] = EFFECTS.dump(result.effects)
    if result.error is not None:
        shown["error"] = {"code": result.error.code, "message": result.error.message, "hint": result.error.hint}
    if result.waiting_for:
        shown["approvals"] = list(result.waiting_for)
    return shown


def listed(record: RunRecord) -> dict[str, Any]:
    """Return one line about a run."""
    return {
        "run_id": record.run_id,
        "status": record.status.value,
        "created_at": record.created_at,
        "task": _short(record.prompt),
        "summary": _short(record.summary),
    }


def event_words(event: Event) -> str:
    """Return an event in a few words, for a line that shows progress."""
    return f"{event.body.kind}: {event.body.tool}" if isinstance(event.body, ToolCalled) else event.body.kind


def happened(event: Event) -> dict[str, Any]:
    """Return an event as one who follows a run needs it."""
    shown: dict[str, Any] = {"seq": event.seq, "kind": event.body.kind}
    if isinstance(event.body, ToolCalled):
        shown |= {"tool": event.body.tool, "args": _short(str(dict(event.body.args)))}
    elif isinstance(event.body, ToolReturned):
        shown |= {"tool": event.body.tool, "result": _short(str(event.body.result))}
    return shown


def _short(text: str) -> str:
    return text if len(text) <= MAX_CHARS else text[: MAX_CHARS - 1] + "…"
