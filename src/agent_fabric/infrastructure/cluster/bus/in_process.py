"""The bus within one process, and the one that keeps what is published until other systems have it."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from agent_fabric.application.ports.bus import Bus, BusMessage, Handler, Outbox, Subscriber
from agent_fabric.application.ports.clock import IdSource
from agent_fabric.domain.errors import ConfigError

MAX_TRIES: Final = 5
"""How often a subscriber gets a message that it cannot take; then the message is given up, for that one."""

GiveUp = Callable[[str, BusMessage, str], Awaitable[None]]
"""Keeps a message that a subscriber, by its name, could not take, and why."""

_log = logging.getLogger(__name__)


class InProcessBus:
    """Bus whose listeners live in the same process; they are called one after another."""

    def __init__(self) -> None:
        self._listeners: dict[object, tuple[tuple[str, ...], Handler]] = {}

    def publish(self, subject: str, message: Mapping[str, Any]) -> None:
        parts = tuple(subject.split("."))
        for pattern, handler in tuple(self._listeners.values()):
            if not fits(pattern, parts):
                continue
            try:
                handler(subject, message)
            except Exception:  # noqa: BLE001 - a listener is anyone's code; the log has what it missed
                _log.exception("A listener of %s failed", subject)

    def subscribe(self, pattern: str, handler: Handler) -> Callable[[], None]:
        key = object()
        self._listeners[key] = (tuple(pattern.split(".")), handler)

        def end() -> None:
            self._listeners.pop(key, None)

        return end


class InProcessDurableBus:
    """DurableBus for one process: a subscriber is there from its start, and while it is gone the outbox keeps all.

    What a subscriber could not take is delivered again, to that one alone.
    """

    def __init__(self) -> None:
        self.give_up: GiveUp | None = None
        """Keeps what a subscriber never took."""
        self._attending: dict[str, tuple[tuple[str, ...], Subscriber]] = {}
        self._tries: dict[str, dict[str, int]] = {}
        """Of messages that were not taken by all, by id: how often each name has been tried; 0: it has taken it."""

    async def deliver(self, messages: Sequence[BusMessage]) -> bool:
        return all([await self._deliver(message) for message in messages])

    def attend(self, name: str, pattern: str, subscriber: Subscriber) -> Callable[[], None]:
        self._attending[name] = (tuple(pattern.split(".")), subscriber)

        def end() -> None:
            if self._attending.get(name, (None, None))[1] is subscriber:
                del self._attending[name]

        return end

    async def deliver_to(self, name: str, message: BusMessage) -> None:
        """Let one subscriber take a message that it could not take before.

        Raises:
            ConfigError: no one attends under this name.
        """
        found = self._attending.get(name)
        if found is None:
            raise ConfigError(f"Nobody takes messages as {name!r} now", hint="Arm what took them, and try again.")
        await found[1](message)

    async def aclose(self) -> None:
        self._attending.clear()

    async def _deliver(self, message: BusMessage) -> bool:
        tries = self._tries.pop(message.message_id, {})
        parts = tuple(message.subject.split("."))
        for name, (pattern, subscriber) in tuple(self._attending.items()):
            if not fits(pattern, parts) or tries.get(name) == 0:
                continue
            try:
                await subscriber(message)
                tries[name] = 0
            except Exception as problem:  # noqa: BLE001 - a subscriber is anyone's code
                tries[name] = tries.get(name, 0) + 1
                _log.exception("Subscriber %s could not take %s", name, message.message_id)
                if tries[name] == MAX_TRIES and self.give_up is not None:
                    await self.give_up(name, message, f"{type(problem).__name__}: {problem}")
        if any(0 < tried < MAX_TRIES for tried in tries.values()):
            self._tries[message.message_id] = tries
            return False
        return True


def fits(pattern: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Tell whether a subject fits a pattern, both in their parts."""
    if pattern[-1:] == (">",):
        return len(parts) >= len(pattern) and fits(pattern[:-1], parts[: len(pattern) - 1])
    return len(pattern) == len(parts) and all(want in ("*", part) for want, part in zip(pattern, parts, strict=True))


class OutboxBus:
    """Bus that puts messages into the outbox, too; those who listen in this process hear them at once."""

    def __init__(self, here: Bus, ids: IdSource, hint: Callable[[], None]) -> None:
        self._here = here
        self._ids = ids
        self._hint = hint
        self.outbox: Outbox | None = None
        """Known once the store is open."""

    def publish(self, subject: str, message: Mapping[str, Any]) -> None:
        self._here.publish(subject, message)
        if self.outbox is not None:
            self.outbox.put(BusMessage(self._ids.new_run_id(), subject, message))
            self._hint()

    def tell(self, message: BusMessage) -> None:
        """Tell of a message that is in the outbox already."""
        self._here.publish(message.subject, message.payload)
        self._hint()

    def subscribe(self, pattern: str, handler: Handler) -> Callable[[], None]:
        return self._here.subscribe(pattern, handler)
