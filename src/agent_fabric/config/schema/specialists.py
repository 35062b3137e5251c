"""The packs that tasks are given to."""

from typing import Annotated, Self

from pydantic import BaseModel, Strict, model_validator

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.mcp import MCPServerConfig
from agent_fabric.config.schema.values import SETTINGS, Builder, Text, Texts


class SpecialistConfig(BaseModel):
    """One specialist: what it is good at and what it works with."""

    model_config = SETTINGS

    description: Text
    """What the specialist does, in a sentence; people and the routing model read it."""
    keywords: Texts = ()
    """Words in a task that speak for this specialist."""
    workflow: Texts = ()
    """The phases of its work, in order."""
    builder: Builder | None = None
    """Function that builds the pack, as `module:function`; not set: the built-in pack of this name."""
    mcp_servers: Annotated[tuple[MCPServerConfig, ...], Strict(strict=False)] = ()
    """Tool servers whose tools are added to the pack's own."""
    container_image: Text | None = None
    """Container image in which its shell commands run; not set: no container."""

    @model_validator(mode="after")
    def _server_names_differ(self) -> Self:
        names = [server.name for server in self.mcp_servers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigProblem(f"has more than one MCP server named {', '.join(map(repr, twice))}")
        return self
