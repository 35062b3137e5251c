"""What every DurableBus promises."""

import asyncio

from agent_fabric.application.ports.bus import BusMessage, DurableBus, Subscriber

PATIENCE_S = 60.0


def message(seq: int, subject: str = "agent33.workflow.started") -> BusMessage:
    return BusMessage(f"run-1:{seq}", subject, {"run_id": "run-1", "ünïcode": "日本 🎉", "seq": seq})


class Inboxes:
    """What subscribers have taken, by their names."""

    def __init__(self) -> None:
        self.taken: dict[str, list[BusMessage]] = {}
        self.tried = 0

    def subscriber(self, name: str, *, failing: int = 0) -> Subscriber:
        """Return a subscriber that cannot take a message the first times."""
        taken = self.taken.setdefault(name, [])
        left = failing

        async def take(told: BusMessage) -> None:
            nonlocal left
            self.tried += 1
            if left:
                left -= 1
                raise RuntimeError("not now")
            taken.append(told)

        return take

    def ids(self, name: str) -> list[str]:
        return [told.message_id for told in self.taken[name]]

    async def wait_for(self, name: str, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while len(self.taken[name]) < count:
                await asyncio.sleep(0.01)


async def deliver(bus: DurableBus, *messages: BusMessage) -> None:
    """Deliver as the relay does: until it is taken over."""
    async with asyncio.timeout(PATIENCE_S):
        while not await bus.deliver(messages):
            await asyncio.sleep(0.05)


class DurableBusContract:
    """Subclasses give the fixture `bus`."""

    async def test_everybody_who_attends_gets_everything_that_fits_in_order(self, bus: DurableBus) -> None:
        inboxes = Inboxes()
        bus.attend("all", "agent33.>", inboxes.subscriber("all"))
        bus.attend("alerts", "agent33.alert.*", inboxes.subscriber("alerts"))
        await deliver(bus, *(message(seq) for seq in range(20)))
        await deliver(bus, message(20, "agent33.alert.disk"))
        await inboxes.wait_for("all", 21)
        await inboxes.wait_for("alerts", 1)
        assert inboxes.taken["all"] == [*(message(seq) for seq in range(20)), message(20, "agent33.alert.disk")]
        assert inboxes.ids("alerts") == ["run-1:20"]

    async def test_what_a_subscriber_cannot_take_comes_again(self, bus: DurableBus) -> None:
        inboxes = Inboxes()
        bus.attend("unsure", "agent33.>", inboxes.subscriber("unsure", failing=2))
        await deliver(bus, message(1))
        await inboxes.wait_for("unsure", 1)
        assert inboxes.ids("unsure") == ["run-1:1"]
        assert inboxes.tried == 3

    async def test_who_has_left_gets_nothing(self, bus: DurableBus) -> None:
        inboxes = Inboxes()
        end = bus.attend("gone", "agent33.>", inboxes.subscriber("gone"))
        bus.attend("there", "agent33.>", inboxes.subscriber("there"))
        end()
        end()
        await deliver(bus, message(1))
        await inboxes.wait_for("there", 1)
        assert inboxes.ids("gone") == []
