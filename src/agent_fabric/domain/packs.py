"""What a pack gives to a run: a prompt, tools, and what a finished task must look like."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishSpec:
    """How a task may end."""

    parameters: Mapping[str, Any]
    """JSON schema of the finish payload."""
    description: str = "Call this when the whole task is done. Its arguments are the result."
    needs_proof: bool = False
    """Changed files need a successful test, build or run command after the last change."""

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> Self:
        """Read the specification back from a log."""
        return cls(**payload)
