"""A release of the node's program: what a release key signs, so that no hub can make a node run something else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from agent_fabric.domain.fleet.protocol import canonical

RELEASE_NAMESPACE: Final = "fabric-release"
"""Of signatures by `ssh-keygen -Y sign`."""
MAX_PROGRAM_BYTES: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One program, named by its hash."""

    version: str
    sha256: str
    released_at: int
    """Seconds since 1970. A node never goes back to an earlier release than one that it has run."""
    signature: str = ""

    @property
    def message(self) -> bytes:
        """What is signed."""
        return canonical([RELEASE_NAMESPACE, self.version, self.sha256, self.released_at])

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        """Return the release that the arguments of a call of `upgrade`, or a file, describe.

        Raises:
            KeyError, TypeError, ValueError: they describe none.
        """
        return cls(
            version=str(plain["version"]),
            sha256=str(plain["sha256"]),
            released_at=int(plain["released_at"]),
            signature=str(plain["signature"]),
        )

    def plain(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "version": self.version,
            "sha256": self.sha256,
            "released_at": self.released_at,
            "signature": self.signature,
        }
