"""Looks at what is sealed in a fabric folder, and records which keys folders and backups need."""

import logging
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_fabric.bootstrap.secrets import stored_secrets
from agent_fabric.bootstrap.store import opened_store
from agent_fabric.domain.errors import FabricError, StoreUnavailable
from agent_fabric.infrastructure.secrets.key_uses import KeyUse, KeyUses
from agent_fabric.infrastructure.secrets.keyring import Keyring, key_uses, open_keyring

_log = logging.getLogger(__name__)
LOST = ""
"""Stands for all keys that are not in the keyring."""


@dataclass(frozen=True, slots=True)
class SealedContents:
    """Encrypted runs and secrets of a fabric folder, counted by the short name of their key."""

    runs: Mapping[str, int]
    secrets: Mapping[str, int]

    @property
    def keys(self) -> frozenset[str]:
        """The keys that it needs, as far as they are here."""
        return frozenset({*self.runs, *self.secrets} - {LOST})


def sealed_contents(root: Path, keyring: Keyring) -> SealedContents:
    """Count what is sealed in a fabric folder. Writes nothing.

    Raises:
        StoreUnavailable: the store or the file of secrets cannot be read.
    """
    secrets = stored_secrets(root, lambda: keyring).sealed()
    with opened_store(root) as storage:
        runs = storage.copies.sealed_keys()
    return SealedContents(count_by_key(runs, keyring), count_by_key(secrets, keyring))


def count_by_key(sealed: Iterable[bytes], keyring: Keyring) -> dict[str, int]:
    """Count sealed data by the short name of its key; `LOST` where no key fits."""
    return dict(Counter(_key_of(data, keyring) for data in sealed))


def _key_of(data: bytes, keyring: Keyring) -> str:
    try:
        return keyring.generation_of(data)
    except StoreUnavailable:
        return LOST


def note_backup(root: Path, path: Path) -> None:
    """Record which keys a backup of a folder needs that was made just now."""
    noted = _uses_and_contents(root)
    if noted is not None and noted[1].keys:
        uses, contents = noted
        use = KeyUse(
            kind="backup",
            path=str(path),
            keys=tuple(sorted(contents.keys)),
            runs=sum(contents.runs.values()),
            secrets=sum(contents.secrets.values()),
            made_at=time.time(),
        )
        uses.note_backup(use)


def note_restored(root: Path) -> None:
    """Record which keys a folder needs that a backup was put into."""
    noted = _uses_and_contents(root)
    if noted is not None:
        noted[0].set_folder(root.absolute(), noted[1].keys)


def _uses_and_contents(root: Path) -> tuple[KeyUses, SealedContents] | None:
    """Return the record, and what is sealed in a folder; None: there is nothing to record, or no way to."""
    uses = key_uses(os.environ)
    if uses is None:
        return None
    try:
        return uses, sealed_contents(root, open_keyring(os.environ))
    except FabricError as problem:
        _log.warning("It could not be recorded which keys %s needs: %s", root, problem.message)
        return None


def forget_backups(paths: Iterable[Path]) -> None:
    """Forget backups that were deleted."""
    uses = key_uses(os.environ)
    if uses is not None:
        uses.forget(path.absolute() for path in paths)
