"""Encryption of runs: each has a key of its own, sealed with the user's keyring."""

from collections.abc import Container
from typing import Protocol

from agent_fabric.domain.ids import RunId

ENCRYPTED = "(encrypted)"
"""Placeholder in lists for what cannot be shown without the key."""


class KeySealer(Protocol):
    """The user's keyring, as far as the store needs it."""

    def seal(self, data: bytes) -> bytes:
        """Return data sealed with the newest key.

        Raises:
            FabricError: there is no usable key, and none can be made.
        """
        ...

    def unseal(self, data: bytes) -> bytes:
        """Return what was sealed.

        Raises:
            FabricError: no key fits.
        """
        ...

    def reseal(self, data: bytes) -> bytes:
        """Return sealed data sealed with the newest key; the same bytes if it is so already.

        Raises:
            FabricError: no key fits.
        """
        ...


class Cipher(Protocol):
    """Seals the data of one run."""

    owner: bytes
    """Prefix of the addresses of all blobs of the run."""

    def seal(self, place: str, data: bytes) -> bytes:
        """Return data sealed such that it can be read in this place of this run, and nowhere else."""
        ...

    def unseal(self, place: str, data: bytes) -> bytes:
        """Return what was sealed.

        Raises:
            ValueError: it was changed, or belongs to another place or run.
        """
        ...

    def address(self, content: bytes) -> bytes:
        """Return the address of a blob; without the run's key, it reveals nothing of the content."""
        ...


class RunEncryption(Protocol):
    """The keys of the encrypted runs of one store."""

    @property
    def driven(self) -> Container[RunId]:
        """The encrypted runs that this process drives at the moment."""
        ...

    def cipher_of(self, run_id: RunId) -> Cipher | None:
        """Return the cipher of a run; None if it is not encrypted, or does not exist. May block.

        Raises:
            RunKeyMissing: it is encrypted, but its key cannot be opened.
        """
        ...

    async def reseal(self, keyring: KeySealer) -> int:
        """Seal the keys of all encrypted runs with the newest key of a keyring; return how many were not yet.

        It can be stopped at any time and started again; other processes may read and write runs meanwhile.

        Raises:
            FabricError: a run's key fits none of the keyring's; those before it are done.
        """
        ...
