"""What the routes about tool servers take and give."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

_OUT = ConfigDict(use_attribute_docstrings=True)


class ToolServerLine(BaseModel):
    """A tool server of the configuration."""

    model_config = _OUT

    name: str
    specialist: str
    """Who has it."""
    transport: str
    runs: str
    """The command that starts it, or its address."""
    box: str
    """What it may reach, in words."""
    project_file: str | None
    """The project's file that asks for it, if one does."""
    state: Literal["ready", "needs_trust", "never_used"]
    pinned_tools: int | None
    """null: its tools are pinned at its first use."""


class ToolServerList(BaseModel):
    """Every tool server."""

    servers: list[ToolServerLine]


class ToolServerToInspect(BaseModel):
    """Which tool server is looked at."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
        json_schema_extra={"examples": [{"name": "time"}]},
    )

    name: Annotated[str, StringConstraints(min_length=1, max_length=400)]
    """Its name; or SPECIALIST/NAME if several have it."""


class OfferedTool(BaseModel):
    """A tool, as its server describes it."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    name: str
    """As models call it."""
    tool: str
    description: str
    digest: str
    state: str
    """How it stands to what was trusted."""


class InspectedToolServer(BaseModel):
    """What a tool server offers."""

    model_config = _OUT

    server: str
    specialist: str
    protocol: str
    server_info: str
    start_s: float
    first_use: bool
    tools: list[OfferedTool]
    gone: list[Any]
    """Tools that were trusted and are not offered any more."""
