"""Lets sensors look, and starts what follows from what they notice."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from agent_fabric.application.ports.automation import (
    Begin,
    DeadLetter,
    FirstEvent,
    LetterKind,
    NewNoticed,
    Noticed,
    Sensor,
    SensorState,
    SensorStore,
)
from agent_fabric.application.ports.bus import Bus, BusMessage
from agent_fabric.application.ports.clock import Clock
from agent_fabric.domain.automation.sensing import MAX_DEPTH, Happening, Look, run_of_happening
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import Task

LOOK_EVERY_S = 1.0
SLOW_LOOK = 20
"""A sensor whose look takes long looks so many times less often than it takes."""
NOTED_EVERY_S = 30.0
"""How often is noted that a sensor has looked and found nothing new."""
SUBJECT = "agent33.sensor"

_log = logging.getLogger(__name__)

TaskFor = Callable[[str, str, Mapping[str, Any]], Awaitable[Task]]
"""Returns the task of a workflow for a source, with those of the offered inputs that it takes; raises FabricError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmedSensor:
    """A sensor, and what it starts."""

    name: str
    kind: str
    workflow: str
    every_s: float = 2.0
    sensor: Sensor | None = None
    """None: it is told of events, and does not look."""
    subjects: tuple[str, ...] = ()
    """The events that it is told of."""


@dataclass(slots=True)
class WatchSensors:
    """Use case: start workflows for what sensors notice, each happening once."""

    store: SensorStore
    task_for: TaskFor
    first_event: FirstEvent
    begin: Begin
    bus: Bus
    clock: Clock
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    armed: dict[str, ArmedSensor] = field(default_factory=dict)
    _next: dict[str, float] = field(default_factory=dict)
    _states: dict[str, SensorState] = field(default_factory=dict)
    """Where sensors stood when they last looked."""

    async def __call__(self) -> None:
        while True:
            for armed in tuple(self.armed.values()):
                now = self.clock.monotonic()
                if armed.sensor is None or now < self._next.get(armed.name, 0.0):
                    continue
                try:
                    await self.look(armed)
                except StoreUnavailable as problem:
                    _log.warning("Sensor %s could not be kept: %s", armed.name, problem.message)
                except Exception:  # noqa: BLE001 - a sensor is anyone's code, and others have to look
                    _log.exception("Sensor %s failed", armed.name)
                took = self.clock.monotonic() - now
                self._next[armed.name] = self.clock.monotonic() + max(armed.every_s, SLOW_LOOK * took)
            await self.pause(LOOK_EVERY_S)

    async def look(self, armed: ArmedSensor) -> Sequence[RunId]:
        """Let one sensor look, and start what follows; return the runs."""
        if armed.sensor is None:
            return ()
        state = await self.store.state(armed.name, self._states.get(armed.name))
        look = await armed.sensor.look(state.cursor)
        if self._is_old_news(state, look):
            self._states[armed.name] = state
            return ()
        return await self._follow(armed, state, look, depth=1) or ()

    def _is_old_news(self, state: SensorState, look: Look) -> bool:
        """Tell whether a look need not be noted: nothing is new, and a look like it was noted a moment ago."""
        if look.happenings or look.cursor is not state.cursor or look.reason != state.reason:
            return False
        return state.looked_at is not None and 0 <= self.clock.now() - state.looked_at < NOTED_EVERY_S

    async def take(self, armed: ArmedSensor, message: BusMessage) -> None:
        """Take an event that a sensor is told of.

        Raises:
            StoreUnavailable: it could not be kept, and should come again.
        """
        run_id = message.payload.get("run_id")
        depth = 1 + (await self.store.depth_of(RunId(run_id)) if isinstance(run_id, str) else 0)
        happening = Happening(message.message_id, {"event": message.subject, "payload": dict(message.payload)})
        while True:
            state = await self.store.state(armed.name)
            look = Look(message.message_id, (happening,), f"told of {message.subject}")
            if await self._follow(armed, state, look, depth=depth) is not None:
                return

    async def _follow(
        self, armed: ArmedSensor, state: SensorState, look: Look, *, depth: int
    ) -> Sequence[RunId] | None:
        """Record what a look has shown, and start what follows; None: another process was faster."""
        now = self.clock.now()
        new = [await self._new(armed, happening, now, depth) for happening in look.happenings]
        started = await self.store.commit(state, look, new, now=now)
        if started is None:
            self._states.pop(armed.name, None)
            return None
        self._states[armed.name] = SensorState(
            name=armed.name, cursor=look.cursor, revision=state.revision + 1, looked_at=now, reason=look.reason
        )
        if started:
            self.begin(started)
        for each in new:
            told = each.noticed
            message = {"sensor": armed.name, "key": told.key, "run_id": told.run_id, "reason": told.reason}
            self.bus.publish(f"{SUBJECT}.{armed.kind}", message)
        return started

    async def _new(self, armed: ArmedSensor, happening: Happening, now: float, depth: int) -> NewNoticed:
        noticed = Noticed(sensor=armed.name, key=happening.key, at=now, depth=depth)
        if depth > MAX_DEPTH:
            reason = f"{MAX_DEPTH} runs have started each other through events: the loop ends here"
            _log.warning("Sensor %s: %s", armed.name, reason)
            return NewNoticed(noticed=replace(noticed, reason=reason))
        try:
            task = await self.task_for(f"sensor {armed.name}", armed.workflow, happening.payload)
        except FabricError as problem:
            _log.warning("Sensor %s started nothing: %s", armed.name, problem.message)
            letter = _letter(armed, happening, problem.message, now)
            return NewNoticed(noticed=replace(noticed, reason=problem.message), letter=letter)
        run_id = run_of_happening(armed.name, happening.key)
        return NewNoticed(noticed=replace(noticed, run_id=run_id), created=self.first_event(run_id, task))


def _letter(armed: ArmedSensor, happening: Happening, reason: str, now: float) -> DeadLetter:
    """Return the dead letter of a happening that started nothing."""
    run_id = run_of_happening(armed.name, happening.key)
    return DeadLetter(
        id=run_id,
        kind=LetterKind.TRIGGER,
        source=armed.name,
        reason=reason,
        payload={
            "sensor": armed.name,
            "key": happening.key,
            "workflow": armed.workflow,
            "inputs": dict(happening.payload),
            "run_id": run_id,
        },
        created_at=now,
    )
