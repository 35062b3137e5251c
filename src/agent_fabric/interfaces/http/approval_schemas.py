"""What the routes about approvals take and give."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

_OUT = ConfigDict(use_attribute_docstrings=True)


class ApprovalAnswer(BaseModel):
    """What a person says."""

    model_config = ConfigDict(
        extra="forbid",
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
        json_schema_extra={"examples": [{"decision": "deny", "reason": "push to a branch, not to main"}]},
    )

    decision: Literal["approve", "deny", "done"]
    """`done` only where a crash left open whether a call has happened."""
    reason: Annotated[str, StringConstraints(max_length=10_000)] = ""
    """For the log; the model is told when it is denied."""
    scope: Literal["once", "run"] = "once"
    """`run`: every call of this kind until the run ends; see `for_run`."""
    args: dict[str, Any] | None = None
    """Run it with these arguments instead; all of them, not only the changed ones. Where a workflow asks, what is
    filled into its form: `args.form` of the question."""


class Approval(BaseModel):
    """A question that a run has asked."""

    model_config = _OUT

    id: str
    run_id: str
    tool: str
    args: dict[str, Any]
    rule: str
    """The rule of the policy that wants a person to agree."""
    expires_at: float
    status: Literal["pending", "approved", "denied", "done", "expired", "cancelled"]
    question: Literal["may_it_run", "did_it_happen", "answer"]
    reason: str
    subject: str
    """The part of the call that the rule is about."""
    for_run: str | None
    """What agreeing for the whole run would cover; null: it can only be agreed to once."""
    agent: str
    target: str
    """Where it would happen."""
    sandbox: str
    """Level of the box that it would run in."""
    untrusted: list[str]
    """Where text came from that the run has read and nobody vouches for."""
    policy_version: str
    args_hash: str
    call_id: str
    created_at: float
    decided_by: str | None
    decided_at: float | None
    decided_because: str | None


class ApprovalList(BaseModel):
    """Questions, the oldest first."""

    approvals: list[Approval]
