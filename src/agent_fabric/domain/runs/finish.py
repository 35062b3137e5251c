"""Decides whether a task may end: evidence is checked in code, not in the prompt."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from posixpath import normpath
from typing import Any

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evidence.citations import (
    CITATIONS,
    UNFETCHED,
    citations_of,
    problems_with_citations,
    split_citations,
)
from agent_fabric.domain.evidence.proofs import UNPROVEN, UNVERIFIED
from agent_fabric.domain.models.messages import Role, ToolCallRequest
from agent_fabric.domain.packs.contents import ARTIFACTS, CHANGED, CHECKED, DELIVERABLES, NEXT_STEPS
from agent_fabric.domain.plural import count_of
from agent_fabric.domain.runs.answer import answer_in
from agent_fabric.domain.runs.evolve import NO_WORK_DONE
from agent_fabric.domain.runs.evolve import UNPROVEN as SENT_BACK_UNPROVEN
from agent_fabric.domain.runs.state import Lane, RunState
from agent_fabric.domain.tools.json_schema import problems_with
from agent_fabric.domain.tools.specs import FINISH_TASK, PASSAGES, BadArguments, arguments_from

PROPOSED = "proposed_actions"
"""Key in a payload that lists what a person would have to allow or do."""
SPECIALISTS = "specialists"
"""Key in a task force's payload that has the payload of each specialist."""
FAILED = "failed_specialists"
"""Key in a task force's payload that tells who gave up, and why."""
COLLISIONS = "collisions"
"""Key in a task force's payload that lists the files that more than one specialist made."""
_OURS = frozenset({UNPROVEN, UNVERIFIED, UNFETCHED, PROPOSED, SPECIALISTS, FAILED, COLLISIONS})
"""Only the engine may set these keys."""

NOT_YET = "Not accepted yet."
MAX_IDLE_FINISHES = 2
"""Times that a model is sent back because it has done nothing; then its answer stands, marked as what it is."""
_NO_NETWORK = "the network was not allowed, so no source was fetched"
_FENCED = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)
_NOT_READ_BACK = "a machine was changed, and its state was not read afterwards"
_READ_BACK = "Read on each machine that you have changed whether it is as it should be; then say what you have read."
_NO_WORK = "the model answered without using any tool"


@dataclass(frozen=True, slots=True)
class Accepted:
    """The task may end with this payload."""

    payload: Mapping[str, Any]
    proved: str
    """What bears the result out, apart from commands that succeeded."""


@dataclass(frozen=True, slots=True)
class SentBack:
    """The finish is refused; the model has to do something first."""

    error_type: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubts:
    """Reasons against a result."""

    unproven: tuple[str, ...] = ()
    """What will be said with the result if it stays like this."""
    ask_for: str = ""
    """What the model should do about it, if it can do anything."""
    unverified: tuple[str, ...] = ()
    """Numbers and quotes that stand in nothing the run has seen: marked, no more."""


def judge_finish(state: RunState, lane: Lane, call: ToolCallRequest) -> Accepted | SentBack:
    """Decide whether a `finish_task` call ends the task."""
    try:
        payload = arguments_from(call.arguments)
    except BadArguments as problem:
        return SentBack("BadArguments", f"{problem}. Call {FINISH_TASK} again with a JSON object.")
    if state.talks:  # it was not offered, but the words are there
        return Accepted(spoken_payload(lane, answer_in(payload)), "")
    if lane.idle and lane.idle_finishes < MAX_IDLE_FINISHES:
        return SentBack(NO_WORK_DONE, f"Nothing has been done yet: use at least one other tool before {FINISH_TASK}.")
    problems = problems_with(payload, lane.finish.parameters)
    if problems:
        return SentBack("InvalidFinish", f"Call {FINISH_TASK} again; {'; '.join(problems)}.")
    if lane.idle:
        return Accepted({**close_payload(state, lane, payload, Doubts()), UNPROVEN: _NO_WORK}, "")
    doubts = doubts_about(state, lane, payload)
    if doubts.ask_for and not lane.sent_back_unproven:
        return SentBack(SENT_BACK_UNPROVEN, f"{NOT_YET} {doubts.ask_for}")
    return Accepted(close_payload(state, lane, payload, doubts), _borne_out_by(lane, payload, doubts))


def spoken_payload(lane: Lane, said: str) -> Mapping[str, Any]:
    """Return an answer in a session as a payload, with what its sentences rest on."""
    from agent_fabric.domain.runs.provenance import (  # noqa: PLC0415 - few runs talk
        rests_on,
        sentence_objects,
        trace_sentences,
    )

    payload: dict[str, Any] = {"summary": said}
    # What earlier turns have seen stands in the history, but not under which event.
    told = [message.content for message in lane.messages[: lane.history + 1] if message.role is Role.TOOL]
    told += [message.content for message in lane.messages if message.role is Role.USER]
    if sentences := trace_sentences(said, lane.observed, told):
        payload["sentences"] = sentence_objects(sentences)
    if lane.passages:
        payload[PASSAGES] = [{**each, "used": rests_on(said, str(each.get("text", "")))} for each in lane.passages]
    if lane.proposals:
        payload[PROPOSED] = list(dict.fromkeys(lane.proposals))
    return payload


def must_be_compared(state: RunState, lane: Lane) -> bool:
    """Tell whether the changes of a lane have not been looked at yet, though its result says something about it."""
    return not state.talks and lane.finish.needs_proof and lane.worked and lane.compared is None


