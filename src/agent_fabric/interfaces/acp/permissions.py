"""What a run asks a person, as an editor shows it, and what the person answers there."""

import io
from collections.abc import Mapping
from typing import Any

from agent_fabric.application.ports.approvals import Answer, ApprovalCard
from agent_fabric.bootstrap.records import this_person
from agent_fabric.domain.approvals.answers import Decision, Question, Reach
from agent_fabric.interfaces.cli.approvals.approval_card import shown_card

ONCE, RUN, DENY, DONE = "once", "run", "deny", "done"
VIA = "editor"


def permission_request(session_id: str, card: ApprovalCard, call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of `session/request_permission`: the call, all that is known about it, the choices."""
    told = {"type": "content", "content": {"type": "text", "text": shown_card(card, io.StringIO(), whole=True)}}
    return {
        "sessionId": session_id,
        "toolCall": {**call, "status": "pending", "content": [*call.get("content", ()), told]},
        "options": _options(card),
    }


def _options(card: ApprovalCard) -> list[dict[str, str]]:
    if card.question is Question.DID_IT_HAPPEN:
        return [
            _option(ONCE, "Run it again", "allow_once"),
            _option(DONE, "Count it as done", "allow_once"),
            _option(DENY, "Skip it", "reject_once"),
        ]
    alike = [_option(RUN, f"Allow for this run: {card.alike}", "allow_always")] if card.alike else []
    return [_option(ONCE, "Allow once", "allow_once"), *alike, _option(DENY, "Deny", "reject_once")]


def _option(option_id: str, name: str, kind: str) -> dict[str, str]:
    return {"optionId": option_id, "name": name, "kind": kind}


def answer_of(reply: object, card: ApprovalCard) -> Answer | None:
    """Return the answer that a reply gives; None: the editor cancels the turn. What is not understood is a denial."""
    outcome = reply.get("outcome") if isinstance(reply, dict) else None
    chosen = outcome if isinstance(outcome, dict) else {}
    if chosen.get("outcome") == "cancelled":
        return None
    option = chosen.get("optionId") if chosen.get("outcome") == "selected" else None
    decisions = {each["optionId"]: Decision.APPROVE for each in _options(card)}
    decisions |= {DENY: Decision.DENY, DONE: Decision.DONE} if DONE in decisions else {DENY: Decision.DENY}
    decision = decisions.get(option, Decision.DENY) if isinstance(option, str) else Decision.DENY
    reach = Reach.RUN if option == RUN and decision is Decision.APPROVE else Reach.ONCE
    return Answer(decision=decision, by=this_person(), via=VIA, reach=reach, binding=card.binding)
