"""Asks Redis whether it is there."""

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from agent_fabric.config.passwords_in_urls import hide_passwords

CHECK_TIMEOUT_S = 2.0


async def find_redis_problem(url: str) -> str:
    """Return why Redis cannot be used; empty: it can."""
    redis: Redis = Redis.from_url(
        url, socket_timeout=CHECK_TIMEOUT_S, socket_connect_timeout=CHECK_TIMEOUT_S, retry=Retry(NoBackoff(), 0)
    )
    try:
        await redis.eval("return redis.call('PTTL', KEYS[1])", 1, "rate_limit:doctor")
    except (RedisError, OSError) as problem:
        return hide_passwords(str(problem)) or type(problem).__name__
    finally:
        await redis.aclose()
    return ""
