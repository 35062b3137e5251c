"""Secrets, seen from the calls that need them."""

from collections.abc import Awaitable, Callable
from typing import Protocol

Resolve = Callable[[str], Awaitable[str]]
"""Returns what a reference such as `file:NAME` stands for; raises ConfigError if that cannot be had."""


class SecretSource(Protocol):
    """Knows the values of secrets. They are asked for when a call is made, and kept nowhere."""

    async def get(self, name: str) -> str | None:
        """Return a secret's value; None if there is no such secret."""
        ...

    def how_to_set(self, name: str) -> str:
        """Tell a person what to do so that there is such a secret."""
        ...


class SecretFile(Protocol):
    """Keeps secrets itself. Both take a moment, and change the disk."""

    def set(self, name: str, value: str) -> bool:
        """Keep a secret; tell whether it is a new one.

        Raises:
            ConfigError: the name or the value cannot be used.
            FabricError: it cannot be kept; what was there is still there.
        """
        ...

    def remove(self, name: str) -> bool:
        """Forget a secret; tell whether there was one.

        Raises:
            StoreUnavailable: what is kept cannot be used.
        """
        ...
