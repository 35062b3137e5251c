"""Decides whether a task may end: evidence is checked in code, not in the prompt."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from posixpath import normpath
from typing import Any

from agent_fabric.domain.asked_for import AskedFor, asked_for
from agent_fabric.domain.citations import citations_of, problems_with_citations
from agent_fabric.domain.claims import (
    CHANGED,
    NOTHING_CHANGED,
    Deeds,
    failed_tests,
    false_claims,
    tells_of_failures,
    untested,
    weakened,
)
from agent_fabric.domain.json_schema import problems_with
from agent_fabric.domain.messages import Role, ToolCallRequest
from agent_fabric.domain.program_files import can_be_run, is_plain_text
from agent_fabric.domain.runs.evolve import NO_WORK_DONE
from agent_fabric.domain.runs.evolve import UNPROVEN as SENT_BACK_UNPROVEN
from agent_fabric.domain.runs.state import Lane, RunState
from agent_fabric.domain.statements import unsupported
from agent_fabric.domain.test_files import how_to_run
from agent_fabric.domain.tools import FINISH_TASK, BadArguments, arguments_from
from agent_fabric.domain.workspace_events import WorkspaceCompared

UNPROVEN = "unproven"
"""Key in a payload that says why the result is not backed by a successful command."""
UNVERIFIED = "unverified"
"""Key in a payload that lists the numbers and quotes of the summary that stand in no result."""
PROPOSED = "proposed_actions"
"""Key in a payload that lists what a person would have to allow or do."""
SPECIALISTS = "specialists"
"""Key in a task force's payload that has the payload of each specialist."""
FAILED = "failed_specialists"
"""Key in a task force's payload that tells who gave up, and why."""
COLLISIONS = "collisions"
"""Key in a task force's payload that lists the files that more than one specialist made."""
_OURS = frozenset({UNPROVEN, UNVERIFIED, PROPOSED, SPECIALISTS, FAILED, COLLISIONS})
"""Only the engine may set these keys."""

_NO_PROOF = "no test, build or run command succeeded after the last file change"
_ONLY_LOOKED = (
    "You have changed nothing so far. If the task wants something made, changed or deleted, do it now with shell. "
    f"If it only wants an answer, call {FINISH_TASK} again."
)
_MAKE_THE_CHANGE = (
    "Nothing in the workspace is different from before. Make the change that the task asks for, and look at it. "
    f"If no change is needed, say why in the summary, and call {FINISH_TASK} again."
)
NOT_YET = "Not accepted yet."
_MAX_NAMED = 3
MAX_IDLE_FINISHES = 2
"""Times that a model is sent back because it has done nothing; then its answer stands, marked as what it is."""
_NO_NETWORK = "the network was not allowed, so no source was fetched"
_FENCED = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)
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
    if lane.idle and lane.idle_finishes < MAX_IDLE_FINISHES:
        return SentBack(
            NO_WORK_DONE,
            f"Nothing has been done yet: use at least one other tool before {FINISH_TASK}.",
        )
    problems = problems_with(payload, lane.finish.parameters)
    if problems:
        return SentBack("InvalidFinish", f"Call {FINISH_TASK} again; {'; '.join(problems)}.")
    if lane.idle:
        return Accepted({**closed(lane, payload, Doubts()), UNPROVEN: _NO_WORK}, "")
    doubts = doubts_about(state, lane, payload)
    if doubts.ask_for and not lane.sent_back_unproven:
        return SentBack(SENT_BACK_UNPROVEN, f"{NOT_YET} {doubts.ask_for}")
    return Accepted(closed(lane, payload, doubts), _borne_out_by(lane, payload, doubts))


def must_be_compared(lane: Lane) -> bool:
    """Tell whether nobody has looked yet at what a lane has changed, though its result says something about it."""
    return lane.finish.needs_proof and lane.worked and lane.compared is None


def doubts_about(state: RunState, lane: Lane, payload: Mapping[str, Any]) -> Doubts:
    """Hold a result against what the run has really done."""
    unproven: list[str] = []
    requests: list[str] = []
    if lane.finish.needs_proof:
        _doubt_work(state, lane, payload, unproven, requests)
    if lane.finish.needs_citations:
        assert state.task is not None
        can_fetch = state.task.network_allowed
        problems = problems_with_citations(payload, state.sources, _cited_by(state, lane), can_fetch=can_fetch)
        if not can_fetch and not state.sources:
            unproven.append(_NO_NETWORK)
        unproven += problems
        if problems:
            requests.append(f"{' '.join(problems)} {HOW_TO_CITE if can_fetch else HOW_TO_CITE_OFFLINE}")
    return Doubts(unproven=tuple(unproven), ask_for=" ".join(requests), unverified=_unverified(lane, payload))


