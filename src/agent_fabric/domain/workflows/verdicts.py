"""What an attempt at a step can come to."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from agent_fabric.domain.workflow_events import StepStatus
from agent_fabric.domain.workflows.stopping import CANCELLED

DENIED: Final = "Denied"
APPROVAL_EXPIRED: Final = "ApprovalExpired"
EXPRESSION_ERROR: Final = "ExpressionError"
NEVER_AGAIN: Final = frozenset(
    {DENIED, APPROVAL_EXPIRED, EXPRESSION_ERROR, CANCELLED, "PermissionError", "InvalidForm", "ValidationError"}
)
"""Types of error that another attempt would only repeat."""


class Verdict(NamedTuple):
    """What an attempt at a step came to."""

    status: StepStatus
    outputs: Mapping[str, Any] = {}
    error: str = ""
    error_type: str = ""
    whole: bool = False
    """The step's own `outputs` are left out: there is no result that they could be made from."""


def failure(error_type: str, error: str, outputs: Mapping[str, Any] | None = None) -> Verdict:
    """Return the verdict on an attempt that failed."""
    return Verdict(StepStatus.FAILED, outputs or {}, error, error_type)


def success(outputs: Mapping[str, Any]) -> Verdict:
    """Return the verdict on an attempt that worked."""
    return Verdict(StepStatus.SUCCESS, outputs)
