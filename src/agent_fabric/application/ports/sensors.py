"""Sensors: what notices things, and where it is kept what they have noticed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from agent_fabric.domain.automation.sensing import Look
from agent_fabric.domain.events import Event
from agent_fabric.domain.ids import RunId

if TYPE_CHECKING:
    from agent_fabric.application.ports.automation import DeadLetter


class Sensor(Protocol):
    """Looks at the world."""

    async def look(self, cursor: Any) -> Look:
        """Return what has happened since the last look, whose cursor this is; None: there was none.

        The same happening always has the same key. It may be looked at again after a crash.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorState:
    """Where a sensor stands."""

    name: str
    cursor: Any = None
    revision: int = 0
    looked_at: float | None = None
    reason: str = ""
    """What the last look found, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Noticed:
    """The record of a happening."""

    sensor: str
    key: str
    at: float
    run_id: RunId | None = None
    reason: str = ""
    """Why nothing was started; empty: a run was."""
    depth: int = 1
    """How many runs have led to this one through events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNoticed:
    """A happening to be recorded, and the first event of the run that comes into being with it."""

    noticed: Noticed
    created: Event | None = None
    letter: "DeadLetter | None" = None
    """What is kept if nothing could be started."""


class SensorStore(Protocol):
    """What sensors have seen. A cursor moves together with what was noticed, and each happening counts once."""

    async def state(self, name: str, known: SensorState | None = None) -> SensorState:
        """Return where a sensor stands; the same object as `known`, if that is how it stands."""
        ...

    async def states(self) -> Sequence[SensorState]:
        """Return all sensors that have ever looked, by name, without their cursors."""
        ...

    async def commit(
        self, state: SensorState, look: Look, new: Sequence[NewNoticed], *, now: float
    ) -> Sequence[RunId] | None:
        """Move a cursor and record what was noticed; return the runs that came of it.

        None: the sensor does not stand where it stood, and nothing was written.
        """
        ...

    async def noticed(self, sensor: str, *, limit: int) -> Sequence[Noticed]:
        """Return what a sensor has noticed, newest first."""
        ...

    async def depth_of(self, run_id: RunId) -> int:
        """Return how many runs have led to one through events; 0: it was started otherwise."""
        ...
