"""What came of a run, in words: for people who see nothing but the answer in a chat."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from agent_fabric.application.ports.approvals import ApprovalCard
from agent_fabric.bootstrap.server import ServedRuns
from agent_fabric.domain.approvals.answers import Question, short_hash
from agent_fabric.domain.approvals.call_text import call_text, size_words
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.evidence.proofs import UNPROVEN
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.messages import Usage
from agent_fabric.domain.runs.answer import answer_in
from agent_fabric.domain.runs.effects import NO_EFFECTS, Effects, doubts_beyond, mark_answer
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.interfaces.http.views import state_of
from agent_fabric.interfaces.views.approvals import fields_of
from agent_fabric.interfaces.views.workflows.result import workflow_object
from agent_fabric.wire.results import EFFECTS, PROOF

MAX_CHARS = 500
"""Of what a question is about."""


@dataclass(frozen=True, slots=True)
class Told:
    """A run as an answer."""

    result: RunResult
    text: str
    approvals: tuple[str, ...] = ()
    """What it waits for."""

    @property
    def note(self) -> dict[str, Any]:
        """What stands under `fabric`."""
        shown: dict[str, Any] = {"run_id": self.result.run_id, "status": self.result.status.value}
        if self.result.status is RunStatus.COMPLETED:
            shown["proof"] = PROOF.dump(self.result.proof)
            shown["outcome"] = self.result.outcome
        if self.result.effects:
            shown["effects"] = EFFECTS.dump(self.result.effects)
        if unproven := self.result.payload.get(UNPROVEN):
            shown["unproven"] = unproven
        return {**shown, "approvals": list(self.approvals)} if self.approvals else shown


def marked_answer(payload: Mapping[str, Any], effects: Effects = NO_EFFECTS) -> str:
    """Return the answer of a run, with why nothing bears it out; JSON says so by itself."""
    text, unproven = answer_in(payload), doubts_beyond(str(payload.get(UNPROVEN) or ""), effects)
    return f"{text}\n\nunproven: {unproven}" if unproven and isinstance(payload.get("summary"), str) else text


async def describe_result(runs: ServedRuns, result: RunResult) -> Told:
    """Return what a run that completed gave, or what one that has not ended waits for."""
    if result.status is RunStatus.COMPLETED:
        return Told(result, mark_answer(marked_answer(result.payload, result.effects), result.effects, result.outcome))
    if result.status is not RunStatus.WAITING:
        going_on = result.status in (RunStatus.RUNNING, RunStatus.INTERRUPTED)
        return Told(result, f"This run has not ended. See it: {_where(result.run_id)}" if going_on else "")
    waits, approvals = await _waits(runs, result)
    cards = [await runs.approvals.find(each) for each in approvals]
    return Told(result, waiting_text(result.run_id, cards, waits), tuple(approvals))


def waiting_text(run_id: RunId, cards: Sequence[ApprovalCard], waits: Sequence[Mapping[str, Any]]) -> str:
    """Return what a run waits for, and how to answer it."""
    lines = ["This run waits for a person." if cards else "This run waits.", ""]
    for card in cards:
        why = "" if card.question is Question.ANSWER or not card.reason else f" ({card.reason})"
        about = _shorten(_about(card))
        size = "" if is_told_whole(card) else f" [{size_words(call_text(card.args))}, hash {short_hash(card.binding)}]"
        lines.append(f"- {card.tool}: {about}{size}{why}")
        fields = [f" --set {field.name}=…" for field in fields_of(card) if not field.has_default]
        words = "approve|done|deny" if card.question is Question.DID_IT_HAPPEN else "approve|deny"
        lines.append(f"  All of it: `fabric approvals show {card.approval_id}`, or GET /approvals/{card.approval_id}")
        lines.append(
            f"  Answer: `fabric approvals {words} {card.approval_id}{''.join(fields)}`, "
            f"or POST /approvals/{card.approval_id}"
        )
    for each in waits:
        if each["kind"] == "signal":
            lines.append(
                f"- the signal {each['name']!r}: `fabric workflow signal {run_id} {each['name']}`, "
                f"or POST /api/v1/workflows/runs/{run_id}/signal"
            )
        elif each["kind"] == "time":
            lines.append(f"- time: the step {each['step_id']!r} continues by itself")
    lines += ["", f"Then it continues by itself. Its result: {_where(run_id)}"]
    return "\n".join(lines)


def is_told_whole(card: ApprovalCard) -> bool:
    """Tell whether the words for a question show all of its call, each character as it is."""
    about = _about(card)
    if card.question is Question.ANSWER:
        return len(about) <= MAX_CHARS
    return _shorten(about) == about and (len(card.args) == 1 or about == _compact(dict(card.args)))


async def _waits(runs: ServedRuns, result: RunResult) -> tuple[Sequence[Mapping[str, Any]], Sequence[str]]:
    state = await state_of(runs, result.run_id)
    if state.workflow is None:
        return (), result.waiting_for
    shown = await workflow_object(partial(state_of, runs), state, runs.run_dir(result.run_id), status=result.status)
    return shown["_meta"]["waiting_for"], shown["_meta"]["approvals"]


def chat_usage(usage: Usage) -> dict[str, Any]:
    """Return tokens as the chat API counts them."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def _where(run_id: RunId) -> str:
    return f"`fabric logs show {run_id}`, or GET /runs/{run_id}"


def _about(card: ApprovalCard) -> str:
    """Return what a question is about."""
    main = next((card.args[name] for name in ("command", "path", "url", "message") if name in card.args), None)
    return main if isinstance(main, str) else _compact(dict(card.args))


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _shorten(text: str) -> str:
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]}…"
