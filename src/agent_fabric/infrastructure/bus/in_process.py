"""A bus within one process."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from agent_fabric.application.ports.bus import Handler

_log = logging.getLogger(__name__)


class InProcessBus:
    """Bus whose listeners live in the same process; they are called one after another."""

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[tuple[str, ...], Handler]] = {}

    def publish(self, subject: str, message: Mapping[str, Any]) -> None:
        parts = tuple(subject.split("."))
        for pattern, handler in tuple(self._listeners.values()):
            if not _fits(pattern, parts):
                continue
            try:
                handler(subject, message)
            except Exception:  # noqa: BLE001 - a listener is anybody's code; the log has what it missed
                _log.exception("A listener of %s failed", subject)

    def subscribe(self, pattern: str, handler: Handler) -> Callable[[], None]:
        key = object()
        self._listeners[key] = (tuple(pattern.split(".")), handler)

        def end() -> None:
            self._listeners.pop(key, None)

        return end


def _fits(pattern: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    if pattern[-1:] == (">",):
        return len(parts) >= len(pattern) and _fits(pattern[:-1], parts[: len(pattern) - 1])
    return len(pattern) == len(parts) and all(want in ("*", part) for want, part in zip(pattern, parts, strict=True))
