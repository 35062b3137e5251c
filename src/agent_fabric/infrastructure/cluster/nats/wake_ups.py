"""Wake-ups over core NATS: nothing is kept, nothing is confirmed, and no one waits."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from agent_fabric.application.ports.wake_ups import Poked
from agent_fabric.infrastructure.cluster.nats.connection import NatsConnection
from agent_fabric.infrastructure.cluster.wake_ups.in_process import InProcessWakeUps
from agent_fabric.wire.json_codec import dump_json, load_json

MAX_WAITING: Final = 1_000
"""Hints that wait to be sent; when there are more, the oldest is dropped."""
WITHOUT: Final = "other servers and workers are heard at their next poll, and the bus is told later"


class NatsWakeUps:
    """WakeUps between all processes that use one NATS under one name. While it is gone, this process hears itself."""

    def __init__(self, url: str, *, cluster: str = "fabric") -> None:
        self._prefix = f"{cluster}.wake."
        self._here = InProcessWakeUps()
        self._outgoing: deque[tuple[str, bytes]] = deque(maxlen=MAX_WAITING)
        self._heard: dict[str, Subscription] = {}
        """What is subscribed to, at the present connection."""
        self._changed = asyncio.Event()
        self._connection = NatsConnection(url, name=f"{cluster} wake-ups", without=WITHOUT)
        self._connection.use(self._serve)

    @property
    def connected(self) -> bool:
        return self._connection.client is not None

    def start(self) -> None:
        """Connect now, and not with the first hint. Needs a running event loop."""
        self._connection.start()

    def poke(self, topic: str, hint: Mapping[str, Any]) -> None:
        self._here.poke(topic, hint)
        self._connection.start()
        if self._connection.client is not None:
            self._outgoing.append((self._prefix + topic, dump_json(hint)))
            self._changed.set()

    def listen(self, topic: str, poked: Poked) -> Callable[[], None]:
        end_here = self._here.listen(topic, poked)
        self._connection.start()
        self._changed.set()

        def end() -> None:
            end_here()
            self._changed.set()

        return end

    async def aclose(self) -> None:
        await self._here.aclose()
        await self._connection.aclose()

    async def _serve(self, client: Client) -> None:
        """Send and subscribe over one connection, until it is lost."""
        self._heard.clear()
        self._outgoing.clear()
        self._changed.set()
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._subscribe(client)
            while self._outgoing:
                await client.publish(*self._outgoing.popleft())

    async def _subscribe(self, client: Client) -> None:
        wanted = set(self._here.topics)
        for topic in wanted - self._heard.keys():
            self._heard[topic] = await client.subscribe(self._prefix + topic, cb=self._deliver)
        for topic in self._heard.keys() - wanted:
            await self._heard.pop(topic).unsubscribe()

    async def _deliver(self, message: Msg) -> None:
        try:
            hint = load_json(message.data)
        except ValueError:
            return  # not of ours
        if isinstance(hint, Mapping):
            self._here.poke(message.subject.removeprefix(self._prefix), hint)
