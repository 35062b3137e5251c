"""Arms the triggers that files of workflows and the configuration declare, and disarms those that are gone."""

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial

from agent_fabric.application.attempts import attempt
from agent_fabric.application.automation.watch_sensors import ArmedSensor, WatchSensors
from agent_fabric.application.ports.automation import AutomationStore, ReadCron, ScheduleQuery, Sensor
from agent_fabric.application.ports.bus import DurableBus
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.workflows import WorkflowFile
from agent_fabric.config.schema.automation import SensorConfig
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.approvals.answers import OnDoubt
from agent_fabric.domain.automation.schedule import FILE_PREFIX, Rule, Schedule, TargetKind
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, NameTaken
from agent_fabric.domain.workflows.definition import Triggers

LOOK_EVERY_S = 5.0
COMPARE_EVERY_S = 30.0
"""How often the store is compared with files that have not changed."""
FILE_EVERY_S = 2.0
"""How often sensors look that files of workflows declare."""
PREFIX = "agent33."
"""Begins the subjects of all events."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ArmTriggers:
    """Use case: keep schedules and sensors as the files of workflows and the configuration say."""

    config: FabricConfig
    list_files: Callable[[], Sequence[WorkflowFile]]
    open_sensor: Callable[[str, SensorConfig], Sensor | None]
    """Makes the sensor of a name; None: it is told of events. Raises ConfigError if it cannot."""
    host: str
    """Begins the source of schedules that files of this machine declare."""
    store: AutomationStore
    watch: WatchSensors
    durable: DurableBus
    read_cron: ReadCron
    clock: Clock
    changed: Callable[[], None] = lambda: None
    """Called after a schedule was added or changed."""
    _declared: dict[str, tuple[Triggers, str]] | None = None
    """What the files declared when the store was last compared with them."""
    _compared_at: float = 0.0
    _ends: dict[str, Callable[[], None]] = field(default_factory=dict)
    """What ends the attention to events, by sensor."""

    async def __call__(self) -> None:
        """Arm until cancelled; a file that is changed counts within seconds."""
        while True:
            await attempt(self.arm(), "Triggers were not armed")
            await asyncio.sleep(LOOK_EVERY_S)

    async def arm(self) -> None:
        files = [each for each in await asyncio.to_thread(self.list_files) if each.definition is not None]
        await self._arm_schedules(files)
        wanted = {each.name: each for each in (*self._of_files(files), *self._of_config())}
        for name in self.watch.armed.keys() - wanted.keys():
            self.watch.armed.pop(name)
            self._ends.pop(name, lambda: None)()
        for name, armed in wanted.items():
            known = self.watch.armed.get(name)
            if known is None or _differs(known, armed):
                self._ends.pop(name, lambda: None)()
                self.watch.armed[name] = armed
                self._attend(armed)

    def _attend(self, armed: ArmedSensor) -> None:
        ends = [
            self.durable.attend(f"{_consumer(armed.name)}-{nth}", subject, partial(self.watch.take, armed))
            for nth, subject in enumerate(armed.subjects)
        ]

        def end() -> None:
            for each in ends:
                each()

        if ends:
            self._ends[armed.name] = end

    async def _arm_schedules(self, files: Sequence[WorkflowFile]) -> None:
        origin, now = f"{self.host}:", self.clock.now()
        declared = {
            f"{FILE_PREFIX}{each.name}": (each.definition.triggers, f"{origin}{each.path}")
            for each in files
            if each.definition is not None and each.definition.triggers.schedule
        }
        if declared == self._declared and self.clock.monotonic() - self._compared_at < COMPARE_EVERY_S:
            return
        self._declared = None  # until all of it is done
        zone = self.config.automation.timezone
        armed = {each.name: each for each in await self.store.schedules.list(ScheduleQuery(declared=True))}
        for name, (triggers, source) in declared.items():
            rule, on_doubt = Rule(cron_expression=triggers.schedule, timezone=zone), OnDoubt(triggers.on_doubt)
            known = armed.get(name)
            if known is None:
                await self._add(name, rule, on_doubt, source, now)
            elif (known.rule.cron_expression, known.rule.timezone, known.on_doubt) != (
                *(triggers.schedule, zone),
                on_doubt,
            ):
                changed = replace(known, rule=rule, on_doubt=on_doubt, source=source, revision=known.revision + 1)
                changed = changed.after_change(self.read_cron, now)
                await self.store.schedules.change(known, changed, by=source, now=now)
                self.changed()
        for each in armed.values():
            if each.is_from_file and each.name not in declared and each.source.startswith(origin):
                await self.store.schedules.remove(each, by="its file", now=now)
        self._declared, self._compared_at = declared, self.clock.monotonic()

    async def _add(self, name: str, rule: Rule, on_doubt: OnDoubt, source: str, now: float) -> None:
        schedule = Schedule(
            id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"{name} {now}")),
            name=name,
            target_kind=TargetKind.WORKFLOW,
            target=name.removeprefix(FILE_PREFIX),
            rule=rule,
            on_doubt=on_doubt,
            source=source,
            created_at=now,
        )
        with suppress(NameTaken):  # another server was faster
            await self.store.schedules.add(schedule.after_change(self.read_cron, now), by=source)
            self.changed()

    def _of_files(self, files: Sequence[WorkflowFile]) -> Iterator[ArmedSensor]:
        for each in files:
            assert each.definition is not None
            triggers, name = each.definition.triggers, f"{FILE_PREFIX}{each.name}"
            if triggers.on_change:
                looks = _sensor("file_change", each.name, paths=triggers.on_change)
                yield self._arm_sensor(f"{name}:on_change", looks)
            if triggers.on_event:
                hears = _sensor("event", each.name, events=triggers.on_event)
                yield self._arm_sensor(f"{name}:on_event", hears)

    def _of_config(self) -> Iterator[ArmedSensor]:
        for name, each in self.config.sensors.items():
            try:
                yield self._arm_sensor(name, each)
            except FabricError as problem:
                _log.warning("Sensor %s is not armed: %s", name, problem.message)

    def _arm_sensor(self, name: str, config: SensorConfig) -> ArmedSensor:
        return ArmedSensor(
            name=name,
            kind=config.kind,
            workflow=config.workflow,
            every_s=config.every_s,
            sensor=self.open_sensor(name, config),
            subjects=tuple(map(subject_of, config.events)) if config.kind == "event" else (),
        )


def _sensor(kind: str, workflow: str, **rest: tuple[str, ...]) -> SensorConfig:
    """Return what a file declares in the form of the configuration; the file was checked when it was read."""
    return SensorConfig.model_construct({"kind": kind, "workflow": workflow, "every_s": FILE_EVERY_S, **rest})


def subject_of(event: str) -> str:
    """Return the subject of an event as files name it: `workflow.completed` is `agent33.workflow.completed`."""
    return event if event.startswith(PREFIX) else f"{PREFIX}{event}"


def _differs(one: ArmedSensor, other: ArmedSensor) -> bool:
    def traits(armed: ArmedSensor) -> tuple[object, ...]:
        return (armed.kind, armed.workflow, armed.every_s, armed.subjects, getattr(armed.sensor, "patterns", None))

    return traits(one) != traits(other)


def _consumer(name: str) -> str:
    """Return the lasting name under which a sensor hears of events."""
    return "sensor-" + "".join(each if each.isalnum() else "-" for each in name)
