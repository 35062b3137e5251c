"""What a policy says about a call."""

from dataclasses import dataclass
from enum import StrEnum


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
    """What calls of the same kind have in common, such as `git push`: what a person agrees to who agrees for the whole
    run. Empty: only this very call."""
