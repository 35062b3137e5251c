"""A run as a response, in the shape of OpenAI's Responses API."""

import time
from dataclasses import dataclass, replace
from typing import Any, Self

from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.messages import Usage
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.http.openai.answers import Told

PREFIX = "resp_"
_STATUSES = {
    RunStatus.RUNNING: "in_progress",
    RunStatus.WAITING: "incomplete",
    RunStatus.INTERRUPTED: "incomplete",
    RunStatus.COMPLETED: "completed",
    RunStatus.FAILED: "failed",
    RunStatus.CANCELLED: "cancelled",
}
"""Whoever asks again and again stops at `incomplete`: without a person, nothing would change."""
_INCOMPLETE = {RunStatus.WAITING: "waiting_for_person", RunStatus.INTERRUPTED: "interrupted"}


@dataclass(frozen=True, slots=True)
class ResponseState:
    """A run as it stands."""

    run_id: RunId
    model: str
    status: RunStatus
    created_at: float = 0.0
    """0: now."""
    previous: str | None = None
    told: Told | None = None
    """What came of it, if anything did."""

    def become(self, told: Told) -> Self:
        """Return the same with what has come of it; the run may be another attempt."""
        return replace(self, told=told, status=told.result.status, run_id=told.result.run_id)


def response_object(standing: ResponseState) -> dict[str, Any]:
    """Return everything that clients look for."""
    told = standing.told
    said = told is not None and told.text and standing.status is not RunStatus.RUNNING
    error = told.result.error if told is not None else None
    reason = _INCOMPLETE.get(standing.status)
    return {
        "id": f"{PREFIX}{standing.run_id}",
        "object": "response",
        "created_at": int(standing.created_at or time.time()),
        "status": _STATUSES[standing.status],
        "background": False,
        "error": None if error is None else {"code": error.code, "message": error.message, "hint": error.hint},
        "incomplete_details": None if reason is None else {"reason": reason},
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "model": standing.model,
        "output": [message_object(standing)] if said else [],
        "parallel_tool_calls": False,
        "previous_response_id": standing.previous,
        "store": True,
        "temperature": None,
        "text": {"format": {"type": "text"}},
        "tool_choice": "none",
        "tools": [],
        "top_p": None,
        "truncation": "disabled",
        "usage": None if told is None else _usage(told.result.usage),
        "fabric": {"run_id": standing.run_id, "status": standing.status.value} if told is None else told.note,
    }


def message_object(standing: ResponseState) -> dict[str, Any]:
    """Return the one message of a response."""
    text = standing.told.text if standing.told is not None else ""
    return {
        "id": f"msg_{standing.run_id}",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}],
    }


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
