"""Servers that count in one Redis, and what becomes of their limits without it."""

import json
from pathlib import Path

import pytest

from free_ports import free_port
from integration.http.served import served
from own_services import run_redis

pytestmark = pytest.mark.proves("A33-123", "SC-8", "SC-10")


def counting_at(url: str) -> dict[str, object]:
    return {"limits": {"local": True, "requests": "6/minute", "storage": "redis"}, "redis": {"url": url}}


async def test_two_servers_allow_together_what_one_would(tmp_path: Path) -> None:
    with run_redis() as redis:
        also = counting_at(redis.url)
        async with served(tmp_path / "one", also=also) as one, served(tmp_path / "other", also=also) as other:
            statuses = [(await server.client.get("/runs")).status_code for server in [one, other] * 5]
            assert statuses == [200] * 6 + [429] * 4
            redis.kill()
            statuses = [(await server.client.get("/health")).status_code for server in (one, other)]
            assert statuses == [200, 200]
            assert (await one.client.get("/runs")).status_code == 429, "it knows what was counted"


async def test_a_server_that_starts_without_redis_limits_and_says_what_is_missing(tmp_path: Path) -> None:
    url = f"redis://:pass-1@127.0.0.1:{free_port()}"
    async with served(tmp_path, also=counting_at(url)) as server:
        statuses = [(await server.client.get("/runs")).status_code for _ in range(3)]
        assert statuses == [200] * 3
        told = (await server.client.get("/api/v1/doctor")).json()
        (finding,) = [each for each in told["findings"] if each["about"] == "redis"]
        assert finding["level"] == "warn"
        assert "each server counts rates by itself" in finding["text"]
        assert "redis.url" in finding["fix"]
        assert "pass-1" not in json.dumps(told)
        statuses = [(await server.client.get("/runs")).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]
