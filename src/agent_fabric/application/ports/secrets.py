"""Secrets, seen from the calls that need them."""

from typing import Protocol


class SecretSource(Protocol):
    """Knows the values of secrets. They are asked for when a call is made, and kept nowhere."""

    async def get(self, name: str) -> str | None:
        """Return a secret's value; None if there is no such secret."""
        ...

    def how_to_set(self, name: str) -> str:
        """Tell a person what to do so that there is such a secret."""
        ...
