"""Effects that are stopped, and the inbox while one runs."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from agent_fabric.application.runs import in_flight_effects
from agent_fabric.application.runs.in_flight_effects import InboxFuture, InFlightEffects, ends_effects
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.events import Body


@dataclass
class Stubborn:
    """An effect that goes on when it is cancelled."""

    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self) -> Sequence[Body]:
        while not self.may_end.is_set():
            try:
                await self.may_end.wait()
            except asyncio.CancelledError:
                continue
        return ()


async def test_an_effect_that_does_not_stop_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight_effects, "STOP_TIMEOUT_S", 0.01)
    effects, stubborn = InFlightEffects(), Stubborn()
    effects.start(None, stubborn)
    await asyncio.sleep(0)
    await effects.stop()
    assert len(effects.unfinished) == 1
    await effects.cleaned_up()  # does not wait for it
    stubborn.may_end.set()
    async with asyncio.timeout(60):
        await asyncio.wait(effects.unfinished)
    assert not effects.unfinished


async def test_an_inbox_that_cannot_be_read_does_not_end_a_run() -> None:
    inbox: InboxFuture = asyncio.get_running_loop().create_future()
    inbox.set_exception(StoreUnavailable("the disk is gone"))
    assert not ends_effects(inbox)
