"""Which run has answered a question, in Redis under `cache:{key}`, for all processes of a cluster.

Keys are keyed hashes and values are ids of runs: a reader of Redis learns nothing. A writer can only name
another run, in whose log the answer would have to stand under the same key.
"""

import logging
from typing import Final

from redis.asyncio import Redis
from redis.exceptions import RedisError

from agent_fabric.config.secret_references import hide_passwords
from agent_fabric.domain.ids import RunId

KEPT_S: Final = 30 * 24 * 3600
TIMEOUT_S: Final = 0.25
"""The longest that a question waits for Redis; then the model is asked."""
_MAX_ID_CHARS: Final = 64

_log = logging.getLogger(__name__)


class RedisResponses:
    """ResponseIndex in Redis. While Redis is gone, models are asked."""

    def __init__(self, url: str) -> None:
        """Connect to nothing yet: each question has a connection of its own, which is nothing beside a model."""
        self._address = url

    async def find(self, key: str) -> RunId | None:
        try:
            async with self._open() as redis:
                found = await redis.get(_name(key))
        except (RedisError, OSError, TimeoutError) as problem:
            self._log_away(problem)
            return None
        text = found.decode("ascii", "replace") if isinstance(found, bytes) else found or ""
        return RunId(text) if 0 < len(text) <= _MAX_ID_CHARS else None

    async def note(self, key: str, run_id: RunId) -> None:
        try:
            async with self._open() as redis:
                await redis.set(_name(key), run_id, ex=KEPT_S)
        except (RedisError, OSError, TimeoutError) as problem:
            self._log_away(problem)

    def _open(self) -> Redis:
        return Redis.from_url(self._address, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)

    def _log_away(self, problem: Exception) -> None:
        said = hide_passwords(str(problem)) or type(problem).__name__
        where = hide_passwords(self._address)
        _log.info("Redis at %s cannot be reached (%s): answers are not used again", where, said)


def _name(key: str) -> str:
    return f"cache:{key}"
