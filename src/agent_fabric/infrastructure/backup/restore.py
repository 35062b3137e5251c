"""Puts a backup in the place of a fabric folder."""

import errno
import os
import re
import shutil
import stat
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from agent_fabric.application.ports.backup import StoreCopies
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.domain.errors import ConfigError, StoreFull, StoreUnavailable
from agent_fabric.infrastructure.backup.archive import Manifest, harmful, read_archive
from agent_fabric.infrastructure.backup.contents import DATABASE
from agent_fabric.infrastructure.backup.make import Tell
from agent_fabric.infrastructure.backup.staging import remove_leftovers, stage_files, working_name
from agent_fabric.infrastructure.runs.log.folder_trust import mark

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
