"""What is known beyond the task, seen from agents: passages to read before they begin."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A piece of text that may help."""

    text: str
    source: str
    """Where it comes from, for people and for the model to name."""
    score: float = 0.0
    """How well it fits; only good for comparing passages of one answer."""


class ContextSource(Protocol):
    """Finds passages by meaning or by words. It never fails a run: who finds nothing returns nothing."""

    async def find(self, query: str, limit: int) -> Sequence[Passage]:
        """Return at most `limit` passages, the best first."""
        ...
