"""What every WakeUps promises, wherever those who listen are."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from agent_fabric.application.ports.wake_ups import INBOX, WakeUps, log_topic
from agent_fabric.domain.ids import RunId

PATIENCE_S = 60.0
RUN = RunId("run-1")


class Pair(NamedTuple):
    """Who pokes and who listens; it may be the same."""

    one: WakeUps
    other: WakeUps
    ready: Callable[[], Awaitable[None]]
    """Returns as soon as all that was listened to so far is heard."""


class Ear:
    """Remembers hints."""

    def __init__(self) -> None:
        self.heard: list[Mapping[str, Any]] = []
        self._more = asyncio.Event()

    def __call__(self, hint: Mapping[str, Any]) -> None:
        self.heard.append(hint)
        self._more.set()

    async def wait_for(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.heard) < count:
                self._more.clear()
                await self._more.wait()


class WakeUpsContract:
    """Subclasses give the fixture `pair`."""

    async def test_a_hint_reaches_who_listens_there_and_here(self, pair: Pair) -> None:
        here, there = Ear(), Ear()
        pair.one.listen(INBOX, here)
        pair.other.listen(INBOX, there)
        await pair.ready()
        pair.one.poke(INBOX, {"run": RUN, "ünïcode": "日本 🎉"})
        await here.wait_for(1)
        await there.wait_for(1)
        assert here.heard == there.heard == [{"run": RUN, "ünïcode": "日本 🎉"}]

    async def test_hints_come_in_order_and_once(self, pair: Pair) -> None:
        ear = Ear()
        pair.other.listen(log_topic(RUN), ear)
        await pair.ready()
        for seq in range(200):
            pair.one.poke(log_topic(RUN), {"seq": seq})
        await ear.wait_for(200)
        assert [hint["seq"] for hint in ear.heard] == list(range(200))

    async def test_nobody_hears_of_what_they_do_not_listen_to(self, pair: Pair) -> None:
        other_run, this_run = Ear(), Ear()
        pair.other.listen(log_topic(RunId("run-2")), other_run)
        pair.other.listen(log_topic(RUN), this_run)
        await pair.ready()
        pair.one.poke(log_topic(RUN), {"seq": 1})
        await this_run.wait_for(1)
        assert other_run.heard == []

    async def test_who_has_stopped_listening_hears_nothing_and_others_still_do(self, pair: Pair) -> None:
        gone, staying = Ear(), Ear()
        end = pair.other.listen(INBOX, gone)
        pair.other.listen(INBOX, staying)
        await pair.ready()
        end()
        end()
        pair.one.poke(INBOX, {"run": RUN})
        await staying.wait_for(1)
        assert gone.heard == []

    async def test_a_listener_that_fails_disturbs_nobody(self, pair: Pair) -> None:
        def fail(hint: Mapping[str, Any]) -> None:
            raise RuntimeError(str(hint))

        ear = Ear()
        pair.other.listen(INBOX, fail)
        pair.other.listen(INBOX, ear)
        await pair.ready()
        for _ in range(2):
            pair.one.poke(INBOX, {"run": RUN})
        await ear.wait_for(2)

    async def test_poking_where_nobody_listens_is_no_mistake(self, pair: Pair) -> None:
        for number in range(3_000):
            pair.one.poke(f"log.run-{number}", {"seq": number})
