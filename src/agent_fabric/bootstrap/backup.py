"""Joins what looks after the store itself: how it stands, backups, and bringing one back."""

import asyncio
import logging
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from agent_fabric.application.audit.accept_head import AcceptHead
from agent_fabric.application.ports.vitals import StoreStatus
from agent_fabric.bootstrap.sealed import forget_backups, note_backup, note_restored
from agent_fabric.bootstrap.store import opened_store
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
from agent_fabric.infrastructure.runs.log.links import require_unlinked

_log = logging.getLogger(__name__)


async def store_status(root: Path, *, check: bool) -> StoreStatus:
    """Return the status of the store of a fabric folder."""
    with opened_store(root) as storage:
        return await storage.gauge.status(check=check)


def back_up(root: Path, target: Path, *, by: Principal, workspaces: bool, tell: Tell) -> Backup:
    """Make a backup of a fabric folder. That `by` did so goes into the audit chain."""
    key = audit_key(os.environ)
    with opened_store(root) as storage:
        storage.copies.require_own()
        made = make_backup(root.absolute(), target.absolute(), key, storage.copies, workspaces=workspaces, tell=tell)
    note_backup(root, made.path)
    _record(root, Act.of(by, Deed.BACKUP_MADE, at=SystemClock().now(), about=str(made.path)))
    return made


def back_up_here(root: Path, *, by: Principal, workspaces: bool, kept: int | None = None) -> Backup:
    """Make a backup inside a fabric folder; with `kept`, only so many of the newest stay there."""
    with opened_store(root) as storage:
        storage.copies.require_own()
    require_unlinked(root, BACKUPS)
    folder = root / BACKUPS
    folder.mkdir(mode=0o700, exist_ok=True)
    made = back_up(root, folder, by=by, workspaces=workspaces, tell=lambda _: None)
    if kept is not None:
        old = backups_here(root)[max(1, kept) :]
        for each in old:
            each.unlink(missing_ok=True)
        forget_backups(old)
    return made


def backups_here(root: Path) -> list[Path]:
    """Return the backups inside a fabric folder, newest first.

    Raises:
        FolderLinked: their folder has become a link.
    """
    require_unlinked(root, BACKUPS)
    return sorted((root / BACKUPS).glob(f"fabric-*{SUFFIX}"), reverse=True)


def restore(file: Path, root: Path, *, by: Principal, force: bool, tell: Tell) -> Restored:
    """Put a backup in the place of a fabric folder. That `by` did so goes into the audit chain that is now there."""
    with opened_store(root) as storage:
        storage.copies.require_own()
        done = restore_backup(file, root.absolute(), audit_key(os.environ), storage.copies, force=force, tell=tell)
    note_restored(root)
    detail = f"made at {done.manifest.created_at:.0f}"
    act = Act.of(by, Deed.BACKUP_RESTORED, at=SystemClock().now(), about=str(file.absolute()), detail=detail)
    _record(root, act, accept=True)
    return done


def _record(root: Path, act: Act, *, accept: bool = False) -> None:
    """Record an act. With `accept`, the chain that is there now is expected from here on; the act says which was."""
    try:
        # On a thread of its own: the caller may be inside an event loop.
        with opened_store(root) as storage, ThreadPoolExecutor(1) as thread:
            record = AcceptHead(storage.chain, storage.acts) if accept else storage.acts.record
            thread.submit(asyncio.run, record(act)).result()
    except StoreUnavailable as problem:  # the disk may be full: all the more is the backup worth
        _log.warning("%s by %s could not be recorded: %s", act.deed, act.by, problem)


def keys_apart(root: Path, environ: Mapping[str, str]) -> list[str]:
    """Return what no backup holds and without which it is worth less: files with keys, and `$NAMES` of variables."""
    folders = (base_folder(environ, "XDG_DATA_HOME", ".local", "share"), root)
    found = [path for folder in folders if folder is not None for path in sorted(folder.glob("*.key*"))]
    return [*(str(path) for path in found if path.is_file()), *(f"${name}" for name in sorted(OURS & environ.keys()))]
