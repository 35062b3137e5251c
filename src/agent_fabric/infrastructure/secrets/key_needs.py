"""Which keys folders and backups need, and what cannot be read any more when older keys are forgotten."""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from agent_fabric.application.ports.storage import Storage
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, StoreUnavailable
from agent_fabric.infrastructure.backup.contents import DATABASE
from agent_fabric.infrastructure.secrets.folder_secrets import stored_secrets
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LostPlace:
    """What cannot be read any more in one place when older keys are forgotten."""

    kind: Literal["folder", "backup"]
    path: str
    state: str
    """`sealed`: it needs them; `missing`: it did, and is not where it was; `unknown`: it may need them."""
    runs: int = 0
    secrets: int = 0
    made_at: float = 0.0


@dataclass(frozen=True, slots=True)
class KeyNeeds:
    """Looks at what is sealed in fabric folders, and records which keys folders and backups need."""

    open_store: Callable[[Path], AbstractContextManager[Storage]]

    def contents(self, root: Path, keyring: Keyring) -> SealedContents:
        """Count what is sealed in a fabric folder. Writes nothing.

        Raises:
            StoreUnavailable: the store or the file of secrets cannot be read.
        """
        secrets = stored_secrets(root, lambda: keyring).list_sealed()
        with self.open_store(root) as storage:
            runs = storage.copies.sealed_keys()
        return SealedContents(_count_by_key(runs, keyring), _count_by_key(secrets, keyring))

    def note_backup(self, root: Path, path: Path) -> None:
        """Record which keys a backup of a folder needs that was made just now."""
        noted = self._uses_and_contents(root)
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

    def note_restored(self, root: Path) -> None:
        """Record which keys a folder needs that a backup was put into."""
        noted = self._uses_and_contents(root)
        if noted is not None:
            noted[0].set_folder(root.absolute(), noted[1].keys)

    def _uses_and_contents(self, root: Path) -> tuple[KeyUses, SealedContents] | None:
        """Return the record, and what is sealed in a folder; None: there is nothing to record, or no way to."""
        uses = key_uses(os.environ)
        if uses is None:
            return None
        try:
            return uses, self.contents(root, open_keyring(os.environ))
        except FabricError as problem:
            _log.warning("It could not be recorded which keys %s needs: %s", root, problem.message)
            return None

    def lost_without_old(self, root: Path, keyring: Keyring, backups: Iterable[Path]) -> list[LostPlace]:
        """Return the other folders, and the backups, that are known to need keys older than the newest.

        `backups` are those inside the folder.

        Raises:
            StoreUnavailable: the record of them cannot be read.
        """
        old = frozenset(keyring.generations()[1:])
        if not old:
            return []
        here = root.absolute()
        uses = key_uses(os.environ)
        known = [] if uses is None else uses.read()
        needed = [use for use in known if old.intersection(use.keys) and use.path != str(here)]
        found = [lost for use in needed for lost in self._in_place(use, keyring, old)]
        listed = {use.path for use in known}
        found += [
            LostPlace(kind="backup", path=str(path), state="unknown") for path in backups if str(path) not in listed
        ]
        return [*found, *self._copies_of_store(here, keyring, old)]

    def _in_place(self, use: KeyUse, keyring: Keyring, old: frozenset[str]) -> Iterator[LostPlace]:
        path = Path(use.path)
        if use.kind == "backup" or not path.exists():
            state = "sealed" if path.exists() else "missing"
            yield LostPlace(
                kind=use.kind, path=use.path, state=state, runs=use.runs, secrets=use.secrets, made_at=use.made_at
            )
            return
        try:
            contents = self.contents(path, keyring)
        except FabricError:
            yield LostPlace(kind="folder", path=use.path, state="unknown")
            return
        runs, secrets = (sum(counts.get(key, 0) for key in old) for counts in (contents.runs, contents.secrets))
        if runs or secrets:  # else it was sealed anew, or what was sealed was deleted
            yield LostPlace(kind="folder", path=use.path, state="sealed", runs=runs, secrets=secrets)
        yield from self._copies_of_store(path, keyring, old)

    def _copies_of_store(self, root: Path, keyring: Keyring, old: frozenset[str]) -> Iterator[LostPlace]:
        """Yield the copies that an upgrade of the store has left."""
        for path in sorted(root.glob(f"{DATABASE}.backup-*")):
            try:
                with self.open_store(root) as storage:
                    counts = _count_by_key(storage.copies.sealed_keys(path), keyring)
            except StoreUnavailable:
                yield LostPlace(kind="backup", path=str(path), state="unknown")
                continue
            runs = sum(counts.get(key, 0) for key in old)
            if runs:
                yield LostPlace(kind="backup", path=str(path), state="sealed", runs=runs, made_at=path.stat().st_mtime)


def forget_backups(paths: Iterable[Path]) -> None:
    """Forget backups that were deleted."""
    uses = key_uses(os.environ)
    if uses is not None:
        uses.forget(path.absolute() for path in paths)


def _count_by_key(sealed: Iterable[bytes], keyring: Keyring) -> dict[str, int]:
    """Count sealed data by the short name of its key; `LOST` where no key fits."""
    return dict(Counter(_key_of(data, keyring) for data in sealed))


def _key_of(data: bytes, keyring: Keyring) -> str:
    try:
        return keyring.generation_of(data)
    except StoreUnavailable:
        return LOST
