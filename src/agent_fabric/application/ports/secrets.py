"""Secrets, seen from the calls that need them."""

import re
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from agent_fabric.config.secret_references import FILE_NAME
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.secrets.references import SHORTEST_NAMED

Resolve = Callable[[str], Awaitable[str]]
"""Returns what a reference such as `file:NAME` stands for; raises ConfigError if that cannot be had."""
MAX_SECRET_BYTES: Final = 65_536
"""Of one secret."""
_NAME: Final = re.compile(FILE_NAME)


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """What may be known about a secret without its value."""

    name: str
    created_at: float
    updated_at: float


def require_usable(name: str, value: str) -> None:
    """Check that something can be kept.

    Raises:
        ConfigError: the name or the value cannot be used.
    """
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name[:100]!r} is no usable name for a secret",
            hint="Use at most 128 letters, digits, _ and -, and start with a letter or _, as in GITHUB_TOKEN.",
        )
    if len(value.strip()) < SHORTEST_NAMED:
        raise ConfigError(
            f"the value of {name} is too short to be kept out of logs",
            hint=f"A secret has at least {SHORTEST_NAMED} characters.",
        )
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"the value of {name} is not text", hint="Encode it, for example in base64.") from None
    if size > MAX_SECRET_BYTES or "\0" in value:
        raise ConfigError(
            f"the value of {name} is longer than {MAX_SECRET_BYTES} bytes, or has a null character in it",
            hint="Keep large or binary things in a file of their own, and a key for it here.",
        )


class SecretSource(Protocol):
    """Knows the values of secrets. They are asked for when a call is made, and kept nowhere."""

    async def get(self, name: str) -> str | None:
        """Return a secret's value; None if there is no such secret."""
        ...

    def how_to_set(self, name: str) -> str:
        """Tell a person what to do so that there is such a secret."""
        ...


class SecretFile(Protocol):
    """The secrets that a fabric folder keeps itself. All takes a moment, and changes the disk."""

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

    def reseal(self) -> int:
        """Seal all of them with the newest key; return how many were not yet."""
        ...
