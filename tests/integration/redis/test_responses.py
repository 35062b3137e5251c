"""Which run has an answer, in a real Redis: nothing that tells what was asked, and nobody waits for it."""

from collections.abc import Iterator

import pytest
import redis as redis_client

from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.cluster.redis.responses import KEPT_S, RedisResponses
from own_services import OwnService, run_redis


@pytest.fixture(scope="module")
def server() -> Iterator[OwnService]:
    with run_redis() as server:
        yield server


@pytest.mark.proves("A33-074", "ME-15")
async def test_every_process_finds_the_run_until_redis_is_gone(server: OwnService) -> None:
    one, two = RedisResponses(server.url), RedisResponses(server.url)
    assert await one.find("k1") is None
    await one.note("k1", RunId("r-1"))
    assert await two.find("k1") == "r-1"
    with redis_client.Redis(port=server.port) as raw:
        assert raw.keys() == [b"cache:k1"]
        assert 0 < int(str(raw.ttl("cache:k1"))) <= KEPT_S
        raw.set("cache:k1", b"x" * 100)
    assert await two.find("k1") is None, "no id is so long"
    server.kill()
    assert await two.find("k1") is None
    await two.note("k1", RunId("r-1"))
