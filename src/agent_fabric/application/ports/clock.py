"""Time and chance, so that nothing else needs them."""

from typing import Protocol

from agent_fabric.domain.ids import RunId


class Clock(Protocol):
    """Tells the time, and waits."""

    def now(self) -> float:
        """Return seconds since 1970; may jump when someone sets the machine's clock."""
        ...

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start that never jump; for durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class IdSource(Protocol):
    """Makes names that no one else has."""

    def new_run_id(self) -> RunId:
        """Return a fresh run id."""
        ...
