"""Schedules on simulated servers: a clock that is told the time, servers that are killed, runs that take their time."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_fabric.application.automation.explain_schedule import ExplainSchedule
from agent_fabric.application.automation.fire_schedules import FireSchedules
from agent_fabric.application.automation.manage_schedules import ManageSchedules
from agent_fabric.application.runs.cancel_run import CancelRun
from agent_fabric.domain.automation.schedule import Schedule
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.events import Event
from agent_fabric.domain.identity.principals import Kind, Principal, Scope, widen
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import Budget, Profile, RunStatus, Task
from agent_fabric.infrastructure.automation.cronsim_walls import read_cron
from agent_fabric.infrastructure.cluster.bus.in_process import InProcessBus
from agent_fabric.testing.fakes import FrozenClock, MemoryRuns
from contract.run_repository_contract import log, run_created
from memory_automation import MemoryAutomation

ADA = Principal("ada", Kind.LOCAL, widen((Scope.ADMIN,)))
START = 1_794_700_800.0


class SilentLog:
    """OperationsLog that remembers what it was told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []

    def debug(self, event: str, /, **fields: object) -> None:
        self.lines.append((event, fields))

    info = warning = error = debug


@dataclass
class World:
    """One store, a clock, and any number of servers."""

    seed: int = 0
    run_s: float = 0.0
    """How long runs take at most; 0: no time."""
    clock: FrozenClock = field(default_factory=lambda: FrozenClock(START))
    runs: MemoryRuns = field(default_factory=MemoryRuns)
    broken: bool = False
    """Whether what is scheduled cannot be started."""
    ends_with: RunStatus = RunStatus.COMPLETED
    created: list[RunId] = field(default_factory=list)
    busy_models: set[str] = field(default_factory=set)
    alerts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = MemoryAutomation.over(self.runs)
        self.log, self.bus = SilentLog(), InProcessBus()
        self.chance = random.Random(self.seed)
        self._ends: list[tuple[float, RunId]] = []

    def replace_queue(self, queue: object) -> None:
        """Put something in the place of the queue, for all servers."""
        object.__setattr__(self.store, "queue", queue)

    def server(self, name: str = "one", clock: FrozenClock | None = None) -> FireSchedules:
        return FireSchedules(
            store=self.store,
            read_cron=read_cron,
            make_task=self._task,
            first_event=self._first_event,
            begin=self._begin,
            cancel_run=CancelRun(self.runs, self.clock),
            clock=clock or self.clock,
            bus=self.bus,
            log=self.log,
            server=name,
            model_is_free=lambda model: model not in self.busy_models,
            alert=self.alerts.append,
        )

    @property
    def manage(self) -> ManageSchedules:
        return ManageSchedules(self.store, read_cron, self._task, self._first_event, self._begin, self.clock)

    @property
    def explain(self) -> ExplainSchedule:
        return ExplainSchedule(self.store.history, read_cron, self.clock, self.store.overview)

    async def add(self, **wish: Any) -> Schedule:
        return await self.manage.add({"name": "job", "task_instruction": "do it", **wish}, by=ADA)

    async def change(self, **wish: Any) -> Schedule:
        return await self.manage.change(await self.store.schedules.find("job"), wish, by=ADA)

    async def _task(self, schedule: Schedule) -> Task:
        if self.broken:
            raise ConfigError("There is no workflow 'gone'")
        budget = Budget.of(Profile.TASK)
        return Task(prompt=schedule.task_instruction, model_key="fast", budget=budget, owner=schedule.owner)

    def _first_event(self, run_id: RunId, task: Task) -> Event:
        return log(run_created(task.prompt))[0]._replace(ts=self.clock.time)

    def _begin(self, run_ids: Sequence[RunId]) -> None:
        self.created += run_ids
        for run_id in run_ids:
            if self.run_s == 0:
                self.store.end(run_id, self.ends_with)
            else:
                self._ends.append((self.clock.time + self.chance.uniform(1, self.run_s), run_id))

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and runs end."""
        self.clock.time += seconds
        for at, run_id in self._ends:
            if at <= self.clock.time and not self.runs._statuses[run_id].settled:
                self.store.end(run_id, self.ends_with)
