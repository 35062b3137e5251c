"""An approval as one JSON object: the same for the command line and for HTTP."""

from typing import Any

from agent_fabric.application.ports.approvals import ApprovalCard


def approval_object(card: ApprovalCard) -> dict[str, Any]:
    """Return everything that a person, or a page for people, has to know."""
    return {
        "id": card.approval_id,
        "run_id": card.run_id,
        "tool": card.tool,
        "args": dict(card.args),
        "rule": card.rule,
        "expires_at": card.expires_at,
        "status": card.status.value,
        "question": card.question.value,
        "reason": card.reason,
        "subject": card.subject,
        "for_run": card.alike or None,
        "agent": card.agent,
        "target": card.target,
        "sandbox": card.sandbox,
        "untrusted": list(card.untrusted),
        "policy_version": card.policy_version,
        "args_hash": card.args_hash,
        "call_id": card.call_id,
        "created_at": card.created_at,
        "decided_by": card.decided_by or None,
        "decided_at": card.decided_at,
        "decided_because": card.decided_because or None,
    }
