"""Wake-ups within one process."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from agent_fabric.application.ports.wake_ups import Poked

_log = logging.getLogger(__name__)


class InProcessWakeUps:
    """WakeUps whose listeners live in the same process; they are called at once, one after another."""

    def __init__(self) -> None:
        self._listeners: dict[str, dict[object, Poked]] = {}

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(self._listeners)

    def poke(self, topic: str, hint: Mapping[str, Any]) -> None:
        for poked in tuple(self._listeners.get(topic, {}).values()):
            try:
                poked(hint)
            except Exception:  # noqa: BLE001 - a listener is anyone's code; its next poll has what it missed
                _log.exception("A listener of %s failed", topic)

    def listen(self, topic: str, poked: Poked) -> Callable[[], None]:
        key = object()
        self._listeners.setdefault(topic, {})[key] = poked

        def end() -> None:
            listeners = self._listeners.get(topic, {})
            listeners.pop(key, None)
            if not listeners:
                self._listeners.pop(topic, None)

        return end

    async def aclose(self) -> None:
        self._listeners.clear()
