"""What turns of sessions have left, in Redis under `session:{id}`, where every server of a cluster finds it.

The next message of a session may come to any server. Without this, that one reads and folds the whole log of the turn
before. What is kept is sealed, with a key that only processes of the cluster have: a reader of Redis learns nothing,
and a writer can only make servers read the log after all. What an encrypted turn has left is sealed with
the key of that run, so that it is gone with the run.
"""

import asyncio
import hmac
import logging
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as ConnectionFailed
from redis.exceptions import RedisError

from agent_fabric.application.ports.encryption import Cipher
from agent_fabric.config.secret_references import hide_passwords
from agent_fabric.domain.chat.turn_context import TurnContext
from agent_fabric.domain.deserialize import reader_of
from agent_fabric.domain.errors import FabricError, RunKeyMissing
from agent_fabric.domain.ids import RunId, SessionId
from agent_fabric.wire.json_codec import dump_json, load_json

KEPT_S: Final = 3_600
"""How long a context is kept behind its turn. Most answers come sooner, and what comes later is read from the log."""
TIMEOUT_S: Final = 0.25
"""The longest that a message waits for Redis; the log takes a few milliseconds."""
RETRY_S: Final = 1.0
"""How long no one asks Redis after it did not answer."""
MAX_BYTES: Final = 2_000_000
"""What is larger is not kept."""
MAX_UNDER_WAY: Final = 100
"""Writes at the same time; what comes on top of them is not kept."""
_NONCE_BYTES: Final = 12
_OF_CLUSTER, _OF_RUN = b"1", b"2"
"""How it is sealed: with the key of the cluster, or with that of an encrypted run."""
_PLACE: Final = "turn context"

_log = logging.getLogger(__name__)


class RedisTurnContexts:
    """TurnContexts in Redis. While Redis is gone, nothing is kept or found, and no one waits for it."""

    def __init__(self, url: str, key: bytes, cipher_of: Callable[[RunId], Cipher | None]) -> None:
        """Connect to nothing yet.

        Args:
            url: Address of Redis.
            key: A secret that all servers of the cluster share.
            cipher_of: Gives the cipher of an encrypted run; may block.
        """
        retry = Retry(NoBackoff(), 1, supported_errors=(ConnectionFailed,))  # it may have been closed while idle
        self._redis: Redis = Redis.from_url(
            url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=retry
        )
        self._url = hide_passwords(url)
        self._cipher_of = cipher_of
        self._cipher = AESGCM(hmac.digest(key, b"agent-fabric sessions in Redis", "sha256"))
        self._under_way: set[asyncio.Task[Any]] = set()
        self._away_until = 0.0
        self._is_away = False

    async def get(self, session_id: SessionId, run_id: RunId) -> TurnContext | None:
        data = await self._try(lambda: self._redis.get(_name(session_id)))
        found = None if data is None else await self._unseal(session_id, run_id, bytes(data))
        return found if found is not None and found.run_id == run_id else None

    def put(self, context: TurnContext) -> None:
        if context.session and len(self._under_way) < MAX_UNDER_WAY:
            self._start(self._put(context))

    def drop(self, session_id: SessionId) -> None:
        self._start(self._try(lambda: self._redis.delete(_name(session_id)), always=True))

    async def aclose(self) -> None:
        if self._under_way:
            await asyncio.wait(self._under_way)
        await self._redis.aclose()

    def _start(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _put(self, context: TurnContext) -> None:
        session_id, data = SessionId(context.session), dump_json(context)
        if len(data) > MAX_BYTES:
            return
        try:
            sealed = await self._seal(session_id, context, data)
        except FabricError as problem:  # its key is not here, or the store is gone
            _log.info("The end of turn %s is not cached: %s", context.run_id, problem.message)
            return
        await self._try(lambda: self._redis.set(_name(session_id), sealed, ex=KEPT_S))

    async def _try(self, ask: Callable[[], Awaitable[Any]], *, always: bool = False) -> Any:
        """Ask Redis, unless it did not answer a moment ago; None, if it does not answer."""
        if time.monotonic() < self._away_until and not always:
            return None
        try:
            async with asyncio.timeout(2 * TIMEOUT_S):
                answer = await ask()
        except (RedisError, OSError, TimeoutError) as problem:
            self._away_until = time.monotonic() + RETRY_S
            if not self._is_away:
                self._is_away = True
                _log.warning(
                    "Redis at %s cannot be reached (%s): sessions are read from the log until it is back",
                    self._url,
                    hide_passwords(str(problem)) or type(problem).__name__,
                )
            return None
        if self._is_away:
            self._is_away = False
            _log.info("Redis at %s is back: sessions are cached again", self._url)
        return answer

    async def _seal(self, session_id: SessionId, context: TurnContext, data: bytes) -> bytes:
        if context.encrypted:
            cipher = await asyncio.to_thread(self._cipher_of, context.run_id)
            if cipher is None:
                raise RunKeyMissing(f"Run {context.run_id} has no key")
            return _OF_RUN + cipher.seal(_PLACE, data)
        nonce = os.urandom(_NONCE_BYTES)
        return _OF_CLUSTER + nonce + self._cipher.encrypt(nonce, data, _name(session_id).encode())

    async def _unseal(self, session_id: SessionId, run_id: RunId, stored: bytes) -> TurnContext | None:
        """Return what was sealed; None: it is of another turn or version, or someone has changed it."""
        kind, sealed = stored[:1], stored[1:]
        try:
            if kind == _OF_RUN:
                cipher = await asyncio.to_thread(self._cipher_of, run_id)
                data = b"" if cipher is None else cipher.unseal(_PLACE, sealed)
            elif kind == _OF_CLUSTER:
                nonce, content = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
                data = self._cipher.decrypt(nonce, content, _name(session_id).encode())
            else:
                return None
            context: TurnContext = reader_of(TurnContext)(load_json(data))
        except (InvalidTag, ValueError, TypeError, KeyError, AttributeError, FabricError):
            return None
        return context if context.encrypted == (kind == _OF_RUN) else None


def _name(session_id: SessionId) -> str:
    return f"session:{session_id}"
