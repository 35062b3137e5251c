"""Record of the fabric folders and backups that are sealed with each key, kept beside the key file.

It knows what this user sealed or opened since it exists, at the path where that happened. Copies and moved folders are
not in it.
"""

import json
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, StoreUnavailable
from agent_fabric.infrastructure.private_files import PrivateFile

FILE_NAME: Final = "key-uses.json"
_FORMAT: Final = 1
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUse:
    """A fabric folder or a backup, and the keys that it needs."""

    kind: Literal["folder", "backup"]
    path: str
    keys: tuple[str, ...]
    """Short names of keys."""
    runs: int = 0
    """Encrypted runs in a backup; those in a folder are counted when it is asked for."""
    secrets: int = 0
    made_at: float = 0.0
    """When a backup was made."""


class KeyUses:
    """KeyUse of every known place, in one file that several processes change."""

    def __init__(self, path: Path) -> None:
        self._file = PrivateFile(path)

    def read(self) -> list[KeyUse]:
        """Return all known places.

        Raises:
            StoreUnavailable: the record cannot be read.
        """
        data = self._file.read()
        if data is None:
            return []
        try:
            found = json.loads(data)
            if found["format"] != _FORMAT:
                raise ValueError(found["format"])
            return [_use(entry) for entry in found["uses"]]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise StoreUnavailable(
                f"{self._file.path} is damaged: it records which folders and backups need which key",
                hint="Move it away to go on without it. What it knew has to be remembered by you.",
            ) from None

    def note_folder(self, folder: Path, key: str) -> None:
        """Note that something in a folder is sealed with a key."""

        def change(uses: list[KeyUse]) -> list[KeyUse]:
            known = next((use for use in uses if _is(use, folder)), None)
            if known is None:
                return [*uses, KeyUse(kind="folder", path=str(folder), keys=(key,))]
            if key in known.keys:
                return uses
            return [replace(use, keys=(*use.keys, key)) if use is known else use for use in uses]

        self._change(change)

    def set_folder(self, folder: Path, keys: Collection[str]) -> None:
        """Note that everything in a folder is sealed with these keys now."""

        def change(uses: list[KeyUse]) -> list[KeyUse]:
            others = [use for use in uses if not _is(use, folder)]
            return [*others, KeyUse(kind="folder", path=str(folder), keys=tuple(sorted(keys)))] if keys else others

        self._change(change)

    def note_backup(self, backup: KeyUse) -> None:
        """Note a backup."""
        self._change(lambda uses: [*(use for use in uses if use.path != backup.path), backup])

    def forget(self, paths: Iterable[Path]) -> None:
        """Forget places that are gone."""
        gone = {str(path) for path in paths}
        if gone:
            self._change(lambda uses: [use for use in uses if use.path not in gone])

    def forget_keys(self, keys: Collection[str]) -> None:
        """Forget keys that exist no longer, and the places that needed only those."""

        def change(uses: list[KeyUse]) -> list[KeyUse]:
            left = [replace(use, keys=tuple(key for key in use.keys if key not in keys)) for use in uses]
            return [use for use in left if use.keys]

        self._change(change)

    def _change(self, change: Callable[[list[KeyUse]], list[KeyUse]]) -> None:
        """Change the record. A record that cannot be changed stops nothing: a warning says so."""
        try:
            with self._file.hold():
                before = self.read()
                after = change(before)
                if after != before:
                    uses = [{"kind": use.kind, "path": use.path, "keys": use.keys, **_counts(use)} for use in after]
                    self._file.replace(json.dumps({"format": _FORMAT, "uses": uses}, indent=1).encode())
        except FabricError as problem:
            _log.warning("It could not be recorded which keys are in use: %s", problem.message)


def _is(use: KeyUse, folder: Path) -> bool:
    return use.kind == "folder" and use.path == str(folder)


def _counts(use: KeyUse) -> dict[str, Any]:
    return {"runs": use.runs, "secrets": use.secrets, "made_at": use.made_at} if use.kind == "backup" else {}


def _use(entry: Any) -> KeyUse:
    if entry["kind"] not in ("folder", "backup"):
        raise ValueError(entry["kind"])
    return KeyUse(
        kind=entry["kind"],
        path=str(entry["path"]),
        keys=tuple(str(key) for key in entry["keys"]),
        runs=int(entry.get("runs", 0)),
        secrets=int(entry.get("secrets", 0)),
        made_at=float(entry.get("made_at", 0.0)),
    )
