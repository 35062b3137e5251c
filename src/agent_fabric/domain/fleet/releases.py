"""A release of the node's program: what a release key signs, so that no hub can make a node run something else."""

import re
from collections.abc import Mapping
from typing import Any, Final, Self

from agent_fabric.domain.dataclass import dataclass
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
        return {
            "version": self.version,
            "sha256": self.sha256,
            "released_at": self.released_at,
            "signature": self.signature,
        }


_VERSION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9}){0,9})(.{0,80})", re.DOTALL)
_BEFORE: Final = re.compile(r"[._-]?(a|alpha|b|beta|c|rc|pre|preview|dev)\d", re.IGNORECASE)


def is_older(version: str, than: str) -> bool:
    """Tell whether a version comes before another one; one that cannot be read comes before all.

    `0.6.0rc1` comes before `0.6.0`. What a build adds behind a `+` makes no difference.
    """
    return _order(version) < _order(than)


def _order(version: str) -> tuple[tuple[int, ...], int]:
    found = _VERSION.fullmatch(version.strip())
    if found is None:
        return (), 0
    numbers = [int(part) for part in found[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers), 0 if _BEFORE.match(found[2]) else 1
