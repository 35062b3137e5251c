"""What a person is asked by a step that waits for one."""

from typing import Any

from agent_fabric.application.tools.invoke_tool import InvokeTool
from agent_fabric.domain.approvals.answers import Question, approval_id, binding
from agent_fabric.domain.approvals.events import ApprovalRequested
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.policy.calls import argument_hash
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.workflows.actions import AskPerson

APPROVE = "approve"
"""Stands where other questions name a tool."""


def question_for(action: AskPerson, state: RunState, *, invoke_tool: InvokeTool) -> ApprovalRequested:
    """Return the question; the same one after every crash."""
    assert state.workflow is not None
    attempt = action.started.attempt if action.started else state.workflow.call_of(action.lane).number
    call_id = CallId(f"{action.lane}#{attempt}")
    args: dict[str, Any] = {"message": action.message}
    if action.form:
        args["form"] = dict(action.form)
    version = invoke_tool.policy.version
    bound = binding(
        run_id=state.run_id,
        lane=action.lane,
        step=attempt,
        call_id=call_id,
        tool=APPROVE,
        args=args,
        target=state.workspace,
        policy_version=version,
    )
    timeout_s = invoke_tool.approval_timeout_s if action.timeout_s is None else action.timeout_s
    return ApprovalRequested(
        approval_id=approval_id(bound, Question.ANSWER, attempt),
        call_id=call_id,
        tool=APPROVE,
        args=args,
        question=Question.ANSWER,
        reason=action.message,
        rule=f"step {action.step.id}",
        subject=action.step.description or action.step.id,
        alike="",
        agent=f"workflow:{state.workflow.definition.name}",
        target=state.workspace,
        sandbox=invoke_tool.sandbox_level,
        untrusted=tuple(state.untrusted),
        private=tuple(state.private),
        policy_version=version,
        binding=bound,
        args_hash=argument_hash(args),
        expires_at=invoke_tool.clock.now() + timeout_s,
    )
