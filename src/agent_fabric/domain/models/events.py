"""What is remarkable about a model's answer; see `events` for the contract."""

from collections.abc import Mapping
from typing import Any, ClassVar

from agent_fabric.domain.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRecovered:
    """A model that calls tools natively wrote its calls into the text; they were read from there, strictly."""

    kind: ClassVar = "tool_call_recovered"

    tools: tuple[str, ...]
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReasoned:
    """What a model thought before it answered. It is no part of the answer, and no model is told."""

    kind: ClassVar = "reasoning"

    text: str
    chars: int
    """Characters of the whole, of which `text` may be the beginning."""
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudFallbackUsed:
    """A second model was asked because the local one did not do well enough."""

    kind: ClassVar = "cloud_fallback"

    reason: str
    local_model: str
    cloud_model: str
    base_url: str = ""
    """Where the second model is; empty when nothing was sent there."""
    error: str = ""
    """Why the second model gave no answer, so that the local one's stands; empty when it gave one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainAnswerAccepted:
    """A specialist ended with plain text instead of `finish_task`."""

    kind: ClassVar = "plain_answer_accepted"

    payload: Mapping[str, Any]
