"""How much happens without a question, where there is no rule."""

from enum import StrEnum
from typing import Final

from agent_fabric.domain.policy.calls import ProposedCall

OPEN_BANNER: Final = (
    "Policy profile `open`: everything runs without a question, except catastrophes; what may be one asks, and so do "
    "push and deploy."
)
"""Shown wherever a run or a server begins with it (C07)."""


class Profile(StrEnum):
    """How much happens without a question (C07)."""

    WORKSPACE = "workspace"
    """In a box, programs of the allowlist run; what leaves the machine asks."""
    NODE = "node"
    """On machines that matter: only what surely reads runs without a question."""
    OPEN = "open"
    """Everything runs but what would be a catastrophe, and push and deploy. To be chosen on purpose."""

    def for_call(self, call: ProposedCall) -> "Profile":
        """Return the profile that holds for a call: other machines are never treated as a workspace."""
        return Profile.NODE if call.node and self is Profile.WORKSPACE else self
