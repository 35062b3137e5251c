"""Wake-ups over a real NATS server, which is also killed, paused and started again."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from agent_fabric.application.ports.wake_ups import INBOX
from agent_fabric.infrastructure.cluster.nats.wake_ups import NatsWakeUps
from contract.wake_ups_contract import PATIENCE_S, Ear, Pair, WakeUpsContract
from free_ports import free_port
from own_services import OwnService, run_nats

pytestmark = pytest.mark.proves("SC-4", "SC-8", "SC-13")


@pytest.fixture(scope="module")
def server() -> Iterator[OwnService]:
    with run_nats() as server:
        yield server


@pytest.fixture
def nats(server: OwnService) -> OwnService:
    if server.process.poll() is not None:
        server.start()
    return server


@asynccontextmanager
async def two_processes(url: str) -> AsyncIterator[Pair]:
    """Give two that share nothing but NATS."""
    one, other = NatsWakeUps(url), NatsWakeUps(url)

    async def ready() -> None:
        """Return once each hears the other."""
        for speaker, listener in ((one, other), (other, one)):
            ear = Ear()
            end = listener.listen("ready", ear)
            async with asyncio.timeout(PATIENCE_S):
                while not ear.heard:
                    speaker.poke("ready", {})
                    await asyncio.sleep(0.01)
            end()

    try:
        yield Pair(one, other, ready)
    finally:
        await one.aclose()
        await other.aclose()


class TestNats(WakeUpsContract):
    @pytest.fixture
    async def pair(self, nats: OwnService) -> AsyncIterator[Pair]:
        async with two_processes(nats.url) as pair:
            yield pair


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def test_they_find_each_other_again_after_nats_was_killed(
    nats: OwnService, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with two_processes(nats.url) as pair:
        ear = Ear()
        pair.other.listen(INBOX, ear)
        await pair.ready()
        nats.kill()
        await until(lambda: len(warnings_in(caplog)) == 2)
        here = Ear()
        pair.one.listen(INBOX, here)
        pair.one.poke(INBOX, {"run": "lost"})
        assert here.heard == [{"run": "lost"}], "a process hears itself all the time"
        nats.start()
        await pair.ready()
        pair.one.poke(INBOX, {"run": "heard"})
        await ear.wait_for(1)
        assert ear.heard == [{"run": "heard"}], "old hints are of no use"
        assert len(warnings_in(caplog)) == 2, "one for each process and outage"
        assert "heard at their next poll" in warnings_in(caplog)[0]
        assert sum("is back" in record.getMessage() for record in caplog.records) == 2


async def test_starting_without_nats_works_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    async with two_processes(f"nats://ada:pass-1@127.0.0.1:{port}") as pair:
        ear = Ear()
        begin = time.monotonic()
        pair.one.listen(INBOX, ear)
        pair.one.poke(INBOX, {"run": "here"})
        assert time.monotonic() - begin < 10, "it does not wait for NATS"
        assert ear.heard == [{"run": "here"}]
        await until(lambda: warnings_in(caplog))
        await asyncio.sleep(2)
        assert len(warnings_in(caplog)) == 1, "the other has not been used"
        assert "pass-1" not in caplog.text


async def test_a_server_that_comes_later_is_found(nats: OwnService) -> None:
    nats.kill()
    async with two_processes(nats.url) as pair:
        ear = Ear()
        pair.other.listen(INBOX, ear)
        pair.one.poke(INBOX, {"run": "lost"})
        await asyncio.sleep(0.3)
        nats.start()
        await pair.ready()
        pair.one.poke(INBOX, {"run": "heard"})
        await ear.wait_for(1)


async def test_a_server_that_hangs_holds_nobody_up(nats: OwnService) -> None:
    async with two_processes(nats.url) as pair:
        ear = Ear()
        pair.other.listen(INBOX, ear)
        await pair.ready()
        nats.pause()
        try:
            begin = time.process_time()
            for number in range(5_000):
                pair.one.poke(INBOX, {"run": number})
                if number % 100 == 0:
                    await asyncio.sleep(0)
            assert time.process_time() - begin < 2
        finally:
            nats.go_on()
        await ear.wait_for(1)


async def test_messages_of_others_are_ignored(nats: OwnService) -> None:
    async with two_processes(nats.url) as pair:
        ear = Ear()
        pair.other.listen(INBOX, ear)
        await pair.ready()
        assert isinstance(pair.one, NatsWakeUps)
        client = pair.one._connection.client
        assert client is not None
        for data in (b"", b"\xff\x00", b"[1]", b'{"run": "fine"}'):
            await client.publish("fabric.wake.inbox", data)
        await ear.wait_for(1)
        assert ear.heard == [{"run": "fine"}]


async def test_two_clusters_at_one_nats_do_not_hear_each_other(nats: OwnService) -> None:
    async with two_processes(nats.url) as pair:
        apart, ear = NatsWakeUps(nats.url, cluster="test"), Ear()
        apart.listen(INBOX, ear)
        pair.other.listen(INBOX, heard := Ear())
        await pair.ready()
        await until(lambda: apart.connected)
        pair.one.poke(INBOX, {"run": "x"})
        await heard.wait_for(1)
        assert ear.heard == []
        await apart.aclose()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.02)


async def test_two_clusters_share_one_nats_and_do_not_hear_each_other(nats: OwnService) -> None:
    one, same, other = (NatsWakeUps(nats.url, cluster=name) for name in ("blue", "blue", "green"))
    ear, foreign = Ear(), Ear()
    same.listen(INBOX, ear)
    other.listen(INBOX, foreign)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (ear.heard and other.connected):
                one.poke(INBOX, {"run": "r"})
                await asyncio.sleep(0.01)
            for _ in range(20):
                one.poke(INBOX, {"run": "r"})
                await asyncio.sleep(0.005)
        assert foreign.heard == []
    finally:
        for each in (one, same, other):
            await each.aclose()
