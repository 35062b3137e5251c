"""Bodies of requests about agents."""

from typing import Annotated, Any

from pydantic import ConfigDict, RootModel, StringConstraints

from agent_fabric.interfaces.http.bodies import RequestBody


class AgentInputs(RootModel[dict[str, Any]]):
    """The inputs of an agent by name, as it declares them."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "Ada"}]})


class AgentToCheck(
    RequestBody,
    json_schema_extra={
        "examples": [{"file": "greeter.yaml", "text": "name: greeter\nprompts: {system: You greet people.}"}]
    },
):
    """A file that is meant to be an agent; without a text, all files that the server has are checked."""

    text: Annotated[str, StringConstraints(max_length=256 * 1024)] | None = None
    """What stands in it."""
    file: Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*[^\x00/.]\.(json|yaml|yml|md)$")] = (
        "agent.yaml"
    )
    """What it is called; nothing of this name is read."""
