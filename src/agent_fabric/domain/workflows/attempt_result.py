"""The result of one attempt at a step."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from agent_fabric.domain.workflows.cancellation import CANCELLED
from agent_fabric.domain.workflows.events import StepStatus

DENIED: Final = "Denied"
APPROVAL_EXPIRED: Final = "ApprovalExpired"
EXPRESSION_ERROR: Final = "ExpressionError"
NOT_RETRIED: Final = frozenset(
    {DENIED, APPROVAL_EXPIRED, EXPRESSION_ERROR, CANCELLED, "PermissionError", "InvalidForm", "ValidationError"}
)
"""Error types that are not retried."""


class AttemptResult(NamedTuple):
    """The result of one attempt at a step."""

    status: StepStatus
    outputs: Mapping[str, Any] = {}
    error: str = ""
    error_type: str = ""
    whole: bool = False
    """The step's declared `outputs` are not computed: there is no tool result."""


def failure(error_type: str, error: str, outputs: Mapping[str, Any] | None = None) -> AttemptResult:
    """Return the result of a failed attempt."""
    return AttemptResult(StepStatus.FAILED, outputs or {}, error, error_type)


def success(outputs: Mapping[str, Any]) -> AttemptResult:
    """Return the result of a successful attempt."""
    return AttemptResult(StepStatus.SUCCESS, outputs)
