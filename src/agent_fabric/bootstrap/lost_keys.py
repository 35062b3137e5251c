"""Tells what cannot be read any more when older keys are forgotten, as far as that is known."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agent_fabric.bootstrap.backup import backups_here
from agent_fabric.bootstrap.sealed import count_by_key, sealed_contents
from agent_fabric.bootstrap.store import opened_store
from agent_fabric.domain.errors import FabricError, StoreUnavailable
from agent_fabric.infrastructure.backup.contents import DATABASE
from agent_fabric.infrastructure.secrets.key_uses import KeyUse
from agent_fabric.infrastructure.secrets.keyring import Keyring, key_uses


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


def lost_without_old_keys(root: Path, keyring: Keyring) -> list[LostPlace]:
    """Return the other folders, and the backups, that are known to need keys older than the newest.

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
    found = [lost for use in needed for lost in _in_place(use, keyring, old)]
    listed = {use.path for use in known}
    found += [
        LostPlace(kind="backup", path=str(path), state="unknown")
        for path in backups_here(here)
        if str(path) not in listed
    ]
    return [*found, *_copies_of_store(here, keyring, old)]


def _in_place(use: KeyUse, keyring: Keyring, old: frozenset[str]) -> Iterator[LostPlace]:
    path = Path(use.path)
    if not path.exists():
        yield LostPlace(
            kind=use.kind, path=use.path, state="missing", runs=use.runs, secrets=use.secrets, made_at=use.made_at
        )
    elif use.kind == "backup":
        yield LostPlace(
            kind="backup", path=use.path, state="sealed", runs=use.runs, secrets=use.secrets, made_at=use.made_at
        )
    else:
        try:
            contents = sealed_contents(path, keyring)
        except FabricError:
            yield LostPlace(kind="folder", path=use.path, state="unknown")
            return
        runs, secrets = (sum(counts.get(key, 0) for key in old) for counts in (contents.runs, contents.secrets))
        if runs or secrets:  # else somebody sealed it anew, or deleted what was sealed
            yield LostPlace(kind="folder", path=use.path, state="sealed", runs=runs, secrets=secrets)
        yield from _copies_of_store(path, keyring, old)


def _copies_of_store(root: Path, keyring: Keyring, old: frozenset[str]) -> Iterator[LostPlace]:
    """Yield the copies that an upgrade of the store has left."""
    for path in sorted(root.glob(f"{DATABASE}.backup-*")):
        try:
            with opened_store(root) as storage:
                counts = count_by_key(storage.copies.sealed_keys(path), keyring)
        except StoreUnavailable:
            yield LostPlace(kind="backup", path=str(path), state="unknown")
            continue
        runs = sum(counts.get(key, 0) for key in old)
        if runs:
            yield LostPlace(kind="backup", path=str(path), state="sealed", runs=runs, made_at=path.stat().st_mtime)
