"""Four servers on one PostgreSQL database fire every instant once, although one's clock is an hour back."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.automation.fire_schedules import FireSchedules
from agent_fabric.application.runs.cancel_run import CancelRun
from agent_fabric.domain.automation.schedule import Overlap, Rule, Schedule
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import Budget, Profile, Task
from agent_fabric.infrastructure.automation.cronsim_walls import read_cron
from agent_fabric.infrastructure.cluster.bus.in_process import InProcessBus
from agent_fabric.infrastructure.observability.operations_log import operations_log
from agent_fabric.testing.fakes import FrozenClock
from contract.run_repository_contract import log, run_created
from effort import effort, report
from integration.persistence.postgres_storage import open_tables

START = 1_794_700_800.0
SCHEDULES = 10


async def make_task(schedule: Schedule) -> Task:
    return Task(prompt=schedule.name, model_key="fast", budget=Budget.of(Profile.TASK))


@pytest.mark.proves("AU-5")
async def test_four_servers_fire_every_instant_once(database_url: str, tmp_path: Path) -> None:
    rounds = effort(10, 100)
    clocks = [FrozenClock(START) for _ in range(4)]
    stores: list[Any] = [open_tables(database_url, tmp_path / str(nth), clock) for nth, clock in enumerate(clocks)]
    created: list[RunId] = []

    def begin(run_ids: Sequence[RunId]) -> None:
        created.extend(run_ids)

    servers = [
        FireSchedules(
            store=storage.automation,
            read_cron=read_cron,
            make_task=make_task,
            first_event=lambda run_id, task: log(run_created(task.prompt))[0],
            begin=begin,
            cancel_run=CancelRun(storage.runs, clock),
            clock=clock,
            bus=InProcessBus(),
            log=operations_log("test"),
            server=f"server {nth}",
        )
        for nth, (storage, clock) in enumerate(zip(stores, clocks, strict=True))
    ]
    try:
        for nth in range(SCHEDULES):
            schedule = Schedule(
                id=f"s{nth}",
                name=f"s{nth}",
                task_instruction="do it",
                rule=Rule(every_s=10.0, anchor=START),
                overlap=Overlap.CANCEL,
                created_at=START,
                next_at=START + 10,
            )
            await stores[0].automation.schedules.add(schedule, by="ada")
        for each in servers:
            each.cancel_run = _Never()  # type: ignore[assignment] # runs that overlap stay: only their number matters
        for now in range(1, rounds + 1):
            for nth, clock in enumerate(clocks):
                clock.time = START + now * 10 - (3_600 if nth == now % 4 else 0)
            await asyncio.gather(*(server.tick() for server in servers))
        assert len(created) == len(set(created)) == SCHEDULES * rounds
        fired = await stores[1].automation.history.fired_within("s3", START, START + rounds * 10)
        assert list(fired) == [START + 10.0 * now for now in range(1, rounds + 1)]
        report("firings by four servers on PostgreSQL", len(created))
    finally:
        for storage in stores:
            storage.close()


class _Never:
    """CancelRun that leaves runs alone."""

    async def __call__(self, run_id: RunId, *, by: str, reason: str = "") -> None:
        """Do nothing."""
