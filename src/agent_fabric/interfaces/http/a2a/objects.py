"""Runs as tasks, in the shape of A2A 1.0, and the same in the words of 0.3. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.interfaces.http.a2a.calls import Version

_STATES: Mapping[RunStatus, str] = {
    RunStatus.RUNNING: "TASK_STATE_WORKING",
    RunStatus.WAITING: "TASK_STATE_INPUT_REQUIRED",
    RunStatus.INTERRUPTED: "TASK_STATE_INPUT_REQUIRED",
    RunStatus.COMPLETED: "TASK_STATE_COMPLETED",
    RunStatus.FAILED: "TASK_STATE_FAILED",
    RunStatus.CANCELLED: "TASK_STATE_CANCELED",
}
"""A run that was interrupted continues when somebody says so: until then, asking again and again is no use."""
_OTHER_STATES = frozenset(
    {"TASK_STATE_UNSPECIFIED", "TASK_STATE_SUBMITTED", "TASK_STATE_REJECTED", "TASK_STATE_AUTH_REQUIRED"}
)
_PREFIX = "TASK_STATE_"
_OLDER_ROLES: Mapping[str, str] = {"ROLE_AGENT": "agent", "ROLE_USER": "user"}
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


def task_in(version: Version, task: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task as a caller of a version knows it."""
    return dict(task) if version is Version.V1 else _older_task(task)


def event_in(version: Version, event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event, or the answer to a message, as a caller of a version knows it."""
    if version is Version.V1:
        return dict(event)
    ((kind, value),) = event.items()
    if kind == "task":
        return _older_task(value)
    if kind == "statusUpdate":
        final = value["status"]["state"] != _STATES[RunStatus.RUNNING]
        return {**value, "kind": "status-update", "status": _older_status(value["status"]), "final": final}
    return {**value, "kind": "artifact-update", "artifact": _older_parts(value["artifact"])}


def statuses_in(state: str) -> tuple[RunStatus, ...] | None:
    """Return where runs stand whose tasks are in a state, in the words of either version; None: there is no such state.

    Nothing at all: no task of ours ever is in it.
    """
    name = f"{_PREFIX}{state.removeprefix(_PREFIX).replace('-', '_').upper()}"
    found = tuple(status for status, each in _STATES.items() if each == name)
    return found if found or name in _OTHER_STATES else None


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


def _older_task(task: Mapping[str, Any]) -> dict[str, Any]:
    older = {**task, "kind": "task", "status": _older_status(task["status"])}
    if "artifacts" in task:
        older["artifacts"] = [_older_parts(each) for each in task["artifacts"]]
    if "history" in task:
        older["history"] = [_older_message(each) for each in task["history"]]
    return older


def _older_status(status: Mapping[str, Any]) -> dict[str, Any]:
    older = {**status, "state": status["state"].removeprefix(_PREFIX).lower().replace("_", "-")}
    if "message" in status:
        older["message"] = _older_message(status["message"])
    return older


def _older_message(message: Mapping[str, Any]) -> dict[str, Any]:
    return {**_older_parts(message), "kind": "message", "role": _OLDER_ROLES[message["role"]]}


def _older_parts(whole: Mapping[str, Any]) -> dict[str, Any]:
    return {**whole, "parts": [_older_part(each) for each in whole["parts"]]}


def _older_part(part: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": "text", "text": part["text"]} if "text" in part else {"kind": "data", "data": part["data"]}
