"""The packs that tasks are given to."""

import re
from typing import Annotated, Self

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.declared import Field, Settings, Strict, model_validator
from agent_fabric.config.schema.tools import MCPServerConfig
from agent_fabric.config.schema.values import Builder, Text, Texts, matching

ToolReference = Annotated[
    str,
    matching(
        r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*|[A-Za-z0-9][\w.-]*",
        "must be 'module:function', or the name of a tool that an installed package brings along",
        flags=re.ASCII,
    ),
]
"""A tool to add: `module:function`, or a name."""


class SpecialistConfig(Settings):
    """One specialist: what it is good at and what it works with."""

    description: Text
    """What the specialist does, in a sentence; people and the routing model read it."""
    keywords: Texts = ()
    """Words in a task that speak for this specialist; a phrase counts as many times as it has words."""
    capabilities: Texts = ()
    """What it can do, in the words of the built-in table: `software`, `web_research`, `recall`. A task that asks for
    more than one specialist has goes to several."""
    workflow: Texts = ()
    """The phases of its work, in order; its prompt names them. The built-in prompts speak of theirs already."""
    max_steps: int | None = Field(default=None, ge=1, le=50)
    """Model answers in a run that is asked of this specialist alone; not set: `budget.max_steps`."""
    require_proof: bool = False
    """Whether runs of this specialist fail where nothing bears their result out; also where `require_proof` is not
    set."""
    builder: Builder | None = None
    """Function that builds the pack, as `module:function`; not set: the built-in pack of this name."""
    tools: Annotated[tuple[ToolReference, ...], Strict(strict=False)] = ()
    """Tools that are added to the pack's own: each a function, as `module:function`, or the name that an installed
    package gives to one."""
    mcp_servers: Annotated[tuple[MCPServerConfig, ...], Strict(strict=False)] = ()
    """Tool servers whose tools are added to the pack's own."""
    skills: Texts | None = None
    """Names of the skills that it is offered; not set: all that are there, an empty list: none."""
    container_image: Text | None = None
    """Container image in which its shell commands run; not set: no container."""

    @model_validator(mode="after")
    def _server_names_differ(self) -> Self:
        names = [server.name for server in self.mcp_servers]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigProblem(f"has more than one MCP server named {', '.join(map(repr, twice))}")
        return self
