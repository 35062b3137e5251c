"""What the routes about workflows take and give."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel, StringConstraints

from agent_fabric.interfaces.http.agent_schemas import DefinitionProblem
from agent_fabric.interfaces.http.schemas import SAYS_SOMETHING, ErrorInfo, Meta

_IN = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True, hide_input_in_errors=True)
_OUT = ConfigDict(use_attribute_docstrings=True)
_OPEN = ConfigDict(extra="allow", use_attribute_docstrings=True)


class WorkflowInputs(RootModel[dict[str, Any]]):
    """The inputs that a workflow declares, by name."""

    model_config = ConfigDict(hide_input_in_errors=True, json_schema_extra={"examples": [{"since": "v1.0"}]})


class SignalRequest(BaseModel):
    """Something that has happened."""

    model_config = _IN | ConfigDict(json_schema_extra={"examples": [{"name": "deployed", "data": {"version": "1.2"}}]})

    name: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=SAYS_SOMETHING)]
    """As the step that waits for it calls it."""
    data: dict[str, Any] = {}
    """Data for the step."""


class WorkflowResumeRequest(BaseModel):
    """Where to continue."""

    model_config = _IN | ConfigDict(json_schema_extra={"examples": [{"from": "publish"}]})

    from_step: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None, alias="from", description="Do this step and all behind it again, in a new run."
    )
    current: bool = Field(
        default=False, description="Take the file as it is now; steps that have changed are done again, in a new run."
    )
    inputs: dict[str, Any] = Field(default={}, description="With `current`: inputs that the file has since.")


class WorkflowProblem(DefinitionProblem):
    """What is wrong with a workflow's file."""

    model_config = _OUT

    step: str | None
    other_line: int | None
    """A second place that has to do with it."""


class WorkflowToCheck(BaseModel):
    """A text that is meant to be a workflow, or the name of one; without either, all that the server has."""

    model_config = _IN | ConfigDict(
        json_schema_extra={
            "examples": [{"file": "small.yaml", "text": "name: small\nversion: 1.0.0\nsteps: [{id: a, action: wait}]"}]
        }
    )

    text: Annotated[str, StringConstraints(max_length=2 * 1024 * 1024)] | None = None
    """What stands in the file; counts more than a name."""
    file: Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*[^\x00/.]\.(json|yaml|yml)$")] = (
        "workflow.yaml"
    )
    """What it is called; nothing of this name is read."""
    name: Annotated[str, StringConstraints(max_length=200)] | None = None
    """A workflow that the server has."""


class Noted(BaseModel):
    """What is right but may surprise."""

    file: str
    note: str


class CheckedWorkflows(BaseModel):
    """What is wrong with files of workflows."""

    valid: bool
    files: list[str]
    problems: list[WorkflowProblem]
    notes: list[str]
    noted: list[Noted]


class Trigger(BaseModel):
    """What starts a workflow."""

    model_config = _OUT

    kind: Literal["manual", "schedule", "on_change", "on_event"]
    when: str
    armed: bool
    """Whether anything watches for it; so far only for `manual`."""


class WorkflowLine(BaseModel):
    """One line about a workflow, or about a file that is meant to be one."""

    model_config = _OPEN

    name: str
    version: str | None
    description: str
    steps: int | None
    """How many; null: the file is wrong."""
    triggers: list[Trigger]
    file: str
    usable: bool
    problems: list[WorkflowProblem]


class WorkflowList(BaseModel):
    """Every workflow, by name."""

    workflows: list[WorkflowLine]


class WorkflowDetails(WorkflowLine):
    """Everything about a workflow."""

    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    execution: dict[str, Any] = {}
    notes: list[str] = []
    """What is right but may surprise."""
    definition: dict[str, Any] = {}
    """As in the file."""


class WaitedFor(BaseModel):
    """Something that a workflow waits for."""

    model_config = _OPEN

    kind: Literal["approval", "signal", "time", "run"]
    """`approval` has `approval_id`, `signal` has `name`, `time` has `until`, `run` has `run_id` and `approvals`."""
    step_id: str


class WorkflowName(BaseModel):
    """Which workflow it is."""

    name: str
    version: str


class WorkflowMeta(Meta):
    """What is known about a workflow's run, beside its result."""

    workflow: WorkflowName
    forked_from: str | None
    """The run whose results this one began with."""
    waiting_for: list[WaitedFor]


class StepResult(BaseModel):
    """What a step came to."""

    model_config = _OPEN

    step_id: str
    """Inside a `for-each` with the number of its item: `each[3].fetch`."""
    status: Literal["success", "failed", "skipped", "running", "waiting", "pending"]
    """The last three only while the workflow has not ended."""
    outputs: dict[str, Any]
    error: str | None
    duration_ms: int


class WorkflowResult(BaseModel):
    """What a workflow came to, or how far it has come."""

    model_config = _OPEN

    outputs: dict[str, Any]
    """What each step gave, by its id."""
    steps_executed: list[str]
    """In the order in which they ended."""
    step_results: list[StepResult]
    duration_ms: int
    status: Literal["success", "failed", "partial", "skipped", "waiting", "running", "interrupted"]
    """The last three only while it has not ended."""
    result: dict[str, Any] | None = None
    """The outputs that the workflow declares, if it does."""
    run_id: str
    meta: Annotated[WorkflowMeta, Field(alias="_meta")]
    error: ErrorInfo | None = None
    """Set when it failed or was cancelled."""
