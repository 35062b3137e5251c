"""One process of a cluster has a channel; another one takes it over when that ends (CH-1, CH-7)."""

import asyncio

from agent_fabric.application.channels.run_channel import KEPT_S
from agent_fabric.application.ports.channels import ChannelState, Take
from agent_fabric.domain.errors import ConfigError
from scripted_channel import ScriptedChannel
from unit.application.channels.world import World


class _Listening:
    """A channel that only listens."""

    def __init__(self) -> None:
        self.inner = ScriptedChannel()
        self.status, self.rendering, self.paces = self.inner.status, self.inner.rendering, self.inner.paces
        self.send, self.trace, self.answer, self.aclose = (
            self.inner.send,
            self.inner.trace,
            self.inner.answer,
            self.inner.aclose,
        )
        self.listens = asyncio.Event()
        self.refuses = False

    async def receive(self, take: Take) -> None:
        if self.refuses:
            raise ConfigError("The platform refuses the token", hint="Get another one.")
        self.status.state = ChannelState.CONNECTED
        self.listens.set()
        await asyncio.Event().wait()


async def test_one_process_listens_and_the_next_one_takes_over() -> None:
    world = World()
    runs, channels = list[asyncio.Future[None]](), list[_Listening]()
    for _ in range(2):
        each = World(born_of=world)
        channel = each.run.channel = each.run.deliver.channel = _Listening()
        each.run.pause = lambda _: asyncio.sleep(0.01)
        channels.append(channel)
        runs.append(asyncio.ensure_future(each.run()))
    async with asyncio.timeout(60):
        await channels[0].listens.wait()
        await asyncio.sleep(0.05)
        assert channels[1].status.state.value == "elsewhere"
        runs[0].cancel()
        await channels[1].listens.wait()
    assert channels[1].status.state.value == "connected"
    runs[1].cancel()
    await asyncio.gather(*runs, return_exceptions=True)


async def test_a_refused_credential_stops_the_channel_with_the_remedy_and_frees_it() -> None:
    world = World()
    channel = world.run.channel = world.run.deliver.channel = _Listening()
    channel.refuses = True
    await world.run()
    assert (channel.status.state, channel.status.hint) == (ChannelState.REFUSED, "Get another one.")
    assert not await world.storage.agent_locks.is_held(world.run.lock_name)


async def test_what_is_old_is_deleted_now_and_then() -> None:
    world = World()
    await world.add("ann")
    await world.write("/status")
    await world.run.prune()
    assert len(await world.store.deliveries.list()) == 1
    world.clock.time += KEPT_S + 10
    await world.run.prune()
    assert await world.store.deliveries.list() == []
