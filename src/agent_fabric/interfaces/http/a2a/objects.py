"""Runs as tasks, in the shape of A2A 1.0. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agent_fabric.domain.runs.task import RunStatus

_STATES: Mapping[RunStatus, str] = {
    RunStatus.RUNNING: "TASK_STATE_WORKING",
    RunStatus.WAITING: "TASK_STATE_INPUT_REQUIRED",
    RunStatus.INTERRUPTED: "TASK_STATE_INPUT_REQUIRED",
    RunStatus.COMPLETED: "TASK_STATE_COMPLETED",
    RunStatus.FAILED: "TASK_STATE_FAILED",
    RunStatus.CANCELLED: "TASK_STATE_CANCELED",
}
"""A run that was interrupted continues when the caller says so: until then, asking again and again is no use."""
_OTHER_STATES = frozenset(
    {"TASK_STATE_UNSPECIFIED", "TASK_STATE_SUBMITTED", "TASK_STATE_REJECTED", "TASK_STATE_AUTH_REQUIRED"}
)
ANSWER = "answer"
"""The id of a task's one artifact."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A run as a task."""

    run_id: str
    context_id: str
    status: RunStatus
    at: float
    """When anything last happened to it."""
    skill: str = ""
    said: str = ""
    """What its state means, in words."""
    asked: Sequence[Mapping[str, Any]] = ()
    """What a person is asked."""
    answer: str = ""
    """The summary of one that completed."""
    payload: Mapping[str, Any] | None = None
    """What came of it, for programs."""
    proof: Mapping[str, Any] | None = None
    """What bears it out."""
    outcome: str = ""
    effects: Mapping[str, Any] | None = None
    """What was denied, failed, left and changed, and is in doubt."""
    prompt: str = ""


def task_object(shown: Shown, *, history: int | None = 0, artifacts: bool = True) -> dict[str, Any]:
    """Return the task; `history` is how many messages to show of those that led to it, None: all."""
    task: dict[str, Any] = {
        "id": shown.run_id,
        "contextId": shown.context_id,
        "status": status_object(shown),
        "metadata": {"skill": shown.skill} if shown.skill else {},
    }
    if artifacts and shown.status is RunStatus.COMPLETED:
        task["artifacts"] = [artifact_object(shown)]
    if history != 0 and shown.prompt:
        task["history"] = [_message(shown, "ROLE_USER", "asked", [{"text": shown.prompt}])]
    return task


def status_object(shown: Shown, progress: str = "") -> dict[str, Any]:
    """Return where a task stands; `progress` is what it does just now."""
    status: dict[str, Any] = {"state": _STATES[shown.status], "timestamp": _time(shown.at)}
    parts: list[dict[str, Any]] = [{"text": text} for text in (progress or shown.said,) if text]
    if shown.asked:
        parts.append({"data": {"approvals": list(shown.asked)}, "mediaType": "application/json"})
    if parts:
        status["message"] = _message(shown, "ROLE_AGENT", "status", parts)
    return status


def artifact_object(shown: Shown) -> dict[str, Any]:
    """Return what came of a task: its summary, and all of it for programs."""
    parts: list[dict[str, Any]] = [{"text": shown.answer, "mediaType": "text/plain"}]
    if shown.payload is not None:
        parts.append({"data": dict(shown.payload), "mediaType": "application/json"})
    artifact = {"artifactId": f"{shown.run_id}-{ANSWER}", "name": ANSWER, "parts": parts}
    if shown.proof is None:
        return artifact
    effects = {} if shown.effects is None else {"outcome": shown.outcome, "effects": dict(shown.effects)}
    return {**artifact, "metadata": {"proof": dict(shown.proof), **effects}}


def status_update(shown: Shown, progress: str = "") -> dict[str, Any]:
    """Return the event that shows where a task stands."""
    place = {"taskId": shown.run_id, "contextId": shown.context_id}
    return {"statusUpdate": {**place, "status": status_object(shown, progress)}}


def artifact_update(shown: Shown) -> dict[str, Any]:
    """Return the event that brings what came of a task."""
    place = {"taskId": shown.run_id, "contextId": shown.context_id}
    return {"artifactUpdate": {**place, "artifact": artifact_object(shown), "append": False, "lastChunk": True}}


def statuses_in(state: str) -> tuple[RunStatus, ...] | None:
    """Return where runs stand whose tasks are in a state; None: there is no such state.

    Nothing at all: no task of ours ever is in it.
    """
    found = tuple(status for status, each in _STATES.items() if each == state)
    return found if found or state in _OTHER_STATES else None


def _message(shown: Shown, role: str, name: str, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "messageId": f"{shown.run_id}-{name}",
        "contextId": shown.context_id,
        "taskId": shown.run_id,
        "role": role,
        "parts": list(parts),
    }


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
