"""Runs as tasks, in the shape of A2A 1.0: what they have come to, what they ask, and why they failed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from agent_fabric.application.ports.runs import RunRecord
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.chat.conversation import turns_of
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.effects import warning
from agent_fabric.domain.runs.task import RunResult, RunStatus, Task
from agent_fabric.interfaces.http.a2a.calls import HOW
from agent_fabric.interfaces.http.openai.answers import Told, describe_result
from agent_fabric.interfaces.http.openai.error_shape import sentences
from agent_fabric.interfaces.http.openai.models import model_of
from agent_fabric.interfaces.http.views import RunView, look_at
from agent_fabric.wire.approvals import APPROVAL
from agent_fabric.wire.results import EFFECTS, PROOF

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


INTERRUPTED = "This run was interrupted. Send a message to this task that says: resume"


def context_of(run_id: RunId, task: Task) -> str:
    """Return the conversation that a run belongs to; one that belongs to none is one by itself."""
    return task.conversation or run_id


def opening(view: RunView) -> Shown:
    """Return a run as one that is at work."""
    run_id = view.result.run_id
    return Shown(
        run_id,
        context_of(run_id, view.task),
        RunStatus.RUNNING,
        view.updated_at,
        skill=model_of(view.task),
        prompt=turns_of(view.task.prompt)[-1].text,
    )


def told_as(shown: Shown, told: Told, *, at: float, asked: Sequence[Mapping[str, Any]] | None = None) -> Shown:
    """Return the same with what has come of it; `asked` is what is known about each question, beyond its id."""
    result = told.result
    changed = replace(shown, status=result.status, at=at)
    match result.status:
        case RunStatus.COMPLETED:
            payload = {name: value for name, value in result.payload.items() if name != "action"}
            return replace(
                changed,
                answer=told.text,
                payload=payload,
                proof=PROOF.dump(result.proof),
                outcome=result.outcome or "",
                effects=EFFECTS.dump(result.effects),
                said=warning(result.effects, result.outcome),
            )
        case RunStatus.WAITING:
            questions = [{"id": each} for each in told.approvals] if asked is None else asked
            said = f"{told.text}\n\n{HOW}" if told.approvals else told.text
            return replace(changed, said=said, asked=tuple(questions))
        case RunStatus.INTERRUPTED:
            return replace(changed, said=INTERRUPTED)
        case _:
            error = result.error
            return replace(changed, said="" if error is None else sentences(error.message, error.hint))


async def standing(runs: ServedRuns, run_id: RunId, result: RunResult | None = None) -> Shown:
    """Look at a run; `result` is what has come of it, if it is known better than from the log.

    Raises:
        RunNotFound: there is no such run.
    """
    view = await look_at(runs, run_id)
    known = await describe_result(runs, view.result if result is None else result)
    cards = [await runs.approvals.find(each) for each in known.approvals]
    return told_as(opening(view), known, at=view.updated_at, asked=[APPROVAL.dump(card) for card in cards])


def task_line(record: RunRecord) -> Shown:
    """Return one line about a run as a task."""
    return Shown(
        record.run_id,
        record.conversation or record.run_id,
        record.status,
        record.updated_at,
        said=record.summary if record.status is RunStatus.FAILED else "",
        prompt=turns_of(record.prompt)[-1].text,
    )
