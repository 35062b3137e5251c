"""Bodies of requests about workflows."""

from typing import Annotated, Any

from pydantic import ConfigDict, Field, RootModel, StringConstraints

from agent_fabric.interfaces.http.bodies import RequestBody
from agent_fabric.interfaces.http.schemas import SAYS_SOMETHING


class WorkflowInputs(RootModel[dict[str, Any]]):
    """The inputs that a workflow declares, by name."""

    model_config = ConfigDict(hide_input_in_errors=True, json_schema_extra={"examples": [{"since": "v1.0"}]})


class SignalRequest(RequestBody, json_schema_extra={"examples": [{"name": "deployed", "data": {"version": "1.2"}}]}):
    """Something that has happened."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=SAYS_SOMETHING)]
    """As the step that waits for it calls it."""
    data: dict[str, Any] = Field(default={})
    """Data for the step."""


class WorkflowResumeRequest(RequestBody, json_schema_extra={"examples": [{"from": "publish"}]}):
    """Where to continue."""

    from_step: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None, alias="from", description="Repeat this step and all after it, in a new run."
    )
    current: bool = Field(
        default=False, description="Take the file as it is now; steps that have changed are done again, in a new run."
    )
    inputs: dict[str, Any] = Field(default={}, description="With `current`: inputs that the file has since.")


class WorkflowToCheck(
    RequestBody,
    json_schema_extra={
        "examples": [{"file": "small.yaml", "text": "name: small\nversion: 1.0.0\nsteps: [{id: a, action: wait}]"}]
    },
):
    """A text that is meant to be a workflow, or the name of one; without either, all that the server has."""

    text: Annotated[str, StringConstraints(max_length=2 * 1024 * 1024)] | None = None
    """What stands in the file; counts more than a name."""
    file: Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*[^\x00/.]\.(json|yaml|yml)$")] = (
        "workflow.yaml"
    )
    """What it is called; nothing of this name is read."""
    name: Annotated[str, StringConstraints(max_length=200)] | None = None
    """A workflow that the server has."""
