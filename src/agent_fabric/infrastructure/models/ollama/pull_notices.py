"""Short texts about a pull, few enough to be read."""

import time
from collections.abc import Callable

from agent_fabric.application.ports.llm import Notice, ProgressText
from agent_fabric.infrastructure.models.ollama.model_wire import PullStep
from agent_fabric.infrastructure.models.weights.progress import amount

_PAUSE_S = 0.25
"""Time between two texts about the same part."""


class PullNotices:
    """Tells a person how far a pull is."""

    def __init__(self, name: str, notice: Notice, *, now: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._notice = notice
        self._now = now
        self._said_at = float("-inf")
        self._status = ""

    def show(self, step: PullStep) -> None:
        """Show a step, unless one of the same part was shown a moment ago."""
        now = self._now()
        begun = step.status != self._status
        complete = 0 < step.total <= step.completed
        if not (begun or complete) and now - self._said_at < _PAUSE_S:
            return
        self._said_at, self._status = now, step.status
        text = amount(min(step.completed, step.total), step.total) if step.total else step.status
        self._notice(ProgressText(f"Pulling {self._name}: {text}"))
