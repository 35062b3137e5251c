"""The bus over a real NATS with JetStream, which is also killed and started again."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator

import pytest
from nats.aio.client import Client

from agent_fabric.application.ports.bus import BusMessage
from agent_fabric.infrastructure.cluster.nats.bus import ACK_WAIT_S, STREAM, JetStreamBus
from contract.durable_bus_contract import DurableBusContract, Inboxes, deliver, message
from free_ports import free_port
from own_services import OwnService, run_nats

pytestmark = pytest.mark.proves("A33-090", "A33-092", "A33-132", "SC-8", "SC-12", "SC-13")


@pytest.fixture
def nats() -> Iterator[OwnService]:
    with run_nats() as server:
        yield server


@pytest.fixture
async def bus(nats: OwnService) -> AsyncIterator[JetStreamBus]:
    bus = JetStreamBus(nats.url)
    yield bus
    await bus.aclose()


class TestJetStream(DurableBusContract):
    """The suite, with the fixture above."""


async def kept_in(nats: OwnService) -> int:
    client = Client()
    await client.connect(nats.url)
    info = await client.jetstream().stream_info(STREAM)
    await client.close()
    return int(info.state.messages)


async def test_a_subscriber_that_was_away_gets_all(nats: OwnService, bus: JetStreamBus) -> None:
    inboxes = Inboxes()
    before = JetStreamBus(nats.url)
    before.attend("billing", "agent33.workflow.>", inboxes.subscriber("billing"))
    await deliver(bus, message(1))
    await inboxes.wait_for("billing", 1)
    await before.aclose()
    await deliver(bus, *(message(seq) for seq in range(2, 200)))
    after = JetStreamBus(nats.url)
    after.attend("billing", "agent33.workflow.>", inboxes.subscriber("billing"))
    await inboxes.wait_for("billing", 199)
    assert inboxes.ids("billing") == [f"run-1:{seq}" for seq in range(1, 200)]
    await after.aclose()


@pytest.mark.slow
async def test_a_subscriber_that_takes_long_is_not_disturbed(bus: JetStreamBus) -> None:
    begun, done = 0, asyncio.Event()

    async def work(_: BusMessage) -> None:
        nonlocal begun
        begun += 1
        await asyncio.sleep(ACK_WAIT_S + 3)
        done.set()

    bus.attend("slow", "agent33.>", work)
    await deliver(bus, message(1))
    async with asyncio.timeout(ACK_WAIT_S + 20):
        await done.wait()
    await asyncio.sleep(1)
    assert begun == 1


async def test_two_who_attend_under_one_name_share_the_messages(nats: OwnService, bus: JetStreamBus) -> None:
    inboxes = Inboxes()
    others = [JetStreamBus(nats.url) for _ in range(2)]
    for other in others:
        other.attend("billing", "agent33.>", inboxes.subscriber("billing"))
    await deliver(bus, *(message(seq) for seq in range(50)))
    await inboxes.wait_for("billing", 50)
    assert sorted(inboxes.ids("billing")) == sorted(f"run-1:{seq}" for seq in range(50))
    for other in others:
        await other.aclose()


async def test_what_several_relay_is_kept_once(nats: OwnService, bus: JetStreamBus) -> None:
    other = JetStreamBus(nats.url)
    for relay in (bus, other, bus):
        await deliver(relay, *(message(seq) for seq in range(10)))
    assert await kept_in(nats) == 10
    await other.aclose()


@pytest.mark.slow
async def test_messages_and_places_outlive_a_nats_that_is_killed(nats: OwnService, bus: JetStreamBus) -> None:
    inboxes = Inboxes()
    bus.attend("billing", "agent33.>", inboxes.subscriber("billing"))
    await deliver(bus, *(message(seq) for seq in range(5)))
    await inboxes.wait_for("billing", 5)
    nats.kill()
    assert not await bus.deliver([message(5)]), "the outbox keeps it"
    nats.start()
    await deliver(bus, message(5))
    async with asyncio.timeout(30):
        while set(inboxes.ids("billing")) != {f"run-1:{seq}" for seq in range(6)}:  # at least once: some come again
            await asyncio.sleep(0.01)


async def test_a_bus_that_starts_without_nats_takes_nothing_over_and_warns_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bus = JetStreamBus(f"nats://ada:pass-1@127.0.0.1:{free_port()}")
    async with asyncio.timeout(60):
        while not caplog.records:
            assert not await bus.deliver([message(1)])
            await asyncio.sleep(0.05)
    await asyncio.sleep(1.5)
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "the outbox keeps everything" in warnings[0]
    assert "pass-1" not in caplog.text
    await bus.aclose()


async def test_more_replicas_than_a_server_has_are_refused_in_words(
    nats: OwnService, caplog: pytest.LogCaptureFixture
) -> None:
    bus = JetStreamBus(nats.url, replicas=3)
    async with asyncio.timeout(60):
        while "JetStream cannot be used" not in caplog.text:
            assert not await bus.deliver([message(1)])
            await asyncio.sleep(0.05)
    assert "replicas" in caplog.text
    await bus.aclose()


async def test_a_message_that_is_too_large_holds_up_nobody(nats: OwnService, bus: JetStreamBus) -> None:
    await deliver(bus, message(1)._replace(payload={"text": "x" * 2_000_000}), message(2))
    assert await kept_in(nats) == 1
