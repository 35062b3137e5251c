"""Counting in memory, and with the runs."""

from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from agent_fabric.application.ports.limits import Rate
from agent_fabric.infrastructure.identity.limits.window_limiter import MemoryCounters, WindowLimiter
from agent_fabric.infrastructure.persistence.identity.rate_limits import SHARED_EVERY_S, SqlCounters
from agent_fabric.infrastructure.persistence.store import Store
from agent_fabric.testing.fakes import FrozenClock
from contract.limiter_contract import THREE_A_MINUTE, LimiterContract

pytestmark = pytest.mark.proves("A33-123")


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = Store(tmp_path / "fabric.db")
    yield store
    store.close()


def limiter_over(counters: MemoryCounters | SqlCounters, clock: FrozenClock) -> WindowLimiter:
    return WindowLimiter(counters, clock)


class TestMemory(LimiterContract):
    @pytest.fixture
    def limiter(self, clock: FrozenClock) -> WindowLimiter:
        return limiter_over(MemoryCounters(clock), clock)


class TestSqlite(LimiterContract):
    @pytest.fixture
    async def limiter(self, store: Store, clock: FrozenClock) -> AsyncIterator[WindowLimiter]:
        counters = SqlCounters(store, clock)
        yield limiter_over(counters, clock)
        await counters.aclose()


async def test_however_many_addresses_come_only_so_many_are_kept_in_memory(clock: FrozenClock) -> None:
    counters = MemoryCounters(clock, most=100)
    for number in range(5_000):
        counters.add(f"failures 10.0.{number // 250}.{number % 250}", 60, 1)
    assert len(counters) == 100
    assert counters.get("failures 10.0.19.249").hits == 1
    assert counters.get("failures 10.0.0.0").hits == 0


async def test_however_many_addresses_come_only_so_many_are_kept_in_the_file(store: Store, clock: FrozenClock) -> None:
    counters = SqlCounters(store, clock, most=100)
    for number in range(2_000):
        counters.add(f"failures {number}", 60, 1)
        clock.time += 0.001
        if number % 100 == 0:
            await counters.aclose()
    await counters.aclose()
    assert len(counters) == 100
    assert await store.read(rows) <= 100


async def test_what_was_counted_with_the_runs_is_known_to_the_next_server(store: Store, clock: FrozenClock) -> None:
    before = SqlCounters(store, clock)
    for _ in range(4):
        await limiter_over(before, clock).hit("ada runs", THREE_A_MINUTE)
    await before.aclose()
    after = limiter_over(SqlCounters(store, clock), clock)
    assert not (await after.hit("ada runs", THREE_A_MINUTE)).allowed


async def test_servers_that_share_a_folder_count_together(store: Store, clock: FrozenClock) -> None:
    one, other = SqlCounters(store, clock), SqlCounters(store, clock)
    limits = [limiter_over(one, clock), limiter_over(other, clock)]
    allowed = 0
    for turn in range(40):
        allowed += (await limits[turn % 2].hit("ada runs", Rate(10, 600))).allowed
        clock.time += SHARED_EVERY_S
        await one.aclose()
        await other.aclose()
    assert 10 <= allowed <= 12, "each sees what the other has counted, a moment later"


async def test_counts_whose_time_is_over_do_not_stay_in_the_file(store: Store, clock: FrozenClock) -> None:
    counters = SqlCounters(store, clock)
    for number in range(50):
        counters.add(f"user {number}", 60, 1)
    await counters.aclose()
    assert await store.read(rows) == 50
    clock.time += 61
    counters.add("another", 60, 1)
    await counters.aclose()
    assert await store.read(rows) == 1


async def test_nothing_is_lost_of_what_is_counted_while_the_disk_is_busy(store: Store, clock: FrozenClock) -> None:
    counters = SqlCounters(store, clock)
    for _ in range(1_000):
        counters.add("ada read", 60, 1)
    await counters.aclose()
    assert await store.read(lambda c: c.execute("SELECT hits FROM rate_limits").get) == 1_000


def rows(connection: apsw.Connection) -> int:
    count = connection.execute("SELECT count(*) FROM rate_limits").get
    assert isinstance(count, int)
    return count
