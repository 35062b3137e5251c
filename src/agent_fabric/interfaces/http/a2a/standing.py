"""A run as it stands, as a task: what it has come to, what it asks, and why it failed."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent_fabric.application.ports.runs import RunRecord
from agent_fabric.bootstrap.server import ServerFabric
from agent_fabric.domain.chat.conversation import turns_of
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.effects import warning
from agent_fabric.domain.runs.task import RunResult, RunStatus, Task
from agent_fabric.interfaces.http.a2a.error_shape import sentences
from agent_fabric.interfaces.http.a2a.objects import Shown
from agent_fabric.interfaces.http.a2a.replies import HOW
from agent_fabric.interfaces.http.openai.answers import Told, describe_result
from agent_fabric.interfaces.http.openai.models import model_of
from agent_fabric.interfaces.http.views import RunView, look_at
from agent_fabric.wire.approvals import APPROVAL
from agent_fabric.wire.results import EFFECTS, PROOF

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
        prompt=turns_of(view.prompt)[-1].text,
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


async def standing(fabric: ServerFabric, run_id: RunId, result: RunResult | None = None) -> Shown:
    """Look at a run; `result` is what has come of it, if it is known better than from the log.

    Raises:
        RunNotFound: there is no such run.
    """
    view = await look_at(fabric, run_id)
    known = await describe_result(fabric, view.result if result is None else result)
    cards = [await fabric.records.approvals.find(each) for each in known.approvals]
    return told_as(opening(view), known, at=view.updated_at, asked=[APPROVAL.dump(card) for card in cards])


def listed(record: RunRecord) -> Shown:
    """Return one line about a run as a task."""
    return Shown(
        record.run_id,
        record.conversation or record.run_id,
        record.status,
        record.updated_at,
        said=record.summary if record.status is RunStatus.FAILED else "",
        prompt=turns_of(record.prompt)[-1].text,
    )
