"""What a run that is exposed and private may still send unasked."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingLimits:
    """How often a run that is exposed and private may choose among addresses and words without a question."""

    fetches: int = 20
    searches: int = 20
    query_chars: int = 200
    """Of one search."""


USUAL_LIMITS = OutgoingLimits()