def doubts_about(state: RunState, lane: Lane, payload: Mapping[str, Any]) -> Doubts:
    """Hold a result against what the run has really done."""
    work = _doubts_about_work()(state, lane, payload) if lane.finish.needs_proof else Doubts()
    unproven = [*work.unproven]
    requests = [work.ask_for] if work.ask_for else []
    if lane.finish.needs_reading_back and lane.unproved_change:
        unproven.append(_NOT_READ_BACK)
        requests.append(f"{_NOT_READ_BACK[0].upper()}{_NOT_READ_BACK[1:]}. {_READ_BACK}")
    if lane.finish.needs_citations:
        assert state.task is not None
        can_fetch = state.task.network_allowed
        problems = problems_with_citations(payload, state.sources, _cited_by(state, lane), can_fetch=can_fetch)
        if not can_fetch and not state.sources:
            unproven.append(_NO_NETWORK)
        unproven += problems
        if problems:
            requests.append(f"{' '.join(problems)} {HOW_TO_CITE if can_fetch else HOW_TO_CITE_OFFLINE}")
    return Doubts(unproven=tuple(unproven), ask_for=" ".join(requests), unverified=work.unverified)


@cache
def _doubts_about_work() -> "Callable[[RunState, Lane, Mapping[str, Any]], Doubts]":
    from agent_fabric.domain.runs.work_doubts import doubts_about_work  # noqa: PLC0415 - when a task is about to end

    return doubts_about_work


def _cited_by(state: RunState, lane: Lane) -> Mapping[str, Sequence[str]]:
    """Return the addresses in the files that a lane wrote: what others wrote is for them to answer for."""
    own = {normpath(path) for path in lane.wrote}
    return {path: urls for path, urls in state.cited_in_files.items() if path in own}


HOW_TO_CITE = (
    "Fetch what you cite with fetch_url, quote it word for word in `citations`, and leave out what you cannot back up; "
    f"then call {FINISH_TASK} again. Whatever is left unproven is marked as such in the result."
)
HOW_TO_CITE_OFFLINE = (
    "The network is not allowed, so no page can be fetched: leave out what you cannot back up, "
    f"then call {FINISH_TASK} again. Whatever is left unproven is marked as such in the result."
)


def _borne_out_by(lane: Lane, payload: Mapping[str, Any], doubts: Doubts) -> str:
    if not lane.finish.needs_citations or doubts.unproven:
        return ""
    count = len(citations_of(payload))
    return f"{count_of(count, 'quote')} found in the pages that the run fetched"


def said_in_words(lane: Lane) -> Mapping[str, Any]:
    """Return a plain answer of an agent as a result, as far as it is one.

    An answer that is the result as JSON is taken as that. Where only one text is asked for, the answer is that text,
    unless it is a call that went wrong.
    """
    text = lane.answer.strip()
    properties: Mapping[str, Any] = lane.finish.parameters.get("properties", {})
    fenced = _FENCED.fullmatch(text)
    written = fenced[1] if fenced else text
    if written.startswith("{"):
        return _written_out(written, lane.finish.parameters) or {}
    texts = [name for name, schema in properties.items() if schema.get("type") == "string"]
    return {texts[0] if texts and len(properties) == 1 else "summary": text}


def _written_out(text: str, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    try:
        whole = arguments_from(text)
    except BadArguments:
        return None
    for value in (whole, whole.get("arguments")):
        if isinstance(value, dict) and value.keys() & schema.get("properties", {}) and not problems_with(value, schema):
            return value
    return None


def plain_payload(state: RunState, lane: Lane, payload: Mapping[str, Any], doubts: Doubts) -> Mapping[str, Any]:
    """Return the smallest payload for a task that ended with plain text."""
    result = close_payload(state, lane, payload, doubts)
    return {**result, UNPROVEN: _NO_WORK} if lane.idle else result


def close_payload(state: RunState, lane: Lane, payload: Mapping[str, Any], doubts: Doubts) -> Mapping[str, Any]:
    """Add what the engine knows to what the model claims."""
    known = lane.compared is not None and lane.compared.known
    honest = {key: value for key, value in payload.items() if key not in _OURS and not (known and key == CHANGED)}
    if doubts.unproven:
        honest[UNPROVEN] = "; ".join(doubts.unproven)
        if lane.finish.needs_citations:
            cited = split_citations(payload, state.sources)
            if cited.unfetched:
                honest |= {CITATIONS: cited.fetched, UNFETCHED: cited.unfetched}
    if lane.compared is not None and lane.compared.paths:
        honest[CHANGED] = [*lane.compared.paths]
    if doubts.unverified:
        honest[UNVERIFIED] = [*doubts.unverified]
    if lane.proposals:
        honest[PROPOSED] = list(dict.fromkeys(lane.proposals))
    own = state.task is not None and state.task.agent is not None and state.task.agent.finish
    for name in () if own else lane.finish.left_out:  # an agent's outputs are for the agent to give
        honest.setdefault(name, FILLED[name](lane))
    return honest


def _files_of(lane: Lane) -> list[str]:
    compared = lane.compared
    if compared is None or not compared.known:
        return sorted(lane.wrote)
    return [path for path in (*compared.created, *compared.modified) if not path.endswith("/")]


def _checks_of(lane: Lane) -> list[str]:
    shown = (run.command for run in lane.commands if run.succeeded and run.proof and run.seq > lane.last_change)
    return list(dict.fromkeys(shown))


FILLED: Mapping[str, Callable[[Lane], object]] = {
    ARTIFACTS: _files_of,
    DELIVERABLES: _files_of,
    CHANGED: _files_of,
    CHECKED: _checks_of,
    NEXT_STEPS: lambda lane: list(dict.fromkeys(lane.proposals)),
    "notes": lambda _: "",
    "limitations": lambda _: "",
}
"""Fields of results that follow from what a run has done, so that a result has them whichever model gave it."""
