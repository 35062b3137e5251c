"""Which keys the processes of one store work with, without the keys themselves."""

from collections.abc import Mapping
from typing import Final, Protocol

ENCRYPTION: Final = "encryption"
"""Name of the key that seals runs and secrets."""


class KeyFingerprints(Protocol):
    """Fingerprints of the keys that all processes must share, by the name of the key."""

    async def read(self) -> dict[str, str]:
        """Return those that are known.

        Raises:
            StoreUnavailable: the store cannot be read.
        """
        ...

    async def add(self, fingerprints: Mapping[str, str]) -> dict[str, str]:
        """Add those whose name is not known yet, and return all: of several processes, the first one decides.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        ...

    async def replace(self, fingerprints: Mapping[str, str]) -> None:
        """Let these count from now on: a key was changed on purpose.

        Raises:
            StoreUnavailable: the store cannot be written.
        """
        ...
