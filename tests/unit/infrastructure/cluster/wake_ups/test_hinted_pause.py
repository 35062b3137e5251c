"""A pause that a hint ends early."""

import asyncio
import time

from agent_fabric.application.ports.wake_ups import INBOX
from agent_fabric.infrastructure.cluster.wake_ups.choose import MIN_GAP_S, HintedPause
from agent_fabric.infrastructure.cluster.wake_ups.in_process import InProcessWakeUps


async def test_without_a_hint_it_lasts_as_long_as_it_was_to_last() -> None:
    pause = HintedPause(InProcessWakeUps(), INBOX)
    begin = time.monotonic()
    await pause(0.05)
    assert time.monotonic() - begin >= 0.05


async def test_a_hint_ends_it() -> None:
    wake_ups = InProcessWakeUps()
    pause = asyncio.create_task(HintedPause(wake_ups, INBOX)(60))
    await asyncio.sleep(0)
    wake_ups.poke("log.run-1", {})
    await asyncio.sleep(MIN_GAP_S)
    assert not pause.done(), "nobody meant it"
    wake_ups.poke(INBOX, {"run": "run-1"})
    async with asyncio.timeout(60):
        await pause


async def test_what_is_hinted_at_while_somebody_looks_ends_the_next_one() -> None:
    wake_ups = InProcessWakeUps()
    pause = HintedPause(wake_ups, INBOX)
    await pause(0)
    wake_ups.poke(INBOX, {"run": "run-1"})
    async with asyncio.timeout(60):
        await pause(60)


async def test_a_flood_of_hints_is_no_flood_of_looks() -> None:
    wake_ups = InProcessWakeUps()
    pause = HintedPause(wake_ups, INBOX)
    await pause(0)
    begin = time.monotonic()
    for _ in range(5):
        wake_ups.poke(INBOX, {})
        await pause(60)
    assert time.monotonic() - begin >= 4 * MIN_GAP_S


async def test_where_somebody_else_looks_it_lasts_until_it_is_woken() -> None:
    pause = HintedPause(InProcessWakeUps(), "claim", min_s=30.0)
    pause.wake()  # before anybody sleeps: whoever begins looks by itself
    sleeping = asyncio.create_task(pause(0.0))
    await asyncio.sleep(0.05)
    assert not sleeping.done()
    pause.wake()
    async with asyncio.timeout(60):
        await sleeping
