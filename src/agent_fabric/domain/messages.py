"""The conversation with a model: what goes in, what comes out."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from agent_fabric.domain.ids import CallId


class Role(StrEnum):
    """Who speaks. Observations are always `tool`: untrusted output never gains the system's authority."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class ToolCallRequest:
    """A tool call as the model asked for it."""

    call_id: CallId
    tool: str
    arguments: str
    """The text the model wrote; it may not even be JSON. Kept as it came, so that the prompt stays byte-stable."""


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a conversation."""

    role: Role
    content: str
    tool_calls: tuple[ToolCallRequest, ...] = ()
    """Only in an assistant's message."""
    call_id: CallId | None = None
    """Only in a tool's message: the call that it answers."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a model call took."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMResponse:
    """A model's answer: text, tool calls, or both."""

    content: str
    tool_calls: tuple[ToolCallRequest, ...] = ()
    usage: Usage | None = None
    """None when the server did not say."""
    model: str = ""
    """The model that answered, as the server names it."""
    finish_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """A model and how to call it, as a run froze it into its log."""

    key: str
    backend: str
    base_url: str
    model: str
    temperature: float
    top_p: float
    max_tokens: int
    timeout_s: float
    connect_timeout_s: float
    context_window: int | None = None
    """Tokens that fit, prompt and answer together; None when nobody knows."""
    api_key: str | None = None
    """A reference such as `env:NAME`; never the key."""
    ca_file: str | None = None
    headers: Mapping[str, str] | None = None


def estimate_tokens(text: str) -> int:
    """Roughly count tokens, for servers that do not report usage."""
    return len(text) // 4 + 1
