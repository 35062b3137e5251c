"""Remembers which content that came with a project a person has agreed to, by its hash: changed, it asks again."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_fabric.config.folders import base_folder, temporary_folder
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.private_files import PrivateFile


@dataclass(frozen=True, slots=True)
class TrustedContent:
    """A small JSON file of the user's, outside of every project: runs cannot reach it."""

    path: Path

    def has(self, digest: str) -> bool:
        """Tell whether a person has agreed to exactly this content.

        Raises:
            StoreUnavailable: the file cannot be read. Going on as if it were empty would forget what was agreed to.
        """
        return bool(digest) and digest in self._read()

    def add(self, digest: str, *, what: str) -> None:
        """Remember that a person agreed to this content; `what` says what it is, for people who look."""
        self._change({digest: what})

    def remove(self, digest: str) -> bool:
        """Forget it; tell whether it was known."""
        if not self.has(digest):
            return False
        self._change({digest: None})
        return True

    def _change(self, changes: Mapping[str, str | None]) -> None:
        file = PrivateFile(self.path)
        with file.hold():
            found = {**self._read(), **changes}
            kept = {digest: what for digest, what in found.items() if what is not None}
            file.replace(json.dumps(kept, indent=1, sort_keys=True).encode())

    def _read(self) -> dict[str, Any]:
        data = PrivateFile(self.path).read()
        try:
            found = {} if data is None else json.loads(data)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise StoreUnavailable(
                f"{self.path} is damaged, so no one knows which content of projects is trusted",
                hint="Repair or remove it; what was trusted is then to be trusted again.",
            )
        return found


def digest_of(data: bytes) -> str:
    """Return what identifies a content."""
    return hashlib.sha256(data).hexdigest()


def trusted_content(environ: Mapping[str, str]) -> TrustedContent:
    """Return what this user has agreed to."""
    folder = base_folder(environ, "XDG_DATA_HOME", ".local", "share") or temporary_folder()
    return TrustedContent(folder / "trusted" / "content.json")
