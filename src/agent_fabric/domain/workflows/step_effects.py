"""What the end of a workflow's step adds to the account of its run: denied, failed or in doubt."""

from collections.abc import Mapping
from typing import Any

from agent_fabric.domain.approvals.answers import Question
from agent_fabric.domain.events import Event, ToolCalled, ToolErred
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.runs.effects import NotedCall, one_line, subject_of
from agent_fabric.domain.runs.ledger import NOBODY, POLICY, SANDBOX, Kind, Ledger, goes_to, only_reads_address
from agent_fabric.domain.workflows.attempt_events import APPROVAL_EXPIRED, DENIED
from agent_fabric.domain.workflows.events import StepFinished, StepStatus
from agent_fabric.domain.workflows.plan import StepKind
from agent_fabric.domain.workflows.scheduling import CANCELLED, MAY_HAVE_HAPPENED
from agent_fabric.domain.workflows.state import StepState, WorkflowState


def note_step_end(ledger: Ledger, workflow: WorkflowState, event: Event) -> None:
    """Take note of a step that did not succeed. What is inside a container, or in a run below, tells of itself."""
    body, step = event.body, workflow.steps.get(event.lane) if event.lane is not None else None
    if step is None or not isinstance(body, StepFinished) or body.reused_from is not None:
        return
    if step.node.kind is StepKind.CONTAINER or _told_below(ledger, step):
        return
    found = _standing(step, body)
    if found is None:
        return
    kind, by = found
    args, tool = _call_of(step)
    outside = step.asked.outside if step.asked is not None else None
    about = subject_of(tool, args, outside) if tool else step.node.step.action
    noted = NotedCall(
        what=one_line(f"step {body.step_id!r}: {about}"),
        tool=tool,
        why=one_line(step.decided.reason if kind == "denied" and step.decided is not None else body.error),
        by=by,
        to=_goes_to(step, tool, args) if tool else "",
        seq=event.seq,
    )
    ledger.end_step(kind, noted)


def _told_below(ledger: Ledger, step: StepState) -> bool:
    return any(run_id == step.child_run_id and effects.open for run_id, effects in ledger.below)


def _standing(step: StepState, body: StepFinished) -> tuple[Kind, str] | None:
    """Return what a step came to, and who kept it from succeeding; None: nothing was to be done."""
    if body.status is StepStatus.SKIPPED:
        in_doubt = step.asked is not None and step.asked.question is Question.DID_IT_HAPPEN
        return ("in_doubt", "") if in_doubt else None
    match body.error_type:
        case error if error == DENIED:
            return "denied", step.decided.by if step.decided is not None else "a person"
        case error if error == APPROVAL_EXPIRED:
            return "denied", NOBODY
        case "PermissionError":
            return "denied", POLICY if isinstance(step.outcome, ToolErred) and step.outcome.rule else SANDBOX
        case error if error == CANCELLED:
            return ("in_doubt", "") if MAY_HAVE_HAPPENED in body.error else None
        case _:
            return "failed", ""


def _call_of(step: StepState) -> tuple[Mapping[str, Any], str]:
    if step.asked is not None and step.asked.question is not Question.ANSWER:
        return step.asked.args, step.asked.tool
    tool = step.outcome.tool if isinstance(step.outcome, ToolErred) else ""
    return step.began_with, tool or (step.node.step.action if step.began_with else "")


def _goes_to(step: StepState, tool: str, args: Mapping[str, Any]) -> str:
    if only_reads_address(args):
        return ""
    if step.went_to:
        return step.went_to
    asked = step.asked
    called = ToolCalled(tool=tool, args=args, call_id=CallId(""))
    node = args.get("node")
    return goes_to(called, None, asked) or (asked.destination if asked is not None else "") or str(node or "")
