"""Judges how a task may end: evidence in code, not in the prompt."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_fabric.domain.json_schema import problems_with
from agent_fabric.domain.messages import ToolCallRequest
from agent_fabric.domain.runs.evolve import UNPROVEN as SENT_BACK_UNPROVEN
from agent_fabric.domain.runs.state import Lane
from agent_fabric.domain.tools import FINISH_TASK, BadArguments, arguments_from

UNPROVEN = "unproven"
"""Key in a payload that says why the result is not backed by a successful command."""
PROPOSED = "proposed_actions"
"""Key in a payload that lists what a person would have to allow or do."""

_NO_PROOF = "no test, build or run command succeeded after the last file change"
_NO_WORK = "the model answered without using any tool"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The task may end with this payload."""

    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SentBack:
    """The model has to do something first."""

    error_type: str
    message: str


def judge_finish(lane: Lane, call: ToolCallRequest) -> Accepted | SentBack:
    """Decide whether a `finish_task` call ends the task."""
    try:
        payload = arguments_from(call.arguments)
    except BadArguments as problem:
        return SentBack("BadArguments", f"{problem}. Call {FINISH_TASK} again with a JSON object.")
    if not lane.worked:
        return SentBack(
            "NoWorkDone",
            f"Nothing has been done yet: use at least one other tool before {FINISH_TASK}.",
        )
    problems = problems_with(payload, lane.finish.parameters)
    if problems:
        return SentBack("InvalidFinish", f"Call {FINISH_TASK} again; {'; '.join(problems)}.")
    if lacks_proof(lane) and not lane.sent_back_unproven:
        return SentBack(SENT_BACK_UNPROVEN, f"Not accepted yet: {_NO_PROOF}. {HOW_TO_PROVE}")
    return Accepted(closed(lane, payload))


HOW_TO_PROVE = (
    f"Run the tests, the build or the program with the shell tool and fix what fails, then call {FINISH_TASK} again. "
    "If nothing can be run for this task, call it again as it is; the result is then marked as unproven."
)


def lacks_proof(lane: Lane) -> bool:
    """Tell whether files changed without a successful command after the last change."""
    return lane.finish.needs_proof and lane.unproved_change


def plain_payload(lane: Lane) -> Mapping[str, Any]:
    """Return the smallest payload for a task that ended with plain text."""
    payload = closed(lane, {"summary": lane.answer.strip()})
    return payload if lane.worked else {**payload, UNPROVEN: _NO_WORK}


def closed(lane: Lane, payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Add what the engine knows to what the model claims. Only the engine may set these keys."""
    honest = {key: value for key, value in payload.items() if key not in (UNPROVEN, PROPOSED)}
    if lacks_proof(lane):
        honest[UNPROVEN] = _NO_PROOF
    if lane.proposals:
        honest[PROPOSED] = list(dict.fromkeys(lane.proposals))
    return honest
