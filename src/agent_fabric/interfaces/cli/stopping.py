"""Ctrl-C and SIGTERM, for commands that leave something which can be resumed."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from agent_fabric.interfaces.cli.main import INTERRUPTED

_CLEANUP_TIMEOUT_S = 1.0
"""How long the cleaning up may take before another press of Ctrl-C ends the process on the spot."""


class StopSignals:
    """Lets Ctrl-C and SIGTERM stop the work, from here to the end of the process.

    More presses do not stop the cleaning up; one that comes a second later ends us. The loop's own handlers would not
    do: they go when the loop does, and a press between that and the end of the process would end with a traceback.
    """

    _SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.was_obeyed = False
        """Whether a signal has stopped the work."""
        self._first_press: float | None = None
        self._cancel: Callable[[], object] | None = None

    def __enter__(self) -> None:
        for number in self._SIGNALS:
            signal.signal(number, self._on_signal)

    def __exit__(self, *_: object) -> None:
        for number in self._SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # all is said: nothing is left to be stopped

    def cancels(self, task: "asyncio.Future[Any]") -> None:
        """Cancel this task at the first press, which may have been made already."""
        loop = asyncio.get_running_loop()

        def cancel() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)

        self._cancel = cancel
        if self._first_press is not None:
            cancel()

    def _on_signal(self, _number: int, _frame: object) -> None:
        now = time.monotonic()
        if self._first_press is None:
            self._first_press = now
            if self._cancel is not None:
                self._cancel()
        elif now - self._first_press > _CLEANUP_TIMEOUT_S:
            os._exit(INTERRUPTED)  # a pack that does not close; the run can be resumed all the same
