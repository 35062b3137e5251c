"""Tool servers that speak the Model Context Protocol."""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import BaseModel, model_validator

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.values import (
    SETTINGS,
    HeaderName,
    HeaderValue,
    ServerName,
    Texts,
    VariableName,
    VariableValue,
    WebAddress,
)


class MCPServerConfig(BaseModel):
    """One MCP server whose tools a specialist may use."""

    model_config = SETTINGS

    name: ServerName
    """Name of the server; its tools are called `mcp__<name>__<tool>`."""
    transport: Literal["stdio", "sse", "http"] = "stdio"
    """`stdio` starts a program; `http` connects to an address (Streamable HTTP); `sse` is the older way to connect."""
    command: Texts = ()
    """The program to start and its arguments; for `stdio`."""
    url: WebAddress | None = None
    """The address to connect to; for `http` and `sse`."""
    env: Mapping[VariableName, VariableValue] = {}
    """Environment variables for the program; for `stdio`."""
    headers: Mapping[HeaderName, HeaderValue] = {}
    """HTTP headers sent with every request; for `http` and `sse`."""

    @model_validator(mode="after")
    def _has_what_its_transport_needs(self) -> Self:
        if self.transport == "stdio" and not self.command:
            raise ConfigProblem("needs 'command' because its transport is 'stdio'")
        if self.transport != "stdio" and self.url is None:
            raise ConfigProblem(f"needs 'url' because its transport is {self.transport!r}")
        return self
