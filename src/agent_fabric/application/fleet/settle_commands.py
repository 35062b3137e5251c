"""Settles commands that will never be sent: no one allowed them in time, or someone has denied them."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from agent_fabric.application.fleet.attempts import attempt
from agent_fabric.application.fleet.remote_tools import RemoteTools
from agent_fabric.domain.fleet.commands import CommandStatus

SWEEP_S = 2.0
"""How often commands are looked at; never more often, however often it is woken."""
MAX_COMMANDS = 1_000
"""That are looked at in one go."""


@dataclass(slots=True)
class SettleCommands:
    """Use case: for as long as the server lives, settle what has expired or was denied before it was sent."""

    tools: RemoteTools
    look_every_s: float = SWEEP_S
    """How often commands are looked at; seldom, where someone calls `wake`."""
    _woken: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """There is a command to settle."""
        self._woken.set()

    async def __call__(self) -> None:
        """Settle until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_S)
            with suppress(TimeoutError):
                async with asyncio.timeout(self.look_every_s - SWEEP_S):
                    await self._woken.wait()
            self._woken.clear()
            await attempt(self.settle(), "Commands could not be looked at")

    async def settle(self) -> None:
        """Look once."""
        dispatch = self.tools.dispatch
        now = dispatch.clock.now()
        for command in await dispatch.commands.list(open_only=True, limit=MAX_COMMANDS):
            if command.status is CommandStatus.SENT:
                continue
            if command.expires_at <= now:
                await dispatch.end(command.execution_id, CommandStatus.EXPIRED, "it expired before it was sent")
            elif command.status is CommandStatus.WAITING:
                await self.tools.settle_denied(command)
