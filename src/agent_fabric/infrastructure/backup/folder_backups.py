"""Backups of a fabric folder: made, kept, and brought back. Who did it goes into the audit chain."""

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from agent_fabric.application.ports.storage import Storage
from agent_fabric.config.folders import base_folder
from agent_fabric.config.variable_names import OURS
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.infrastructure.audit.audit_key_file import audit_key
from agent_fabric.infrastructure.backup.contents import BACKUPS
from agent_fabric.infrastructure.backup.make import SUFFIX, Backup, Tell, make_backup
from agent_fabric.infrastructure.backup.restore import Restored, restore_backup
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.runs.log.layout import require_unlinked
from agent_fabric.infrastructure.secrets.key_needs import KeyNeeds, forget_backups
from agent_fabric.infrastructure.threads import wait_for

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FolderBackups:
    """The backups of one fabric folder."""

    root: Path
    open_store: Callable[[Path], AbstractContextManager[Storage]]
    accept: Callable[[Storage, Act], Awaitable[None]]
    """Records an act and expects, from here on, the audit chain that is there now."""

    def make(self, target: Path, *, by: Principal, workspaces: bool, tell: Tell) -> Backup:
        """Make a backup."""
        root, key = self.root.absolute(), audit_key(os.environ)
        with self.open_store(self.root) as storage:
            storage.copies.require_own()
            made = make_backup(root, target.absolute(), key, storage.copies, workspaces=workspaces, tell=tell)
        KeyNeeds(self.open_store).note_backup(self.root, made.path)
        self._record(Act.of(by, Deed.BACKUP_MADE, at=SystemClock().now(), about=str(made.path)))
        return made

    def make_inside(self, *, by: Principal, workspaces: bool, kept: int | None = None) -> Backup:
        """Make a backup inside the fabric folder; with `kept`, only so many of the newest stay there."""
        with self.open_store(self.root) as storage:
            storage.copies.require_own()
        require_unlinked(self.root, BACKUPS)
        folder = self.root / BACKUPS
        folder.mkdir(mode=0o700, exist_ok=True)
        made = self.make(folder, by=by, workspaces=workspaces, tell=lambda _: None)
        if kept is not None:
            old = self.inside()[max(1, kept) :]
            for each in old:
                each.unlink(missing_ok=True)
            forget_backups(old)
        return made

    def inside(self) -> list[Path]:
        """Return the backups inside the fabric folder, newest first.

        Raises:
            FolderLinked: their folder has become a link.
        """
        require_unlinked(self.root, BACKUPS)
        return sorted((self.root / BACKUPS).glob(f"fabric-*{SUFFIX}"), reverse=True)

    def restore(self, file: Path, *, by: Principal, force: bool, tell: Tell) -> Restored:
        """Put a backup in the place of the fabric folder."""
        root, key = self.root.absolute(), audit_key(os.environ)
        with self.open_store(self.root) as storage:
            storage.copies.require_own()
            done = restore_backup(file, root, key, storage.copies, force=force, tell=tell)
        KeyNeeds(self.open_store).note_restored(self.root)
        detail = f"made at {done.manifest.created_at:.0f}"
        act = Act.of(by, Deed.BACKUP_RESTORED, at=SystemClock().now(), about=str(file.absolute()), detail=detail)
        self._record(act, accept=True)
        return done

    def _record(self, act: Act, *, accept: bool = False) -> None:
        """Record an act; with `accept`, expect from here on the chain that is there now."""
        try:
            with self.open_store(self.root) as storage:
                wait_for(self.accept(storage, act) if accept else storage.acts.record(act))
        except StoreUnavailable as problem:  # the disk may be full: all the more is the backup worth
            _log.warning("%s by %s could not be recorded: %s", act.deed, act.by, problem)


def keys_apart(root: Path, environ: Mapping[str, str]) -> list[str]:
    """Return what no backup holds and without which it is worth less: files with keys, and `$NAMES` of variables."""
    folders = (base_folder(environ, "XDG_DATA_HOME", ".local", "share"), root)
    found = [path for folder in folders if folder is not None for path in sorted(folder.glob("*.key*"))]
    return [*(str(path) for path in found if path.is_file()), *(f"${name}" for name in sorted(OURS & environ.keys()))]
