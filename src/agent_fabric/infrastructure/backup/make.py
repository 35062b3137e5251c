"""Makes a backup while runs go on."""

import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from agent_fabric import __version__
from agent_fabric.application.ports.backup import StoreCopies
from agent_fabric.domain.audit.key import AuditKey
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, StoreFull
from agent_fabric.infrastructure.atomic_files import sync_folder
from agent_fabric.infrastructure.backup.archive import ArchiveWriter, Manifest, read_archive
from agent_fabric.infrastructure.backup.contents import DATABASE, kept_files
from agent_fabric.infrastructure.backup.staging import remove_leftovers, stage_files, working_name

SUFFIX = ".tar.gz"

Tell = Callable[[str], None]
"""Shows a person what is going on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A backup that has been made and read again."""

    path: Path
    size_bytes: int
    files: int
    workspaces: bool
    changed: tuple[str, ...]
    """Files that were written while they were copied, and what could not be read."""
    seconds: float


def backup_name(now: float) -> str:
    """Return how a backup of this moment is called; names sort by age."""
    return f"fabric-{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{int(now * 1000) % 1000:03}{SUFFIX}"


def make_backup(
    root: Path,
    target: Path,
    key: AuditKey,
    copies: StoreCopies,
    *,
    workspaces: bool = True,
    tell: Tell = lambda _: None,
) -> Backup:
    """Put a fabric folder into one file; `target` is that file, or a folder to put it into.

    The store in it is that of one moment; files of runs are copied behind it. The file appears under its name only
    when it is whole and has been read again.

    Raises:
        ConfigError: there is something under this name, or no such folder.
        StoreFull, StoreUnavailable: it cannot be read or written.
    """
    started = time.monotonic()
    target = _resolve_target(target)
    remove_leftovers(target.parent, re.compile(rf"fabric-.*|{re.escape(target.name)}"), "part", "db")
    fresh, copy = working_name(target, "part"), working_name(target, "db")
    problem = {"cannot": "The backup cannot be written", "hint": "Check the folder that you named."}
    with stage_files(target, fresh, copy, **problem):
        _require_room(root / DATABASE, target.parent)
        copies.copy_to(copy, lambda share: tell(f"copying the store: {100 * share:.0f} %"))
        tell("checking the copy")
        version = copies.check(copy)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            writer = ArchiveWriter(file)
            writer.add_file(copy, DATABASE)
            copy.unlink()
            for number, found in enumerate(kept_files(root, workspaces=workspaces)):
                writer.add(root, found)
                if number % 100 == 0:
                    tell(f"packing: {number} files")
            manifest = Manifest(
                created_at=time.time(),
                fabric_version=__version__,
                store_format=version,
                workspaces=workspaces,
                files=writer.digests,
                changed=tuple(writer.changed),
            )
            writer.finish(manifest.encode(key))
            file.flush()
            os.fsync(file.fileno())
        tell("reading it again")
        with fresh.open("rb") as whole:
            read_archive(whole, key)
        _publish(fresh, target)
    return Backup(
        path=target,
        size_bytes=target.stat().st_size,
        files=len(manifest.files),
        workspaces=workspaces,
        changed=manifest.changed,
        seconds=time.monotonic() - started,
    )


def _resolve_target(target: Path) -> Path:
    if target.is_dir():
        folder, target = target, target / backup_name(time.time())
        while os.path.lexists(target):  # by another process, in the same millisecond
            target = folder / backup_name(time.time())
    if os.path.lexists(target):
        raise ConfigError(f"{target} exists already", hint="Choose another name, or name a folder.")
    if not target.parent.is_dir():
        raise ConfigError(f"There is no folder {target.parent}", hint="Make it, or choose another one.")
    return target


def _require_room(store: Path, folder: Path) -> None:
    needed = 2 * store.stat().st_size  # the copy, and the copy in the archive
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise StoreFull(
            f"There is room for {free / 1e6:.0f} MB in {folder}, and a backup may need {needed / 1e6:.0f} MB",
            hint="Choose a folder on another disk.",
        )


def _publish(fresh: Path, target: Path) -> None:
    try:
        os.link(fresh, target)  # unlike a rename, it never replaces a file of another process
    except FileExistsError:
        raise ConfigError(f"{target} exists already", hint="Choose another name, or name a folder.") from None
    except OSError:  # not every file system has links
        fresh.rename(target)
    sync_folder(target.parent)
