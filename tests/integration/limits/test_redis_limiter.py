"""Counting in a real Redis, which is also killed, paused and started again."""

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Iterator

import pytest
import redis as redis_client

from agent_fabric.application.ports.limits import Rate
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.identity.limits.redis_limiter import WAIT_TIMEOUT_S, RedisLimiter
from agent_fabric.testing.fakes import FrozenClock
from contract.limiter_contract import THREE_A_MINUTE, LimiterContract
from free_ports import free_port
from own_services import OwnService, run_redis

pytestmark = pytest.mark.proves("A33-123", "SC-8", "SC-10", "SC-13")


@pytest.fixture(scope="module")
def server() -> Iterator[OwnService]:
    with run_redis() as server:
        yield server


@pytest.fixture
def redis(server: OwnService) -> OwnService:
    if server.process.poll() is not None:
        server.start()
    with redis_client.Redis(port=server.port) as client:
        client.flushall()
    return server


class SharedClock(FrozenClock):
    """A clock that takes Redis along when it moves."""

    def __init__(self, port: int) -> None:
        self._redis = redis_client.Redis(port=port)
        self._time = 1_000_000.0
        self.tick = 0.0

    @property
    def time(self) -> float:
        return self._time

    @time.setter
    def time(self, time: float) -> None:
        passed_ms, self._time = round((time - self._time) * 1_000), time
        for key in self._redis.scan_iter():
            self._redis.pexpire(key, max(0, self._redis.pttl(key) - passed_ms))

    def close(self) -> None:
        self._redis.close()


class TestRedis(LimiterContract):
    @pytest.fixture
    def clock(self, redis: OwnService) -> Iterator[FrozenClock]:
        clock = SharedClock(redis.port)
        yield clock
        clock.close()

    @pytest.fixture
    async def limiter(self, redis: OwnService, clock: FrozenClock) -> AsyncIterator[RedisLimiter]:
        limiter = RedisLimiter(redis.url, clock, name="test")
        yield limiter
        await limiter.aclose()


class TestWithoutRedis(LimiterContract):
    """One process alone keeps all promises while Redis is gone."""

    @pytest.fixture
    def clock(self) -> FrozenClock:
        return FrozenClock()

    @pytest.fixture
    async def limiter(self, clock: FrozenClock) -> AsyncIterator[RedisLimiter]:
        limiter = RedisLimiter(f"redis://127.0.0.1:{free_port()}", clock, name="test")
        yield limiter
        await limiter.aclose()


@pytest.fixture
async def two(redis: OwnService) -> AsyncIterator[list[RedisLimiter]]:
    limiters = [RedisLimiter(redis.url, SystemClock(), name="test") for _ in range(2)]
    yield limiters
    for limiter in limiters:
        await limiter.aclose()


