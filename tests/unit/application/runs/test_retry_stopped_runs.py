"""Runs that the store has stopped are taken up when it can be written, and not before."""

from collections.abc import Iterable, Sequence
from typing import cast

import pytest

from agent_fabric.application.ports.vitals import StoreGauge, StoreMeasures
from agent_fabric.application.runs.take_up_runs import ROOM_BYTES, ResumeUnfinishedRuns, RetryStoppedRuns
from agent_fabric.domain.errors import StoreFull
from agent_fabric.domain.ids import RunId
from agent_fabric.testing.fakes import FrozenClock

pytestmark = pytest.mark.proves("WB-13")
RUNS = [RunId("run-1"), RunId("run-2")]


class Gauge:
    """StoreGauge of a disk that can be filled."""

    def __init__(self) -> None:
        self.free, self.writable = 0, False

    async def measure(self) -> StoreMeasures:
        return StoreMeasures(
            approvals_waiting=0, oldest_approval_at=None, store_bytes=1, disk_free_bytes=self.free, disk_total_bytes=9
        )

    async def try_to_write(self) -> None:
        if not self.writable:
            raise StoreFull("The disk is full")


async def test_runs_go_on_when_there_is_room_and_the_store_can_be_written() -> None:
    gauge, resumed = Gauge(), list[RunId]()

    async def resume(run_ids: Iterable[RunId]) -> Sequence[RunId]:
        resumed.extend(run_ids)
        return []

    retry = RetryStoppedRuns(cast("StoreGauge", gauge), cast("ResumeUnfinishedRuns", resume), FrozenClock())
    for run_id in (*RUNS, RUNS[0]):
        retry.note_stopped(run_id)
    for gauge.free, gauge.writable in ((0, False), (ROOM_BYTES - 1, True), (ROOM_BYTES, False)):
        await retry.look()
        assert resumed == []
    gauge.writable = True
    await retry.look()
    await retry.look()
    assert resumed == RUNS, "each once"
    retry.note_stopped(RUNS[1])
    await retry.look()
    assert resumed == [*RUNS, RUNS[1]], "and again, if it stops again"
