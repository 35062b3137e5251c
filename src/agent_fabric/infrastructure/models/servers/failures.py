"""Keeps a server that fails again and again from being started again and again."""

import time
from pathlib import Path

from agent_fabric.domain.errors import FabricError, ModelError

MAX_FAILURES = 3
"""After so many in a row a server is left alone for a while."""
LEFT_ALONE_S = 60.0


class Failures:
    """What went wrong with one server lately: starts that failed, and ends in the middle of work."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._last_at = 0.0
        self._ready_at = 0.0
        self.problem: FabricError | None = None
        """Why it failed last; None: it is well."""

    def note(self, problem: FabricError) -> FabricError:
        """Remember a failure and return it."""
        self._in_a_row += 1
        self._last_at = time.monotonic()
        self.problem = problem
        return problem

    def note_ready(self) -> None:
        """Remember that the server is ready; what failed before is forgotten when that lasts."""
        self._ready_at = time.monotonic()

    def note_well(self) -> None:
        """Forget what failed when the server has been ready for a while."""
        if self._in_a_row and time.monotonic() - self._ready_at > LEFT_ALONE_S:
            self._in_a_row, self.problem = 0, None

    def refuse_storm(self, name: str, log: Path) -> None:
        """Let a start through unless the last ones failed.

        Raises:
            ModelError: too many failed, and the last one not long ago.
        """
        if self._in_a_row < MAX_FAILURES:
            return
        if time.monotonic() - self._last_at > LEFT_ALONE_S:
            self._in_a_row = MAX_FAILURES - 1  # one more try
            return
        because, hint = (self.problem.message, self.problem.hint) if self.problem else ("", "")
        raise ModelError(
            f"{name} failed {self._in_a_row} times in a row and is left alone for a minute. {because}",
            hint=hint or f"Look at its log: {log}",
        )
