"""Backups of a fabric folder: made, kept, and brought back. Who did it goes into the audit chain."""

import errno
import logging
import os
import re
import shutil
import stat
import tarfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from agent_fabric.application.ports.backup import StoreCopies
from agent_fabric.application.ports.storage import Storage
from agent_fabric.config.folders import base_folder
from agent_fabric.config.variable_names import OURS
from agent_fabric.domain.audit.acts import Act, Deed
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, StoreFull, StoreUnavailable
from agent_fabric.domain.identity.principals import Principal
from agent_fabric.infrastructure.audit.audit_key_file import audit_key
from agent_fabric.infrastructure.backup.archive import Manifest, harmful, read_archive
from agent_fabric.infrastructure.backup.contents import BACKUPS, DATABASE
from agent_fabric.infrastructure.backup.make import SUFFIX, Backup, Tell, make_backup
from agent_fabric.infrastructure.backup.staging import remove_leftovers, stage_files, working_name
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.runs.log.folder_trust import mark
from agent_fabric.infrastructure.runs.log.layout import require_unlinked
from agent_fabric.infrastructure.secrets.key_needs import KeyNeeds, forget_backups
from agent_fabric.infrastructure.threads import wait_for

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
SPARE_BYTES = 16 * 1024 * 1024
"""Room that is left on the disk, whatever a backup says that it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What has been put in place."""

    root: Path
    manifest: Manifest
    aside: Path | None
    """Where what was there before is now."""


def restore_backup(
    file: Path, root: Path, key: AuditKey, copies: StoreCopies, *, force: bool, tell: Tell = lambda _: None
) -> Restored:
    """Unpack a backup beside the folder, check all of it, and only then give it the folder's name.

    A folder that this user's backup was restored to is obeyed as before; for anyone else's, someone has to say so.

    Raises:
        ConfigError: there is no such file, or there are runs in the folder and no one said `force`.
        RunHeld: someone uses the folder.
        StoreFull, StoreUnavailable: it is no whole backup of ours, is of a newer program, or cannot be written.
    """
    _require_possible(root, copies, force=force)
    remove_leftovers(root.parent, re.compile(re.escape(root.name)), "restore")
    stage = working_name(root, "restore")
    problem = {"cannot": "The backup cannot be restored", "hint": "Check that you may write there."}
    with stage_files(stage, stage, **problem), _open_backup(file) as archive:
        stage.mkdir(mode=0o700)
        unpacked = _Stage(stage, tell)
        manifest = read_archive(archive, key, unpacked.keep)
        unpacked.make_links()
        tell("checking the store")
        copies.check(stage / DATABASE)
        (stage / "runs").mkdir(exist_ok=True)
        (stage / ".gitignore").write_text("*\n")
        _require_possible(root, copies, force=force)  # it took a while
        with copies.exclusive():
            aside = _set_aside(root)
            try:
                stage.rename(root)
            except OSError as problem:
                raise StoreUnavailable(
                    f"{root} cannot be put in place: {problem.strerror}",
                    hint=f"A run may have been started there. What was there before is in {aside}.",
                ) from None
        if manifest.ours:
            with suppress(OSError):  # then it has to be trusted, like anyone's
                mark(root, key)
    return Restored(root=root, manifest=manifest, aside=aside)


class _Stage:
    """Unpacks into a folder that no other process knows yet."""

    def __init__(self, folder: Path, tell: Tell) -> None:
        self._folder = folder
        self._tell = tell
        self._links: dict[str, str] = {}
        self._count = 0

    def keep(self, member: tarfile.TarInfo, content: Iterator[bytes]) -> None:
        """Unpack one member; links come last, or one of them could lead a file to elsewhere."""
        if member.issym():
            self._links[member.name] = member.linkname
        elif member.isdir():
            with self._parent(f"{member.name}/x"):
                pass
        else:
            self._write(member, content)

    def _write(self, member: tarfile.TarInfo, content: Iterator[bytes]) -> None:
        name = member.name
        free = shutil.disk_usage(self._folder).free
        if member.size > free - SPARE_BYTES:
            raise StoreFull(
                f"{name} in the backup has {member.size / 1e6:,.0f} MB, and there is room for {free / 1e6:,.0f} MB",
                hint="Choose a folder on another disk.",
            )
        mode = 0o600 if name == DATABASE else member.mode & 0o777 | 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC  # nothing is written twice
        with self._parent(name) as (parent, last), os.fdopen(os.open(last, flags, mode, dir_fd=parent), "wb") as file:
            file.writelines(content)
            if name == DATABASE:
                file.flush()
                os.fsync(file.fileno())
        self._count += 1
        if self._count % 100 == 1:
            self._tell(f"unpacking: {self._count} files")

    def make_links(self) -> None:
        """Make the links, now that nothing can be written through them any more."""
        for name, target in self._links.items():
            with self._parent(name) as (parent, last):
                os.symlink(target, last, dir_fd=parent)

    @contextmanager
    def _parent(self, name: str) -> Iterator[tuple[int, str]]:
        """Open the folder in which a member lies, made if need be; a path of any length, and no link is followed.

        Raises:
            StoreUnavailable: a link, or what is no folder, is on the way.
        """
        *folders, last = name.split("/")
        opened = os.open(self._folder, _FOLDER)
        try:
            for each in folders:
                with suppress(FileExistsError):
                    os.mkdir(each, dir_fd=opened)
                try:
                    inner = os.open(each, _FOLDER, dir_fd=opened)
                except OSError as problem:
                    if problem.errno in (errno.ELOOP, errno.ENOTDIR):
                        raise harmful(name) from None
                    raise
                os.close(opened)
                opened = inner
            yield opened, last
        finally:
            os.close(opened)


def _require_possible(root: Path, copies: StoreCopies, *, force: bool) -> None:
    if root.is_symlink():
        raise ConfigError(f"{root} is a link", hint="Name the folder itself with --workspace.")
    if not root.parent.is_dir():
        raise ConfigError(f"There is no folder {root.parent}", hint="Make it first.")
    if not root.exists():
        return
    if not root.is_dir():
        raise ConfigError(f"{root} is not a folder", hint="Name another one with --workspace.")
    with copies.exclusive():
        pass  # to say it before the work
    if (root / DATABASE).exists() and not force:
        raise ConfigError(
            f"There are runs in {root}",
            hint="Name a folder without any with --workspace, or move these aside with --force.",
        )


def _set_aside(root: Path) -> Path | None:
    if not root.exists():
        return None
    with suppress(OSError):
        root.rmdir()
        return None
    aside = root.with_name(f"{root.name}.before-{time.strftime('%Y%m%d-%H%M%S')}")
    if os.path.lexists(aside):
        raise ConfigError(f"{aside} exists already", hint="Try again in a second.")
    root.rename(aside)
    return aside


def _open_backup(file: Path) -> BinaryIO:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as problem:
        raise ConfigError(f"{file} cannot be opened: {problem.strerror}", hint="Name a backup file.") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ConfigError(f"{file} is not a file", hint="Name a backup file.")
    return os.fdopen(descriptor, "rb")


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
