"""What a workflow came to, or how far it has come."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from agent_fabric.domain.runs.task import RunResult
from agent_fabric.wire.results import ERROR, META, META_KEYS
from agent_fabric.wire.shape import Shape


class WaitedFor(NamedTuple):
    """Something that a workflow waits for."""

    kind: Literal["approval", "signal", "time", "run"]
    """`approval` has `approval_id`, `signal` has `name`, `time` has `until`, `run` has `run_id` and `approvals`."""
    step_id: str


class WorkflowName(NamedTuple):
    """Which workflow it is."""

    name: str
    version: str


class StepResult(NamedTuple):
    """What a step came to."""

    step_id: str
    """Inside a `for-each` with the number of its item: `each[3].fetch`."""
    status: Literal["success", "failed", "skipped", "running", "waiting", "pending"]
    """The last three only while the workflow goes on."""
    outputs: Mapping[str, Any]
    error: str | None
    duration_ms: int


class WorkflowResult(NamedTuple):
    """What a workflow came to, or how far it has come."""

    outputs: Mapping[str, Any]
    """What each step gave, by its id."""
    steps_executed: Sequence[str]
    """In the order in which they ended."""
    step_results: Sequence[StepResult]
    duration_ms: int
    status: Literal["success", "failed", "partial", "skipped", "waiting", "running", "interrupted"]
    """The last three only while it has not ended."""


WORKFLOW_META = Shape(
    RunResult,
    META_KEYS,
    name="WorkflowMeta",
    about="What is known about a workflow's run, besides its result.",
    also={
        **META.also,
        "workflow": WorkflowName,
        "forked_from": Annotated[str | None, "The run whose results this one began with."],
        "waiting_for": Sequence[WaitedFor],
    },
)
WORKFLOW_RESULT = Shape(
    WorkflowResult,
    also={
        "result?": Annotated[dict[str, Any] | None, "The outputs that the workflow declares, if it does."],
        "run_id": str,
        "_meta": WORKFLOW_META,
        "error?": ERROR,
    },
)
