"""What a policy says about a call."""

from dataclasses import dataclass
from enum import StrEnum

EXACTLY = "exactly "
"""Begins the words for the same command line, and nothing else."""


class Verdict(StrEnum):
    """What happens with a call; the strictest verdict on any part of it wins."""

    ALLOW = "allow"
    ASK = "ask"
    """A person has to agree."""
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Ruling:
    """A verdict and what led to it."""

    verdict: Verdict
    reason: str
    """A sentence for the model or a person, with what to do instead."""
    rule: str
    """The name of the rule that decided."""
    subject: str
    """The part of the call that the rule is about."""
    alike: str = ""
    """What a person agrees to who agrees for the whole run, in words; calls with the same words are covered, and no
    others. Empty: only this very call."""
