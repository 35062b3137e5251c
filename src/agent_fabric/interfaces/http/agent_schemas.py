"""The shapes of bodies about agents."""

from typing import Any

from pydantic import BaseModel, ConfigDict, RootModel

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

    agents: list[AgentLine]


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
