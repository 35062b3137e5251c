"""What happens to a conversation that outgrows its model's window; see `events` for the contract."""

from dataclasses import dataclass
from typing import ClassVar

from agent_fabric.domain.models.messages import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextTruncated:
    """The server read less than it was sent: it silently dropped the beginning of the conversation."""

    kind: ClassVar = "context_truncated"

    sent_tokens: int
    """Our estimate of what was sent."""
    read_tokens: int
    """What the server says that it read."""
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompacted:
    """Old messages were replaced by a summary, so that the rest fits into the model's window."""

    kind: ClassVar = "context_compacted"

    first: int
    """Index of the first message replaced."""
    last: int
    """Index after the last message replaced."""
    summary: str
    by_model: bool
    """False: the model could not summarise, so a plain list of what was done stands in."""
    usage: Usage
    duration_s: float
