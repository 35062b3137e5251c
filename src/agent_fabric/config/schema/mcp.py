"""Tool servers that speak the Model Context Protocol."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, Strict, model_validator

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.values import (
    AbsolutePath,
    HeaderName,
    HeaderValue,
    ServerName,
    Settings,
    Text,
    Texts,
    VariableName,
    VariableValue,
    WebAddress,
)

ToolEffect = Literal["reads", "idempotent", "changes_workspace", "leaves_sandbox"]
"""What a call of a tool does to the world."""


class MCPServerConfig(Settings):
    """One MCP server whose tools a specialist may use."""

    name: ServerName
    """Name of the server; its tools are called `mcp__<name>__<tool>`."""
    transport: Literal["stdio", "sse", "http"] = "stdio"
    """`stdio` starts a program; `http` connects to an address (Streamable HTTP); `sse` is the older way to connect."""
    command: Texts = ()
    """The program to start and its arguments; for `stdio`. The program is a name that PATH knows, or an absolute path;
    `{workspace}` in an argument stands for the run's workspace."""
    url: WebAddress | None = None
    """The address to connect to; for `http` and `sse`."""
    env: Mapping[VariableName, VariableValue] = {}
    """Environment variables for the program; for `stdio`. `env:NAME` takes the value from our own variable NAME,
    `file:NAME` what `fabric secrets set NAME` has kept, and `vault:path#field` what is in the vault."""
    headers: Mapping[HeaderName, HeaderValue] = {}
    """HTTP headers sent with every request; for `http` and `sse`. `env:NAME` and `Bearer env:NAME` take a variable's
    value; so do `file:NAME` and `vault:path#field` with secrets from there."""
    trusted: bool = False
    """Whether the program may run outside the sandbox, with all your rights; for `stdio`."""
    network: bool = False
    """Whether the program may use the network; for `stdio` inside the sandbox."""
    workspace: Literal["none", "ro", "rw"] = "none"
    """Whether the program sees the run's workspace: not at all, read-only, or to work in; for `stdio`."""
    folders: Annotated[tuple[AbsolutePath, ...], Strict(strict=False)] = ()
    """Further folders that the program may read inside the sandbox; for `stdio`."""
    private: bool = True
    """Whether its answers must not reach the world: mail, tickets, databases. `false` for public knowledge, such as a
    search in documentation: then its answers do not make other calls ask."""
    only_tools: Texts = ()
    """The server's tools that are offered; empty: all."""
    read_only_tools: Texts = ()
    """Tools of the server that change nothing, whatever the server says about them."""
    effects: Mapping[Text, ToolEffect] = {}
    """What other tools of the server do; one that is not named counts as `leaves_sandbox`."""
    start_timeout_s: float = Field(default=60.0, gt=0, le=3600)
    """How long the server may take to start and to list its tools."""
    call_timeout_s: float = Field(default=120.0, gt=0, le=86_400)
    """How long one call may take."""
    idle_s: float = Field(default=300.0, ge=0, le=86_400)
    """How long the server is kept for the next run when none uses it."""

    @model_validator(mode="after")
    def _has_what_its_transport_needs(self) -> Self:
        if self.transport == "stdio" and not self.command:
            raise ConfigProblem("needs 'command' because its transport is 'stdio'")
        if self.transport != "stdio" and self.url is None:
            raise ConfigProblem(f"needs 'url' because its transport is {self.transport!r}")
        return self

    @model_validator(mode="after")
    def _program_can_be_found(self) -> Self:
        program = self.command[0] if self.command else ""
        if "/" in program and not program.startswith(("/", "~/")):
            raise ConfigProblem(
                "has a 'command' that is relative to a folder",
                hint="Write the program's absolute path, or a name that PATH knows.",
            )
        if any("\0" in word for word in self.command):
            raise ConfigProblem("must not contain a null character in 'command'")
        if self.workspace == "none" and any("{workspace}" in word for word in self.command):
            raise ConfigProblem("names {workspace} in 'command' but does not see it", hint="Set workspace: ro or rw.")
        return self

    @model_validator(mode="after")
    def _says_one_thing_about_each_tool(self) -> Self:
        both = sorted({*self.read_only_tools} & self.effects.keys())
        if both:
            raise ConfigProblem(f"names {', '.join(map(repr, both))} in 'read_only_tools' and in 'effects'")
        return self
