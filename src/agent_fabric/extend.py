"""Everything that authors of packs, tools, model clients, channels and sensors need, from one place.

See docs/guides/write-a-tool.md, write-a-pack.md and write-a-channel.md. What is not here may change without notice; for
tests there is `agent_fabric.testing`.
"""

from agent_fabric.application.ports.channels import BringsFiles, Channel, ChannelState, ChannelStatus
from agent_fabric.application.ports.channels import Take as TakeInbound
from agent_fabric.application.ports.llm import ChatClient, LLMProvider, OnDelta
from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.sandbox import CommandOutcome, Sandbox
from agent_fabric.domain.automation.sensing import Happening, Look
from agent_fabric.domain.channels.addresses import Place, Sender
from agent_fabric.domain.channels.deliveries import (
    Accepted,
    AnswerLost,
    Button,
    NotReached,
    Part,
    PartKind,
    Refused,
    SendOutcome,
    Throttled,
    Unparsable,
)
from agent_fabric.domain.channels.files import FileProblem
from agent_fabric.domain.channels.inbound import (
    ButtonPress,
    ChatMoved,
    DeliveryReport,
    Inbound,
    InboundFile,
    InboundMessage,
)
from agent_fabric.domain.channels.pacing import Pace, Paces
from agent_fabric.domain.channels.rendering import PLAIN as PLAIN_TEXT
from agent_fabric.domain.channels.rendering import Rendering
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
    "PLAIN_TEXT",
    "Accepted",
    "Action",
    "AnswerLost",
    "BaseSpecialistPack",
    "BlockingSandbox",
    "BringsFiles",
    "Button",
    "ButtonPress",
    "Channel",
    "ChannelState",
    "ChannelStatus",
    "ChatClient",
    "ChatClientProvider",
    "ChatMoved",
    "CommandOutcome",
    "DeliveryReport",
    "Effect",
    "FileProblem",
    "FinishSpec",
    "FunctionTool",
    "Happening",
    "Inbound",
    "InboundFile",
    "InboundMessage",
    "LLMProvider",
    "LLMResponse",
    "Look",
    "Message",
    "ModelBusy",
    "ModelError",
    "ModelRefused",
    "ModelSettings",
    "ModelUnreachable",
    "NotReached",
    "OnDelta",
    "Pace",
    "Paces",
    "Part",
    "PartKind",
    "Place",
    "Refused",
    "Rendering",
    "Role",
    "Sandbox",
    "SandboxedTool",
    "SendOutcome",
    "Sender",
    "SpecialistPack",
    "TakeInbound",
    "Throttled",
    "Tool",
    "ToolCallRequest",
    "ToolContext",
    "ToolFunction",
    "ToolResult",
    "ToolSpec",
    "Unparsable",
    "Usage",
    "action",
    "file_tools",
    "make_finish_tool_def",
    "make_tool_def",
    "shell_tool",
    "tool",
    "tool_from",
]