_ONE_SERVER = """
import asyncio, sys
from agent_fabric.application.ports.limits import Rate
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.identity.limits.redis_limiter import RedisLimiter

async def main(url, amount):
    limiter = RedisLimiter(url, SystemClock(), name="test")
    await limiter.look("nobody", Rate(1, 60))
    print("ready", flush=True)
    sys.stdin.readline()
    async def ask():
        return sum([(await limiter.hit("ada read", Rate(amount, 600))).allowed for _ in range(60)])
    print(sum(await asyncio.gather(*(ask() for _ in range(10)))))
    await limiter.aclose()

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.slow
@pytest.mark.parametrize("amount", [10, 600])
async def test_four_servers_at_once_allow_what_the_rate_says_and_no_more(redis: OwnService, amount: int) -> None:
    servers = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _ONE_SERVER, redis.url, str(amount)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for _ in range(4)
    ]
    for server in servers:
        assert server.stdout is not None
        assert await server.stdout.readline() == b"ready\n"
    told = await asyncio.gather(*(server.communicate(b"go\n") for server in servers))
    allowed = [int(out) for out, _ in told]
    assert sum(allowed) == amount, f"2,400 requests, of which each server allowed {allowed}"


async def test_what_one_server_has_counted_another_knows(two: list[RedisLimiter]) -> None:
    one, other = two
    for _ in range(3):
        assert (await one.hit("ada runs", THREE_A_MINUTE)).allowed
    state = await other.hit("ada runs", THREE_A_MINUTE)
    assert not state.allowed
    assert 50 < state.reset_s <= 60
    assert not (await other.look("ada runs", THREE_A_MINUTE)).allowed


async def test_clocks_that_differ_make_no_difference(redis: OwnService) -> None:
    ahead, behind = FrozenClock(time=1_000_300.0), FrozenClock(time=999_700.0)
    limiters = [RedisLimiter(redis.url, clock, name="test") for clock in (ahead, behind)]
    states = [await limiter.hit("ada runs", THREE_A_MINUTE) for limiter in limiters * 2]
    assert [state.allowed for state in states] == [True, True, True, False]
    assert all(58 <= state.reset_s <= 60 for state in states)
    for limiter in limiters:
        await limiter.aclose()


async def test_without_redis_each_server_counts_on_and_one_warning_says_so(
    redis: OwnService, two: list[RedisLimiter], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    one, other = two
    rate = Rate(10, 600)
    for limiter in (one, other, one, other):
        await limiter.hit("ada runs", rate)
    redis.kill()
    allowed = [sum([(await limiter.hit("ada runs", rate)).allowed for _ in range(20)]) for limiter in two]
    # One had last heard of three hits, the other of four: what is left of ten, each by itself.
    assert allowed == [7, 6]
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2, "one for each server"
    assert "counts rates by itself" in warnings[0]


async def test_when_redis_is_back_they_count_together_again(
    redis: OwnService, two: list[RedisLimiter], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    one, other = two
    rate = Rate(10, 600)
    await one.hit("ada runs", rate)
    redis.kill()
    for limiter in two:
        for _ in range(4):
            assert (await limiter.hit("ada runs", rate)).allowed
    redis.start()  # it has forgotten everything
    async with asyncio.timeout(60):
        while sum("together again" in record.getMessage() for record in caplog.records) < 2:
            await asyncio.sleep(0.05)
    assert (await one.look("ada runs", rate)).remaining == 2, "what each has counted meanwhile"
    assert (await other.hit("ada runs", rate)).remaining == 1
    assert (await one.hit("ada runs", rate)).remaining == 0


async def test_a_redis_that_hangs_holds_nobody_up_for_long(redis: OwnService, two: list[RedisLimiter]) -> None:
    one = two[0]
    await one.hit("ada runs", Rate(100, 600))
    redis.pause()
    try:
        begin = time.monotonic()
        states = await asyncio.gather(*(one.hit("ada runs", Rate(100, 600)) for _ in range(50)))
        first = time.monotonic() - begin
        assert all(state.allowed for state in states)
        begin = time.process_time()
        for _ in range(40):
            await one.hit("ada runs", Rate(100, 600))
        assert time.process_time() - begin < WAIT_TIMEOUT_S, "nobody waits any more"
        assert WAIT_TIMEOUT_S <= first < WAIT_TIMEOUT_S * 25
        assert not (await one.hit("ada runs", Rate(90, 600))).allowed
    finally:
        redis.go_on()
    async with asyncio.timeout(60):
        while (await two[1].look("ada runs", Rate(100, 600))).remaining > 8:
            await asyncio.sleep(0.05)
    remaining = (await two[1].look("ada runs", Rate(200, 600))).remaining
    # 92 hits; the fifty that were under way when it hung arrived after all, and are not counted a second time.
    assert remaining == 108


async def test_a_wrong_password_is_an_outage_that_does_not_show_it(caplog: pytest.LogCaptureFixture) -> None:
    with run_redis("--requirepass", "right-1") as redis:
        url = f"redis://:wrong-2@127.0.0.1:{redis.port}"
        limiter = RedisLimiter(url, SystemClock(), name="test")
        assert (await limiter.hit("ada runs", THREE_A_MINUTE)).allowed
        await limiter.aclose()
    assert "cannot be reached" in caplog.text
    assert "wrong-2" not in caplog.text


async def test_however_many_addresses_come_only_so_many_are_kept_in_memory(redis: OwnService) -> None:
    limiter = RedisLimiter(redis.url, SystemClock(), name="test", max_keys=100)
    for number in range(1_000):
        await limiter.hit(f"failures {number}", THREE_A_MINUTE)
    assert len(limiter) == 100
    await limiter.aclose()
    with redis_client.Redis(port=redis.port) as client:
        left = [client.pttl(key) for key in client.scan_iter()]
    assert len(left) == 1_000
    assert all(0 < ms <= 60_000 for ms in left), "Redis forgets them by itself"
