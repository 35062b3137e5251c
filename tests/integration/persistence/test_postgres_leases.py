"""Leases in PostgreSQL: a run has one driver, a dead one is taken over, and one that was away appends nothing."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.cluster import Introduction
from agent_fabric.application.ports.leases import Before
from agent_fabric.domain.errors import DriverConflict, LeaseLost, LogWentBack, RunHeld, StoreUnavailable
from agent_fabric.domain.events import RunInterrupted
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence.sql import SqlConnection
from contract.run_repository_contract import CREATED, NEXT, RUN, completed, log
from cutting_proxy import CuttingProxy, run_proxy
from integration.persistence.postgres_storage import open_tables
from postgres_cluster import Cluster

TTL_S = 4.0
MORE = log(completed(RUN), first=1)


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[CuttingProxy]:
    with run_proxy(cluster.port) as proxy:
        yield proxy


def opened(url: str, folder: Path, name: str) -> Any:
    said = Introduction(name=name, lease_ttl_s=TTL_S)
    return open_tables(url, folder, SystemClock(), introduction=said)


@pytest.fixture
async def pair(database_url: str, tmp_path: Path) -> AsyncIterator[tuple[Any, Any]]:
    """Two processes, as far as the database can tell."""
    both = opened(database_url, tmp_path, "one"), opened(database_url, tmp_path, "other")
    yield both
    for each in both:
        each.close()


def stop_renewing(tables: Any) -> None:
    """Let a process seem to be away: nothing that it does reaches the database in time."""
    tables.store.membership._connect = _gone
    tables.store.membership._renew_once = lambda *_: None


def _gone() -> Any:
    raise StoreUnavailable("away")


def _rows(tables: Any, query: str) -> list[Any]:
    found: list[Any] = tables.store.read_now(lambda connection: connection.execute(query).fetchall())
    return found


async def test_a_run_has_one_driver_and_its_lease_is_given_back(pair: tuple[Any, Any]) -> None:
    one, other = pair
    held = await one.runs.create(RUN, CREATED)
    with pytest.raises(RunHeld, match="is being driven by"):
        await other.runs.take(RUN)
    with pytest.raises(RunHeld):
        await one.runs.take(RUN)
    assert await other.reader.status(RUN) is RunStatus.RUNNING
    assert (await other.gauge.measure()).cluster_runs_queued == 0
    await held.release()
    assert (await other.gauge.measure()).cluster_runs_queued == 1, "workers are added by this number"
    taken, events, _ = await other.runs.take(RUN)
    assert list(events) == CREATED
    assert _rows(one, "SELECT epoch FROM runs") == [(2,)]
    await taken.append(MORE)
    await taken.release()
    assert _rows(one, "SELECT driver FROM runs") == [("",)]


async def test_a_settled_run_has_no_driver_in_the_same_commit(pair: tuple[Any, Any]) -> None:
    one, _ = pair
    held = await one.runs.create(RUN, CREATED)
    await held.append(MORE)
    assert _rows(one, "SELECT driver FROM runs") == [("",)]
    await held.release()


async def test_what_a_process_held_that_left_is_free_at_once(pair: tuple[Any, Any]) -> None:
    one, other = pair
    await one.runs.create(RUN, CREATED)
    one.close()
    assert await other.reader.status(RUN) is RunStatus.INTERRUPTED
    assert await other.queue.list_unfinished() == [RUN]
    await other.runs.take(RUN)


async def test_a_lease_that_is_renewed_outlasts_its_time(pair: tuple[Any, Any]) -> None:
    one, other = pair
    held = await one.runs.create(RUN, CREATED)
    await asyncio.sleep(1.5 * TTL_S)
    with pytest.raises(RunHeld):
        await other.runs.take(RUN)
    await held.append(MORE)
    await held.release()


@pytest.mark.proves("SC-5")
async def test_a_process_that_was_away_appends_nothing_and_comes_back_under_another_id(pair: tuple[Any, Any]) -> None:
    one, other = pair
    held = await one.runs.create(RUN, CREATED)
    before = one.store.membership.worker_id
    mail = held.receive()
    stop_renewing(one)
    with pytest.raises(LeaseLost, match="could not renew"):
        await asyncio.wait_for(mail, 2 * TTL_S)  # by itself, and before anybody else can take the run
    assert await other.reader.status(RUN) is RunStatus.RUNNING
    with pytest.raises(LeaseLost):
        await held.append(MORE)
    await asyncio.sleep(0.3 * TTL_S)
    taken, _, _ = await other.runs.take(RUN)
    with pytest.raises(DriverConflict):
        await held.append(MORE)
    await taken.append(MORE)
    assert len(await one.runs.read(RUN)) == 2
    one.store.membership._connect = one.store._pool.connect
    back = await one.runs.create(RunId("run-9"), CREATED)
    assert one.store.membership.worker_id not in ("", before)
    await back.release()
    states = dict(_rows(one, "SELECT id, state FROM workers"))
    assert states[before] == "gone"


@pytest.mark.proves("SC-5")
async def test_an_old_epoch_is_fenced_even_if_its_process_does_not_know_yet(pair: tuple[Any, Any]) -> None:
    one, other = pair
    held = await one.runs.create(RUN, CREATED)
    one.store.membership._watch = lambda: None

    def lapse(connection: SqlConnection) -> None:
        connection.execute("UPDATE workers SET lease_until = 0 WHERE id = ?", (one.store.membership.worker_id,))

    await one.store.write(lapse)
    taken, _, _ = await other.runs.take(RUN)
    with pytest.raises(DriverConflict):
        await held.append(MORE)
    assert len(await other.runs.read(RUN)) == 1
    await taken.append(MORE)
    await taken.release()


@pytest.mark.proves("SC-5")
async def test_old_epochs_of_several_runs_that_are_committed_together_are_fenced(pair: tuple[Any, Any]) -> None:
    one, other = pair
    names = [RunId(f"run-{number}") for number in range(4)]
    held = [await one.runs.create(each, CREATED) for each in names]
    one.store.membership._watch = lambda: None
    one.store.membership._renew_once = lambda *_: None

    def lapse(connection: SqlConnection) -> None:
        connection.execute("UPDATE workers SET lease_until = 0 WHERE id = ?", (one.store.membership.worker_id,))

    await one.store.write(lapse)
    for each in names:
        await other.runs.take(each)
    ended = await asyncio.gather(*(each.append(MORE) for each in held), return_exceptions=True)
    assert all(isinstance(each, DriverConflict) for each in ended), ended
    assert [len(await other.runs.read(each)) for each in names] == [1] * len(names)


async def test_many_who_want_a_free_run_get_it_once(pair: tuple[Any, Any]) -> None:
    one, other = pair
    await (await one.runs.create(RUN, CREATED)).release()
    asked = await asyncio.gather(*(each.runs.take(RUN) for each in pair for _ in range(4)), return_exceptions=True)
    assert sum(not isinstance(each, BaseException) for each in asked) == 1
    assert all(isinstance(each, RunHeld) for each in asked if isinstance(each, BaseException))
    assert _rows(other, "SELECT epoch FROM runs") == [(2,)]


async def test_a_database_that_lost_commits_is_noticed(pair: tuple[Any, Any]) -> None:
    one, _ = pair
    held = await one.runs.create(RUN, CREATED)
    await held.append(NEXT)
    await one.store.write(lambda connection: connection.execute("DELETE FROM events WHERE seq >= 1"))
    with pytest.raises(LogWentBack, match="lost commits"):
        await held.append(log(completed(RUN), first=1 + len(NEXT)))
    await held.release()
    assert await one.reader.status(RUN) is RunStatus.INTERRUPTED  # a person decides
    assert await one.queue.list_unfinished() == []
    body = (await one.reader.newest(RUN)).body
    assert isinstance(body, RunInterrupted)
    assert body.reason.startswith("log_went_back: events 1 to 2 are lost")


async def test_a_run_whose_driver_died_can_be_told_from_one_that_was_released(pair: tuple[Any, Any]) -> None:
    one, other = pair
    await one.runs.create(RUN, CREATED)
    one.close()
    await other.runs.catch_up()
    assert (await other.runs.take(RUN)).before is Before.UNKNOWN
    await (await other.runs.create(RunId("new"), CREATED)).release()
    assert (await other.runs.take(RunId("new"))).before is Before.NOBODY


async def test_processes_that_are_long_gone_are_forgotten(pair: tuple[Any, Any]) -> None:
    one, other = pair
    await (await one.runs.create(RUN, CREATED)).release()
    await one.store.write(lambda connection: connection.execute("UPDATE workers SET state = 'gone', lease_until = 0"))
    assert other.store.membership.worker_id
    assert [row[0] for row in _rows(other, "SELECT id FROM workers")] == [other.store.membership.worker_id]


async def test_a_cut_ends_the_drive_before_anybody_can_take_over(
    database_url: str, cluster: Cluster, proxy: CuttingProxy, tmp_path: Path
) -> None:
    far = opened(database_url.replace(f":{cluster.port}/", f":{proxy.port}/"), tmp_path, "far")
    near = opened(database_url, tmp_path, "near")
    try:
        held = await far.runs.create(RUN, CREATED)
        mail = held.receive()
        proxy.lost.set()
        began = asyncio.get_running_loop().time()
        with pytest.raises(LeaseLost):
            await asyncio.wait_for(mail, 15 * TTL_S)
        noticed = asyncio.get_running_loop().time() - began
        while True:
            try:
                await near.runs.take(RUN)
                break
            except RunHeld:
                continue
        taken = asyncio.get_running_loop().time() - began
        assert noticed < taken < 15 * TTL_S
    finally:
        proxy.lost.clear()
        far.close()
        near.close()


async def test_a_lock_by_name_is_held_once_in_the_cluster_and_ends_with_its_process(pair: tuple[Any, Any]) -> None:
    one, other = pair
    both = await asyncio.gather(*(each.agent_locks.acquire("writer") for each in pair for _ in range(3)))
    assert sum(both) == 1
    holder, waiting = (one, other) if any(both[:3]) else (other, one)
    assert await waiting.agent_locks.is_held("writer")
    await waiting.agent_locks.release("writer")
    assert not await waiting.agent_locks.acquire("writer"), "only its holder releases it"
    await holder.agent_locks.release("writer")
    assert not await waiting.agent_locks.is_held("writer")
    assert await waiting.agent_locks.acquire("writer")
    stop_renewing(waiting)
    async with asyncio.timeout(3 * TTL_S):
        while not await holder.agent_locks.acquire("writer"):
            await asyncio.sleep(0.05)
