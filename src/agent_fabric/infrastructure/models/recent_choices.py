"""Remembers for a moment which model a key means: a server with hundreds of runs need not look around for each."""

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.llm import ChosenModel, ModelChooser, Notice

LASTS_S = 10.0
"""After this, somebody may have started Ollama, pulled a model or probed one."""


class RecentChoices:
    """ModelChooser that asks another one now and then."""

    def __init__(self, inner: ModelChooser, clock: Clock, *, lasts_s: float = LASTS_S) -> None:
        self._inner = inner
        self._clock = clock
        self._lasts_s = lasts_s
        self._known: dict[str, tuple[float, ChosenModel]] = {}

    async def choose(self, key: str, notice: Notice) -> ChosenModel:
        known = self._known.get(key)
        if known is not None and self._clock.monotonic() - known[0] < self._lasts_s:
            return known[1]
        chosen = await self._inner.choose(key, notice)
        if chosen.settings.backend != "managed":  # that one changes when a person says so, and is known at once
            self._known[key] = (self._clock.monotonic(), chosen)
        return chosen
