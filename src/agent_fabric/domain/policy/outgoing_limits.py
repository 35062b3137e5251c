"""What a run that is exposed and private may still send unasked."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingLimits:
    """How often a run that is exposed and private may choose among addresses and words without a question."""

    fetches: int = 20
    task_calls: int = 40
    """With addresses and arguments that stand in the task: which of them, and in which order, is a choice, too."""
    searches: int = 20
    query_chars: int = 200
    """Of one search."""


USUAL_LIMITS = OutgoingLimits()
