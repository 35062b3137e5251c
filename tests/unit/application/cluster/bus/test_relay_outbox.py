"""What is in the outbox is handed on until the bus has taken it over."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from agent_fabric.application.cluster.bus.relay_outbox import GRACE_S, RelayOutbox
from agent_fabric.application.ports.bus import BusMessage
from agent_fabric.infrastructure.cluster.bus.in_process import InProcessBus, InProcessDurableBus
from agent_fabric.testing.fakes import FrozenClock
from contract.durable_bus_contract import Inboxes
from contract.run_repository_contract import OTHER, RUN, WORKFLOW, completed, log, run_created
from memory_storage import MemoryStorage

pytestmark = pytest.mark.proves("A33-090", "A33-091", "A33-092", "SC-12")
CREATED = log(replace(run_created(), workflow=WORKFLOW))


@dataclass
class Bus(InProcessDurableBus):
    """A bus that can be out of order."""

    works: bool = True
    taken: list[BusMessage] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    async def deliver(self, messages: Sequence[BusMessage]) -> bool:
        if self.works:
            self.taken += messages
        return self.works and await super().deliver(messages)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def storage(clock: FrozenClock) -> MemoryStorage:
    return MemoryStorage(clock)


@pytest.fixture
def bus() -> Bus:
    return Bus()


@pytest.fixture
def relay(storage: MemoryStorage, bus: Bus, clock: FrozenClock) -> RelayOutbox:
    async def pause(_: float) -> None:
        raise AssertionError("a single round")

    return RelayOutbox(
        outbox=storage.outbox,
        reader=storage.reader,
        bus=bus,
        here=InProcessBus(),
        clock=clock,
        is_discreet=lambda _: False,
        pause=pause,
    )


async def test_what_this_process_has_noted_is_told_at_once_under_its_own_id(
    relay: RelayOutbox, storage: MemoryStorage, bus: Bus
) -> None:
    held = await storage.runs.create(RUN, CREATED)
    relay.own(RUN)
    await relay.relay()
    await held.append(log(completed(RUN), first=1))
    relay.own(RUN)
    await relay.relay()
    await relay.relay()
    assert [(told.message_id, told.subject) for told in bus.taken] == [
        (f"{RUN}:0", "agent33.workflow.started"),
        (f"{RUN}:1", "agent33.workflow.completed"),
    ]


async def test_a_run_that_has_noted_nothing_is_not_kept_in_mind(relay: RelayOutbox, storage: MemoryStorage) -> None:
    await storage.runs.create(OTHER, log(run_created()))
    relay.own(OTHER)
    await relay.relay()
    assert relay._own == set()


async def test_what_others_have_noted_is_left_to_them_for_a_while(
    relay: RelayOutbox, storage: MemoryStorage, bus: Bus, clock: FrozenClock
) -> None:
    clock.time = CREATED[0].ts
    await storage.runs.create(RUN, CREATED)
    await relay.relay()
    assert bus.taken == []
    clock.time += GRACE_S
    await relay.relay()
    assert [told.message_id for told in bus.taken] == [f"{RUN}:0"]


async def test_nothing_is_forgotten_while_the_bus_is_gone(relay: RelayOutbox, storage: MemoryStorage, bus: Bus) -> None:
    bus.works = False
    for run_id in (RUN, OTHER):
        await storage.runs.create(run_id, CREATED)
    storage.outbox.put(BusMessage("alert-1", "agent33.alert.disk", {}))
    await relay.relay()
    bus.works = True
    await relay.relay()
    assert {told.message_id for told in bus.taken} == {f"{RUN}:0", f"{OTHER}:0", "alert-1"}
    await relay.relay()
    assert len(bus.taken) == 3


async def test_a_subscriber_that_fails_gets_it_again_and_the_outbox_keeps_it_until_then(
    relay: RelayOutbox, storage: MemoryStorage, bus: Bus
) -> None:
    inboxes = Inboxes()
    bus.attend("billing", "agent33.>", inboxes.subscriber("billing", failing=1))
    await storage.runs.create(RUN, CREATED)
    await relay.relay()
    assert len(await storage.outbox.rows(limit=9)) == 1
    await relay.relay()
    assert inboxes.ids("billing") == [f"{RUN}:0"]
    assert await storage.outbox.rows(limit=9) == []


async def test_a_run_that_was_deleted_meanwhile_is_not_told_of(
    relay: RelayOutbox, storage: MemoryStorage, bus: Bus
) -> None:
    held = await storage.runs.create(RUN, [*CREATED, *log(completed(RUN), first=1)])
    (row,) = await storage.outbox.rows(limit=9)
    await held.release()
    await storage.retention.remove(RUN, by="ada", reason="old")
    assert await relay._messages(row) == []
