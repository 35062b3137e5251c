"""A pause between two polls that a hint ends early."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from agent_fabric.application.ports.wake_ups import WakeUps

MIN_GAP_S: Final = 0.02
"""However many hints come, there are no more polls than fifty a second."""


class HintedPause:
    """Sleeps until the next poll is due or something has happened, whichever is first.

    It stands where `asyncio.sleep` would. What is hinted at during a poll ends the next pause at once: the poll may
    have looked too early.
    """

    def __init__(self, wake_ups: WakeUps, topic: str, *, min_s: float = 0.0) -> None:
        """Sleep, until a hint of `topic` comes or `wake` is called, for `min_s` at least where one is asked for less.

        With `min_s`, another task looks for work, and wakes the one that sleeps here.
        """
        self._wake_ups = wake_ups
        self._topic = topic
        self._min_s = min_s
        self._hinted: asyncio.Event | None = None
        self._woken_at = 0.0

    async def __call__(self, timeout_s: float) -> None:
        """Wait for a hint, for `timeout_s` at most."""
        await self.until_hinted(timeout_s)

    async def until_hinted(self, timeout_s: float) -> bool:
        """Wait for a hint, for `timeout_s` at most; tell whether one came."""
        if self._hinted is None:  # nothing can be listened to before there is an event loop
            self._hinted = asyncio.Event()
            self._wake_ups.listen(self._topic, self._hint)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(max(timeout_s, self._min_s)):
                await self._hinted.wait()
                await asyncio.sleep(max(0.0, self._woken_at + MIN_GAP_S - loop.time()))
        except TimeoutError:
            pass
        was_hinted = self._hinted.is_set()
        self._hinted.clear()
        self._woken_at = loop.time()
        return was_hinted

    def wake(self) -> None:
        """End the pause, or the next one."""
        if self._hinted is not None:
            self._hinted.set()

    def _hint(self, _: Mapping[str, Any]) -> None:
        self.wake()
