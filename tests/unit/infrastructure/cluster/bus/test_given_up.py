"""What a subscriber never takes is kept, and can be delivered once more."""

import pytest

from agent_fabric.application.automation.replay_letter import BusLetters
from agent_fabric.application.ports.automation import LetterKind
from agent_fabric.application.ports.bus import BusMessage
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.identity.principals import Kind, Principal
from agent_fabric.infrastructure.cluster.bus.in_process import MAX_TRIES, InProcessDurableBus
from agent_fabric.testing.fakes import FrozenClock, MemoryRuns
from memory_automation import MemoryAutomation

MESSAGE = BusMessage("run:1", "agent33.workflow.completed", {"run_id": "run"})
ADA = Principal("ada", Kind.LOCAL, frozenset())


@pytest.mark.proves("AU-11")
async def test_a_message_that_a_subscriber_never_takes_becomes_a_dead_letter() -> None:
    bus, store = InProcessDurableBus(), MemoryAutomation.over(MemoryRuns())
    letters = BusLetters(store.letters, bus.deliver_to, FrozenClock())
    bus.give_up = letters.keep
    taken: list[BusMessage] = []

    async def breaks(_: BusMessage) -> None:
        raise RuntimeError("a bug")

    async def takes(message: BusMessage) -> None:
        taken.append(message)

    end = bus.attend("sensor-a", "agent33.>", breaks)
    assert [await bus.deliver([MESSAGE]) for _ in range(MAX_TRIES)] == [False] * (MAX_TRIES - 1) + [True]
    (letter,) = await store.letters.list(limit=5)
    assert (letter.kind, letter.source, letter.reason) == (LetterKind.BUS, "sensor-a", "RuntimeError: a bug")
    end()
    with pytest.raises(ConfigError):
        await letters.replay(letter, ADA, again=False)
    bus.attend("sensor-a", "agent33.>", takes)
    assert await letters.replay(letter, ADA, again=False) == "run:1"
    assert taken == [MESSAGE]
