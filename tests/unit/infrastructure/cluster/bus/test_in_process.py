"""A bus within one process."""

from collections.abc import AsyncIterator

import pytest

from agent_fabric.infrastructure.cluster.bus.in_process import MAX_TRIES, InProcessBus, InProcessDurableBus
from contract.durable_bus_contract import DurableBusContract, Inboxes, message

pytestmark = pytest.mark.proves("A33-090", "A33-092", "SC-13")


def test_patterns_are_those_of_nats_and_a_listener_that_fails_disturbs_nobody() -> None:
    bus, heard = InProcessBus(), list[str]()

    def fail(subject: str, message: object) -> None:
        raise RuntimeError(subject)

    bus.subscribe("agent33.alert.*", fail)
    end = bus.subscribe("agent33.alert.*", lambda subject, _: heard.append(subject))
    bus.subscribe("agent33.alert", lambda subject, _: heard.append(f"!{subject}"))
    for subject in ("agent33.alert.disk", "agent33.alert", "agent33.alert.disk.full", "agent33.workflow.started"):
        bus.publish(subject, {})
    end()
    bus.publish("agent33.alert.disk", {})

    assert heard == ["agent33.alert.disk", "!agent33.alert"]


class TestInProcess(DurableBusContract):
    @pytest.fixture
    async def bus(self) -> AsyncIterator[InProcessDurableBus]:
        bus = InProcessDurableBus()
        yield bus
        await bus.aclose()


async def test_a_message_that_nobody_can_take_does_not_hold_up_the_others_for_ever() -> None:
    bus, inboxes = InProcessDurableBus(), Inboxes()
    bus.attend("broken", "agent33.>", inboxes.subscriber("broken", failing=99))
    bus.attend("whole", "agent33.>", inboxes.subscriber("whole"))
    kept = [await bus.deliver([message(1)]) for _ in range(MAX_TRIES)]
    assert kept == [*[False] * (MAX_TRIES - 1), True]
    assert inboxes.ids("whole") == ["run-1:1"], "who has taken it is not given it again"