def _doubt_work(
    state: RunState, lane: Lane, payload: Mapping[str, Any], unproven: list[str], requests: list[str]
) -> None:
    deeds = deeds_of(state, lane)
    false = false_claims(payload, deeds)
    unproven += map(str, false)
    if any(claim.why == NOTHING_CHANGED for claim in false):
        requests.append(_MAKE_THE_CHANGE)
        return
    if false:
        requests.append(f"{'; '.join(map(str, false))}. Do it, or do not say it; then call {FINISH_TASK} again.")
    if lost := weakened(deeds):
        less = f"he tests check less than before: {', '.join(lost)}"
        unproven.append(f"t{less}")
        requests.append(f"T{less}. Put back what they checked, and fix the program instead.")
    failed, tests = failed_tests(deeds), untested(deeds)
    named = ", ".join(tests[:_MAX_NAMED])
    if failed is not None and failed.tests is not None and (tests or not tells_of_failures(payload)):
        count = f"{failed.tests.failed} of {failed.tests.ran} tests failed: {failed.command}"
        unproven.append(count)
        requests.append(f"{count}. Fix what is wrong, and run them again.")
    elif tests:
        unproven.append(f"the tests of what was changed were not run: {named}")
        requests.append(f"{named} tests what you changed. Run the tests: {how_to_run(tests[:_MAX_NAMED])}")
    elif (lane.unproved_change or (deeds.compared.paths and not lane.proof)) and not deeds.compared.unchanged:
        unproven.append(_NO_PROOF)
        # Asked to prove a text, a small model does something to it that nobody wanted; others only lose time.
        shown = {*lane.wrote, *deeds.compared.paths}
        texts = bool(shown) and all(map(is_plain_text, shown))
        if any(map(can_be_run, lane.wrote)) if lane.model.compact else not texts:
            requests.append(f"{_NO_PROOF[0].upper()}{_NO_PROOF[1:]}. {HOW_TO_PROVE}")
    elif lane.model.compact and not lane.proof and _only_looked(deeds) and _may_want_change(deeds):
        requests.append(_ONLY_LOOKED)  # small models like to call a task done that they have only looked at


def deeds_of(state: RunState, lane: Lane) -> Deeds:
    """Return what a lane has done."""
    return Deeds(
        prompt=state.task.prompt if state.task is not None else "",
        compared=lane.compared or WorkspaceCompared(known=False),
        commands=lane.commands,
        last_change=lane.last_change,
        elsewhere=lane.acted_elsewhere,
        proof=lane.proof,
    )


def _only_looked(deeds: Deeds) -> bool:
    return deeds.nothing_changed if deeds.compared.known else deeds.last_change < 0


def _may_want_change(deeds: Deeds) -> bool:
    return asked_for(deeds.prompt) is not AskedFor.ANSWER


def _unverified(lane: Lane, payload: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what a summary says that stands in nothing the model was shown; after a summary nobody can tell."""
    summary = payload.get("summary")
    if lane.compacted or not lane.finish.needs_proof or not isinstance(summary, str):
        return ()
    seen = (message.content for message in lane.messages if message.role is not Role.ASSISTANT)
    calls = (call.arguments for message in lane.messages for call in message.tool_calls if call.tool != FINISH_TASK)
    return unsupported(summary, (*seen, *calls), counts_of(lane))


def counts_of(lane: Lane) -> tuple[int, ...]:
    """Return the numbers that a summary may have counted by itself."""
    compared = lane.compared or WorkspaceCompared(known=False)
    files = (len(compared.paths), len(compared.created), len(compared.modified), len(compared.deleted))
    return (*files, len(lane.commands), lane.answers)


def _cited_by(state: RunState, lane: Lane) -> Mapping[str, Sequence[str]]:
    """Return the addresses in the files that a lane wrote: what others wrote is for them to answer for."""
    own = {normpath(path) for path in lane.wrote}
    return {path: urls for path, urls in state.cited_in_files.items() if path in own}


HOW_TO_PROVE = (
    "Run the tests, the build or the program with shell. Where nothing can be run, read what you changed and "
    f"compare it with the task. Fix what is wrong, then call {FINISH_TASK} again."
)
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
    return f"{count} {'quote' if count == 1 else 'quotes'} found in the pages that the run fetched"


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


def plain_payload(lane: Lane, payload: Mapping[str, Any], doubts: Doubts) -> Mapping[str, Any]:
    """Return the smallest payload for a task that ended with plain text."""
    result = closed(lane, payload, doubts)
    return {**result, UNPROVEN: _NO_WORK} if lane.idle else result


def closed(lane: Lane, payload: Mapping[str, Any], doubts: Doubts) -> Mapping[str, Any]:
    """Add what the engine knows to what the model claims."""
    known = lane.compared is not None and lane.compared.known
    honest = {key: value for key, value in payload.items() if key not in _OURS and not (known and key == CHANGED)}
    if doubts.unproven:
        honest[UNPROVEN] = "; ".join(doubts.unproven)
    if lane.compared is not None and lane.compared.paths:
        honest[CHANGED] = [*lane.compared.paths]
    if doubts.unverified:
        honest[UNVERIFIED] = [*doubts.unverified]
    if lane.proposals:
        honest[PROPOSED] = list(dict.fromkeys(lane.proposals))
    return honest
