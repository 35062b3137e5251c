"""Runs a channel for as long as the server lives, in one process of all that share the store."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field

from agent_fabric.application.channels.deliver_parts import DeliverParts
from agent_fabric.application.channels.handle_inbound import HandleInbound
from agent_fabric.application.channels.relay_answers import RelayAnswers
from agent_fabric.application.channels.send_cards import SendCards
from agent_fabric.application.ports.channels import Channel, ChannelState, ChannelStore
from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.leases import NamedLocks
from agent_fabric.domain.channels.inbound import Inbound
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError

LOOK_EVERY_S = 0.5
"""How often is looked for answers, questions and what is due."""
KEPT_S = 30 * 86_400.0
"""How long the keys of what came, and the ledger of what went out, are kept."""
PRUNE_EVERY_S = 3_600.0
CLAIM_EVERY_S = 5.0
"""How often a process that does not have the channel tries to get it."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class RunChannel:
    """Use case: receive, handle, relay and send, until cancelled.

    The lock is named after the channel, and ends with the process that holds it, however that ends.
    """

    channel: Channel
    store: ChannelStore
    handle: HandleInbound
    relay: RelayAnswers
    cards: SendCards
    deliver: DeliverParts
    locks: NamedLocks
    clock: Clock
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    _pruned_at: float = 0.0
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def lock_name(self) -> str:
        return f"channel {self.channel.status.channel}"

    async def __call__(self) -> None:
        """Run until cancelled. A credential that is missing or refused ends it, and the status says why."""
        try:
            while not await self.locks.acquire(self.lock_name):
                self.channel.status.state = ChannelState.ELSEWHERE
                await self.pause(CLAIM_EVERY_S)
            await self._run()
        finally:  # a webhook may have made connections, although the channel is another process's
            await self.channel.aclose()

    async def _run(self) -> None:
        """Do the work of the process that has the channel."""
        self.channel.status.state = ChannelState.STARTING
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.channel.receive(self._take))
                group.create_task(self._work())
        except* FabricError as refused:
            for problem in refused.exceptions:
                self._stop(problem)
        finally:
            await self.handle.fetch.aclose()
            await self.channel.aclose()  # before another one begins: a poll that is still open would get it a 409
            await self.locks.release(self.lock_name)

    def _stop(self, problem: BaseException) -> None:
        """Say why the channel has stopped, and what to do."""
        status = self.channel.status
        status.state, status.problem = ChannelState.REFUSED, str(problem)
        status.hint = problem.hint if isinstance(problem, FabricError) else ""
        _log.error("Channel %s has stopped: %s", status.channel, problem)

    async def _take(self, inbound: Sequence[Inbound]) -> None:
        """Make what came durable; it is handled a moment later."""
        await self.store.inbound.add(inbound, now=self.clock.now())
        self._came.set()

    async def prune(self) -> None:
        """Delete what is old, now and then. A repetition of a message that old is not known any more.

        Raises:
            StoreUnavailable: it is deleted later.
        """
        now = self.clock.now()
        if now - self._pruned_at >= PRUNE_EVERY_S:
            await self.store.prune(now - KEPT_S)
            self._pruned_at = now

    async def _work(self) -> None:
        recovered = False
        while True:
            try:
                if self.channel.status.account:  # before that, no one knows whose parts these are
                    if not recovered:
                        await self.deliver.recover()
                        recovered = True
                    await self.step()
                    await self.prune()
            except FabricError as problem:
                _log.warning("Channel %s: %s", self.channel.status.channel, problem.message)
            try:
                async with asyncio.timeout(min(LOOK_EVERY_S, self.deliver.free_in_s or LOOK_EVERY_S)):
                    await self._came.wait()
            except TimeoutError:
                pass
            self._came.clear()

    async def step(self) -> None:
        """Do once what there is to do; approvals first.

        Raises:
            FabricError: it is tried again.
        """
        await self.cards(self.channel)
        while await self.handle(self.channel):
            pass
        await self.relay(self.channel)
        while await self.deliver():
            pass
