"""A call as the node that carries it out remembers it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class SpoolState(StrEnum):
    """How far a call has come on the node."""

    RECEIVED = "received"
    STARTED = "started"
    """It is under way, or the node was stopped during it: it may have happened."""
    FINISHED = "finished"
    REPORTED = "reported"
    """The hub has the result."""


@dataclass(frozen=True, slots=True)
class SpooledCall:
    """A call that the node has seen."""

    execution_id: str
    hash: str
    state: SpoolState
    tool_name: str
    result: Mapping[str, Any] | None
