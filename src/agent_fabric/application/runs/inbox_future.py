"""What others want of a run, as its inbox has it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from agent_fabric.application.ports.runs import CANCEL, InboxRow
from agent_fabric.domain.approvals.answers import Decision, Reach
from agent_fabric.domain.approvals.events import ApprovalDecided
from agent_fabric.domain.errors import LeaseLost
from agent_fabric.domain.events import RunCancelled
from agent_fabric.domain.workflows.events import SignalReceived

InboxFuture = asyncio.Future[Sequence[InboxRow]]


def ends_effects(inbox: InboxFuture) -> bool:
    """Tell whether nothing may go on that was begun: a row asks the run to end, or others may drive it by now.

    An inbox that just cannot be read asks for nothing.
    """
    if not inbox.done() or inbox.cancelled():
        return False
    if inbox.exception() is not None:
        return isinstance(inbox.exception(), LeaseLost)
    return any(row.kind == CANCEL for row in inbox.result())


def cancelled_from(payload: Mapping[str, Any]) -> RunCancelled:
    """Return the end that an inbox row wants; `CancelRun` puts it there."""
    return RunCancelled(by=str(payload["by"]), reason=str(payload["reason"]))


def decision_from(payload: Mapping[str, Any]) -> ApprovalDecided:
    """Return the answer that an inbox row holds; `DecideApproval` puts it there."""
    args = payload.get("args")
    return ApprovalDecided(
        approval_id=str(payload["approval_id"]),
        decision=Decision(payload["decision"]),
        by=str(payload["by"]),
        reason=str(payload.get("reason", "")),
        reach=Reach(payload.get("reach", Reach.ONCE)),
        args=args if isinstance(args, Mapping) else None,
        via=str(payload.get("via", "")),
    )


def signal_from(payload: Mapping[str, Any]) -> SignalReceived:
    """Return the signal that an inbox row holds; `SignalWorkflow` puts it there."""
    return SignalReceived(name=str(payload["name"]), data=dict(payload["data"]), by=str(payload["by"]))
