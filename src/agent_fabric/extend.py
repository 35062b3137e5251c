"""Everything that authors of packs, tools and model clients need, from one place.

See docs/guides/write-a-tool.md and docs/guides/write-a-pack.md. What is not here may change without notice; for tests
there is `agent_fabric.testing`.
"""

from agent_fabric.application.ports.llm import ChatClient, LLMProvider, OnDelta
from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.sandbox import CommandOutcome, Sandbox
from agent_fabric.domain.errors import ModelBusy, ModelError, ModelRefused, ModelUnreachable
from agent_fabric.domain.models.messages import LLMResponse, Message, ModelSettings, Role, ToolCallRequest, Usage
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.tools.specs import Effect, ToolContext, ToolResult, ToolSpec
from agent_fabric.infrastructure.models.custom import ChatClientProvider
from agent_fabric.infrastructure.packs.actions import Action, action
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def, tool_from
from agent_fabric.infrastructure.packs.function_tools import FunctionTool, SandboxedTool, tool
from agent_fabric.infrastructure.packs.sandboxed_tools import file_tools, shell_tool
from agent_fabric.infrastructure.sandbox.blocking import BlockingSandbox
from agent_fabric.infrastructure.tools.tool_objects import Tool, ToolFunction

__all__ = [
    "Action",
    "BaseSpecialistPack",
    "BlockingSandbox",
    "ChatClient",
    "ChatClientProvider",
    "CommandOutcome",
    "Effect",
    "FinishSpec",
    "FunctionTool",
    "LLMProvider",
    "LLMResponse",
    "Message",
    "ModelBusy",
    "ModelError",
    "ModelRefused",
    "ModelSettings",
    "ModelUnreachable",
    "OnDelta",
    "Role",
    "Sandbox",
    "SandboxedTool",
    "SpecialistPack",
    "Tool",
    "ToolCallRequest",
    "ToolContext",
    "ToolFunction",
    "ToolResult",
    "ToolSpec",
    "Usage",
    "action",
    "file_tools",
    "make_finish_tool_def",
    "make_tool_def",
    "shell_tool",
    "tool",
    "tool_from",
]
