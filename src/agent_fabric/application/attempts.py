"""Duties of a process outlive a store that is gone for a while, and one process of all has some of them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from agent_fabric.application.ports.leases import NamedLocks
from agent_fabric.domain.errors import FabricError

_log = logging.getLogger(__name__)


async def attempt(work: Awaitable[object], what: str) -> None:
    """Await work that is done again and again; what goes wrong is logged, and does not end the duty."""
    try:
        await work
    except FabricError as problem:
        _log.warning("%s: %s", what, problem.message)
    except asyncio.CancelledError:
        raise
    except Exception:  # noqa: BLE001 - without the duty, no one would do it any more
        _log.exception("%s", what)


async def lead(
    locks: NamedLocks,
    name: str,
    work: Callable[[], Awaitable[object]],
    pause: Callable[[], Awaitable[None]],
    on_problem: Callable[[FabricError], None],
) -> None:
    """Do something again and again until cancelled, as soon as this process has a lock: one of all does it."""
    holds = False
    try:
        while True:
            try:
                holds = holds or await locks.acquire(name)
                if holds:
                    await work()
            except FabricError as problem:
                on_problem(problem)
            await pause()
    finally:
        if holds:
            await locks.release(name)
