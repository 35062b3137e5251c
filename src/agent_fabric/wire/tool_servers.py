"""Tool servers (MCP) and what they offer."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from agent_fabric.wire.shape import Listing, Shape


class ToolServerLine(NamedTuple):
    """A tool server of the configuration."""

    name: str
    specialist: str
    """The specialist that has it."""
    transport: str
    runs: str
    """The command that starts it, or its address."""
    box: str
    """What it may reach, in words."""
    project_file: str | None
    """The project's file that asks for it, if one does."""
    state: Literal["ready", "needs_trust", "never_used"]
    pinned_tools: int | None
    """None: its tools are pinned at its first use."""


class OfferedTool(NamedTuple):
    """A tool, as its server describes it."""

    name: str
    """As models call it."""
    tool: str
    description: str
    schema: Mapping[str, Any]
    """Of its arguments."""
    digest: str
    state: str
    """How it stands to what was trusted."""
    signals: Sequence[str] = ()
    """Signs that its description gives instructions to models, such as `override`; empty: none was found."""


class InspectedToolServer(NamedTuple):
    """What a tool server offers."""

    server: str
    specialist: str
    protocol: str
    server_info: str
    start_s: float
    first_use: bool
    tools: Sequence[OfferedTool]
    gone: Sequence[str]
    """Tools that were trusted and are not offered any more."""


TOOL_SERVERS = Listing("servers", Shape(ToolServerLine), name="ToolServerList", about="Every tool server.")
INSPECTED_TOOL_SERVER = Shape(InspectedToolServer)
