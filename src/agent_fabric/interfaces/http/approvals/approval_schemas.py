"""What the routes about approvals take."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints


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
    binding: Annotated[str, StringConstraints(pattern="^([0-9a-f]{8,64})?$")] = ""
    """`binding` of the question as the person was shown it, or how it begins. An answer to another call is refused."""
    args: dict[str, Any] | None = None
    """Run it with these arguments instead; all of them, not only the changed ones. Where a workflow asks, what is
    filled into its form: `args.form` of the question."""
