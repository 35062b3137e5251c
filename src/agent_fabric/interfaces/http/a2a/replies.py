"""An answer to a task that waits: yes, no, or the fields of a form. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.interfaces.http.a2a.error_shape import INVALID_PARAMS, RpcError

GO_ON = frozenset({"resume", "continue", "go on"})
HOW = (
    "Send a message to this task that says approve or deny, or give data: "
    '{"approval": ID, "decision": "approve", "binding": HASH, "args": {…}}.'
)
_WORDS: Mapping[str, Decision] = {
    "approve": Decision.APPROVE,
    "approved": Decision.APPROVE,
    "yes": Decision.APPROVE,
    "deny": Decision.DENY,
    "denied": Decision.DENY,
    "no": Decision.DENY,
    "done": Decision.DONE,
}
"""Nothing else counts: `yes, but not to main` is no agreement."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to what a run asks."""

    decision: Decision
    reason: str = ""
    args: Mapping[str, Any] | None = None
    approval: str = ""
    """Which question is meant; empty: the only one."""
    binding: str = ""
    """Hash of the call that was shown; empty: it is not said."""


def reply_in(text: str, data: Mapping[str, Any] | None) -> Reply:
    """Return the answer that a message is.

    Raises:
        RpcError: it is not clear what is meant.
    """
    if data is None:
        return _said(text)
    if "decision" not in data:
        return Reply(Decision.APPROVE, args=data)  # a form, filled in
    decision, reason = data["decision"], data.get("reason", "")
    args, approval, binding = data.get("args"), data.get("approval", ""), data.get("binding", "")
    known = isinstance(decision, str) and decision in {"approve", "deny", "done"}
    texts = all(isinstance(each, str) for each in (reason, approval, binding))
    fits = texts and (args is None or isinstance(args, dict))
    if not known or not fits:
        raise RpcError(INVALID_PARAMS, "The answer is not understood", hint=HOW)
    return Reply(Decision(decision), reason, args, approval, binding)


def says_go_on(text: str) -> bool:
    """Tell whether a text says that an interrupted run is to go on."""
    return _plain(text) in GO_ON


def _said(text: str) -> Reply:
    word, colon, reason = text.partition(":")
    decision = _WORDS.get(_plain(word))
    if decision is None or (colon and decision is not Decision.DENY):
        raise RpcError(INVALID_PARAMS, "It is not clear whether this is yes or no", hint=HOW)
    return Reply(decision, reason.strip())


def _plain(text: str) -> str:
    return " ".join(text.split()).strip(".! ").lower()
