"""The last thing in a backup: what must be in it, and who made it."""

import hmac
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from agent_fabric.domain.audit.key import UNKEYED, AuditKey
from agent_fabric.domain.errors import StoreUnavailable

FORMAT: Final = 1
MAX_BYTES: Final = 512 * 1024 * 1024
"""A manifest is held in memory; this is enough for millions of files."""
_PURPOSE: Final = b"agent-fabric backup\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a backup says of itself."""

    created_at: float
    fabric_version: str
    store_format: int
    workspaces: bool
    """Whether the files of runs are in it."""
    files: Mapping[str, str]
    """SHA-256 of each file by its path; of a link, of where it leads."""
    changed: tuple[str, ...] = ()
    """Files that were written while they were copied: each is as it was at some moment, perhaps cut. And files and
    folders that could not be read."""
    ours: bool = False
    """Whether the user's own key has signed it."""

    def encoded(self, key: AuditKey) -> bytes:
        """Return it as it stands in a backup, signed with the user's key."""
        said = {name: value for name, value in asdict(self).items() if name != "ours"}
        body = json.dumps({"format": FORMAT, **said}, indent=1)
        return json.dumps({"manifest": body, "key": key.name, "signature": _signature(body, key)}).encode()


def decoded(data: bytes, key: AuditKey) -> Manifest:
    """Read a manifest.

    Raises:
        StoreUnavailable: it is none, or a newer program wrote it.
    """
    try:
        whole: dict[str, Any] = json.loads(data)
        body, signature = str(whole["manifest"]), str(whole["signature"])
        said: dict[str, Any] = json.loads(body)
        if said["format"] != FORMAT:
            raise StoreUnavailable(
                f"The backup has format {said['format']!r}; this agent-fabric knows {FORMAT}",
                hint="Upgrade agent-fabric, then try again.",
            )
        return Manifest(
            created_at=float(said["created_at"]),
            fabric_version=str(said["fabric_version"]),
            store_format=int(said["store_format"]),
            workspaces=bool(said["workspaces"]),
            files={str(name): str(digest) for name, digest in said["files"].items()},
            changed=tuple(map(str, said["changed"])),
            ours=key != UNKEYED and hmac.compare_digest(signature.encode(), _signature(body, key).encode()),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise StoreUnavailable("The backup's manifest cannot be read", hint="Choose another backup.") from None


def _signature(body: str, key: AuditKey) -> str:
    return hmac.digest(key.value, _PURPOSE + body.encode("utf-8", "surrogatepass"), "sha256").hex()
