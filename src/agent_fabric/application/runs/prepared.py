"""An action, made ready: what must be durable before it starts, and what then happens."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from agent_fabric.application.ports.runs import NewRun
from agent_fabric.domain.events import Body


@dataclass(frozen=True, slots=True)
class Prepared:
    """Bodies to record first, and the effect that may start once they are durable.

    The effect answers with the bodies that say how it went. It fails only by being cancelled.
    """

    bodies: Sequence[Body] = ()
    effect: Callable[[], Coroutine[Any, Any, Sequence[Body]]] | None = None
    children: Sequence[NewRun] = ()
    """Runs that come into being together with the bodies."""
