"""The bus over NATS JetStream: messages are kept for a week, and every name that attends has its own place in them."""

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import Error, MaxPayloadError
from nats.js.api import ConsumerConfig, StorageType, StreamConfig
from nats.js.client import JetStreamContext
from nats.js.errors import APIError, BadRequestError

from agent_fabric.application.ports.bus import BusMessage, Subscriber
from agent_fabric.infrastructure.cluster.nats.connection import NatsConnection, unless_lost
from agent_fabric.wire.json_codec import dump_json, load_json

STREAM: Final = "AGENT33"
SUBJECTS: Final = "agent33.>"
KEPT_S: Final = 7 * 24 * 3600
"""How long messages are kept for those who are away."""
DUPLICATE_WINDOW_S: Final = 600
"""How long the id of a message is remembered, so that it is not kept twice."""
PUBLISH_TIMEOUT_S: Final = 5.0
ACK_WAIT_S: Final = 10
"""A message comes again if no one has been heard of for so long who works on it."""
FETCH_TIMEOUT_S: Final = 5.0
MAX_PAUSE_S: Final = 60
"""Between two tries with a message that a subscriber cannot take."""
WITHOUT: Final = "the bus is told when it is back; until then the outbox keeps everything"
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

_log = logging.getLogger(__name__)
_FAILURES: Final = (Error, APIError, OSError, TimeoutError)


class _Attending(NamedTuple):
    name: str
    pattern: str
    subscriber: Subscriber


class JetStreamBus:
    """DurableBus over a stream that all servers and workers share."""

    def __init__(self, url: str, *, replicas: int = 1, quiet: bool = False) -> None:
        """Connect to nothing yet; `quiet`: another connection of this process warns if NATS is gone."""
        self._replicas = replicas
        self._stream: JetStreamContext | None = None
        self._ready = asyncio.Event()
        self._attending: dict[object, _Attending] = {}
        self._handling: dict[object, asyncio.Task[None]] = {}
        self._warned = False
        self._connection = NatsConnection(url, name="fabric bus", without=WITHOUT, quiet=quiet)
        self._connection.use(self._open_stream)

    async def deliver(self, messages: Sequence[BusMessage]) -> bool:
        self._connection.start()
        stream = self._stream
        if stream is None:
            return False
        try:
            for message in messages:
                await self._publish(stream, message)
        except _FAILURES as problem:
            self._warn(problem)
            return False
        return True

    def attend(self, name: str, pattern: str, subscriber: Subscriber) -> Callable[[], None]:
        if not _NAME.fullmatch(name):
            raise ValueError("a name has at most 64 letters, digits, - and _")
        self._connection.start()
        key = object()
        self._attending[key] = _Attending(name, pattern, subscriber)
        self._handling[key] = asyncio.create_task(self._handle_all(self._attending[key]))

        def end() -> None:
            self._attending.pop(key, None)
            if (task := self._handling.pop(key, None)) is not None:
                task.cancel()

        return end

    async def aclose(self) -> None:
        tasks = list(self._handling.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._handling.clear()
        await self._connection.aclose()

    async def _publish(self, stream: JetStreamContext, message: BusMessage) -> None:
        headers = {"Nats-Msg-Id": message.message_id}
        try:
            data = dump_json(message.payload)
            await unless_lost(
                stream.publish(message.subject, data, timeout=PUBLISH_TIMEOUT_S, stream=STREAM, headers=headers)
            )
        except MaxPayloadError:
            _log.exception("Message %s is too large for NATS, and is left out", message.message_id)

    async def _open_stream(self, client: Client) -> None:
        """Make the stream over a new connection, and be ready until that is lost."""
        stream = client.jetstream(timeout=PUBLISH_TIMEOUT_S)
        config = StreamConfig(
            name=STREAM,
            subjects=[SUBJECTS],
            num_replicas=self._replicas,
            max_age=KEPT_S,
            duplicate_window=DUPLICATE_WINDOW_S,
            storage=StorageType.FILE,
        )
        while True:
            try:
                await unless_lost(_make(stream, config))
                break
            except _FAILURES as problem:  # JetStream is off, or a cluster has no leader yet
                self._warn(problem)
                await asyncio.sleep(1)
        self._warned = False
        self._stream = stream
        self._ready.set()
        try:
            await asyncio.Event().wait()
        finally:
            self._stream = None
            self._ready.clear()

    async def _handle_all(self, who: _Attending) -> None:
        """Have messages handled under a name, over whatever connection there is."""
        while True:
            await self._ready.wait()
            stream = self._stream
            if stream is None:
                continue
            try:
                await self._handle_over(stream, who)
            except _FAILURES as problem:
                self._warn(problem)
                await asyncio.sleep(1)

    async def _handle_over(self, stream: JetStreamContext, who: _Attending) -> None:
        config = ConsumerConfig(ack_wait=ACK_WAIT_S, max_ack_pending=1)
        pulled = await unless_lost(stream.pull_subscribe(who.pattern, durable=who.name, stream=STREAM, config=config))
        try:
            while self._stream is stream:
                with suppress(TimeoutError):
                    for message in await unless_lost(pulled.fetch(1, timeout=FETCH_TIMEOUT_S)):
                        await self._handle(message, who)
        finally:
            with suppress(*_FAILURES):
                await pulled.unsubscribe()

    async def _handle(self, message: Msg, who: _Attending) -> None:
        told = _message(message)
        working = asyncio.create_task(_keep_working(message))
        try:
            if told is not None:
                await who.subscriber(told)
        except Exception:  # noqa: BLE001 - a subscriber is anyone's code
            _log.exception("Subscriber %s could not take %s", who.name, told.message_id if told else "a message")
            await message.nak(delay=min(MAX_PAUSE_S, 2 ** min(message.metadata.num_delivered - 1, 6)))
        else:
            await message.ack()
        finally:
            working.cancel()

    def _warn(self, problem: BaseException) -> None:
        if not self._warned and self._connection.client is not None:  # else the connection has said so
            self._warned = True
            _log.warning("JetStream cannot be used (%s): %s", str(problem) or type(problem).__name__, WITHOUT)


async def _keep_working(message: Msg) -> None:
    """Say now and then that a message is being worked on."""
    with suppress(*_FAILURES):
        while True:
            await asyncio.sleep(ACK_WAIT_S / 3)
            await message.in_progress()


async def _make(stream: JetStreamContext, config: StreamConfig) -> None:
    try:
        await stream.add_stream(config)
    except BadRequestError:  # there is one with other settings, such as fewer replicas
        await stream.update_stream(config)


def _message(message: Msg) -> BusMessage | None:
    """Return what was delivered; None: it is not of ours."""
    try:
        payload = load_json(message.data)
    except ValueError:
        return None
    message_id = (message.headers or {}).get("Nats-Msg-Id", "")
    return BusMessage(message_id, message.subject, payload) if isinstance(payload, dict) else None
