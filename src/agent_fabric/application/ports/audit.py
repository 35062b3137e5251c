"""Whether what was recorded is still what is there."""

from dataclasses import dataclass
from typing import Protocol

from agent_fabric.domain.ids import RunId


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCondition:
    """What the rows behind a run's log say about themselves."""

    events: int
    head: str
    """Hash of the last event, which covers all before it. Whoever kept it elsewhere can tell any later change."""
    status: str
    """How the run stands, as the store has it beside the log."""
    damage: tuple[str, ...] = ()
    """What is not as it was recorded, one sentence each."""


class LogInspector(Protocol):
    """Looks at the logs of runs themselves, not at what they say."""

    async def inspect(self, run_id: RunId) -> LogCondition:
        """Recompute every hash of a run's log.

        Raises:
            RunNotFound: there is none with this id.
        """
        ...
