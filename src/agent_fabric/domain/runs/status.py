"""The status of a run. Commands that list something need no more of a run than this."""

from enum import StrEnum


class RunStatus(StrEnum):
    """The status of a run."""

    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"

    @property
    def settled(self) -> bool:
        """Nothing will ever follow."""
        return self in _SETTLED


_SETTLED = frozenset({RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED})
