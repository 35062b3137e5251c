"""The shapes of bodies about agents."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, RootModel, StringConstraints

_OUT = ConfigDict(use_attribute_docstrings=True)


class AgentInputs(RootModel[dict[str, Any]]):
    """The inputs of an agent by name, as it declares them."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "Ada"}]})


class DefinitionProblem(BaseModel):
    """What is wrong with a file."""

    model_config = _OUT

    file: str
    line: int | None
    column: int | None
    path: list[str | int]
    """Where it is, from the top of the definition on."""
    message: str
    hint: str


class AgentLine(BaseModel):
    """One agent of a list."""

    model_config = _OUT

    name: str
    version: str | None
    role: str | None
    description: str
    file: str
    usable: bool
    problems: list[DefinitionProblem]
    """Why it cannot be used; empty if it can."""


class AgentList(BaseModel):
    """Every agent, by name."""

    model_config = _OUT

    agents: list[AgentLine]
    folders: list[str]
    """Where their files are looked for."""


class AgentToCheck(BaseModel):
    """A file that is meant to be an agent; without a text, all files that the server has are checked."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
        json_schema_extra={
            "examples": [{"file": "greeter.yaml", "text": "name: greeter\nprompts: {system: You greet people.}"}]
        },
    )

    text: Annotated[str, StringConstraints(max_length=256 * 1024)] | None = None
    """What stands in it."""
    file: Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*[^\x00/.]\.(json|yaml|yml|md)$")] = (
        "agent.yaml"
    )
    """What it is called; nothing of this name is read."""


class CheckedAgents(BaseModel):
    """What is wrong with files of agents."""

    valid: bool
    files: list[str]
    problems: list[DefinitionProblem]


class AgentDetails(AgentLine):
    """Everything about an agent; one that cannot be used has only the fields of the list."""

    capabilities: list[str] = []
    tools: list[str] = []
    """The tools that follow from its capabilities."""
    tool_servers: list[str] = []
    pack: str | None = None
    model: str | None = None
    inputs: dict[str, dict[str, Any]] = {}
    outputs: dict[str, dict[str, Any]] = {}
    dependencies: list[dict[str, Any]] = []
    prompts: dict[str, Any] = {}
    constraints: dict[str, Any] = {}
    metadata: dict[str, Any] = {}
