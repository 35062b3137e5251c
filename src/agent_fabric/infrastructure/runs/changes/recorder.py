"""Records a snapshot of the project folder before and after each drive of a run, also across a kill -9."""

import errno
import fcntl
import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from agent_fabric.application.ports.changes import RecordedDrive
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, FolderHeld, FolderLinked, StoreFull, StoreUnavailable
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.changes import REBUILDABLE, Entry, FolderSnapshot
from agent_fabric.infrastructure.atomic_files import write_atomically
from agent_fabric.infrastructure.runs.changes.exposed_files import ExposedFiles
from agent_fabric.infrastructure.runs.changes.folder_snapshots import (
    MAX_ENTRIES,
    MAX_FILE_BYTES,
    SnapshotTaker,
    TooManyFiles,
    dump_snapshot,
    entry_at,
    load_snapshot,
    open_folder,
)
from agent_fabric.infrastructure.runs.changes.nested_repositories import Orders, nested_repositories, put_back_orders
from agent_fabric.infrastructure.runs.changes.objects import Objects
from agent_fabric.infrastructure.runs.log.layout import Layout, require_workspace_unlinked

_MAX_NAME_BYTES = 200


class FolderHold:
    """A folder that is locked until it is released."""

    def __init__(self, descriptors: list[int]) -> None:
        self._descriptors = descriptors

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()

    def release(self) -> None:
        """Let others in."""
        descriptors, self._descriptors = self._descriptors, []
        for descriptor in descriptors:
            os.close(descriptor)


class FolderLocks:
    """The locks of one fabric folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def hold(self, folder: Path, who: str) -> FolderHold:
        """Take a folder for a run; `who` is told to those who come too late.

        Raises:
            FolderHeld: a living process works there; the message names it.
            StoreUnavailable: the lock cannot be made.
        """
        descriptors: list[int] = []
        try:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for above in reversed(folder.parents):
                descriptors.append(self._lock(above, fcntl.LOCK_SH, folder))  # noqa: PERF401 - closed below, one by one
            descriptors.append(self._lock(folder, fcntl.LOCK_EX, folder))
            for descriptor in descriptors:
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, who.encode(errors="replace")[:_MAX_NAME_BYTES], 0)
        except BaseException as problem:
            for descriptor in descriptors:
                os.close(descriptor)
            if isinstance(problem, OSError):
                raise StoreUnavailable(
                    f"The lock of {folder} cannot be made: {problem.strerror or problem}",
                    hint="Check that there is space, and that you may write there.",
                ) from None
            raise
        return FolderHold(descriptors)

    def _lock(self, folder: Path, how: int, wanted: Path) -> int:
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]
        descriptor = os.open(self._root / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = b""
            with suppress(OSError):
                holder = os.pread(descriptor, _MAX_NAME_BYTES, 0)
            os.close(descriptor)
            held = FolderHeld(
                f"{holder.decode(errors='replace') or 'another run'} works in {wanted}, or in a folder around it",
                hint="Wait until it has ended, or end it with `fabric cancel`. One run at a time works in a project.",
            )
            held.holder = holder.decode(errors="replace").removeprefix("Run ")
            raise held from None
        except OSError:
            os.close(descriptor)
            raise
        return descriptor


_START = "start.z"
_MAX_NAMED = 3
_DIGEST = re.compile(r'"([0-9a-f]{64})"')


@dataclass(slots=True)
class OpenDrive:
    """A drive in progress, with its folder locked."""

    run_id: RunId
    folder: Path
    number: int
    before: FolderSnapshot
    repositories: Mapping[str, Orders]
    """What git obeyed below the folder when the drive began."""
    mode: int
    """Of the folder itself, which is in no picture."""
    hold: FolderHold


class ChangeRecorder:
    """Stores the snapshots of the runs of a fabric folder; implements ChangeHistory."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.locks = FolderLocks(layout.changes / "locks")
        self.objects = Objects(layout.changes / "objects")
        self.exposed = ExposedFiles(layout.exposed_files)

    def begin(self, run_id: RunId, folder: Path) -> OpenDrive:
        """Lock a project folder for a run and keep what is in it. Blocks: seconds for a large folder's first time.

        Raises:
            FolderHeld: another run works there.
            ConfigError: there are too many files.
            StoreFull, StoreUnavailable: the picture cannot be kept.
        """
        self.require_unlinked(run_id, str(folder))
        hold = self.locks.hold(folder, f"Run {run_id}")
        try:
            with _explain_errors(folder):
                before = SnapshotTaker(self.objects, self._latest(folder))(folder)
                repositories = nested_repositories(folder)
                mode = stat.S_IMODE(folder.stat().st_mode)
                kept = self._layout.changes_of(run_id)
                kept.mkdir(mode=0o700, parents=True, exist_ok=True)
                number = 1 + max((int(one.name[:4]) for one in kept.glob("[0-9]*-before.z")), default=0)
                data = dump_snapshot(before)
                write_atomically(kept / f"{number:04}-before.z", data)
                self._remember(folder, data)
        except BaseException:
            hold.release()
            raise
        return OpenDrive(run_id, folder, number, before, repositories, mode, hold)

    def end(self, drive: OpenDrive) -> list[str]:
        """Keep how the run leaves the folder, then let others in; return what was put aside, since git would obey it.

        Raises:
            StoreFull, StoreUnavailable: it cannot be kept; the folder is free all the same.
        """
        try:
            with _explain_errors(drive.folder):
                self.require_unlinked(drive.run_id, str(drive.folder))
                if stat.S_IMODE(drive.folder.stat().st_mode) != drive.mode:
                    drive.folder.chmod(drive.mode)  # or the run could lock its owner out
                refused = put_back_orders(drive.folder, drive.repositories)
                after = SnapshotTaker(self.objects, drive.before)(drive.folder)
                data = dump_snapshot(after)
                write_atomically(self._layout.changes_of(drive.run_id) / f"{drive.number:04}-after.z", data)
                self._remember(drive.folder, data)
                self.exposed.wrote(str(drive.folder), drive.run_id, drive.before, after)
            return refused
        finally:
            drive.hold.release()

    def keep_start(self, run_id: RunId, folder: Path) -> None:
        """Keep what a run finds in a workspace of its own. No one else works there, so it is not locked.

        Raises:
            ConfigError: there are too many files.
            StoreFull, StoreUnavailable: the picture cannot be kept.
        """
        self.require_unlinked(run_id, str(folder))
        with _explain_errors(folder):
            data = dump_snapshot(SnapshotTaker(self.objects)(folder))
            kept = self._layout.changes_of(run_id)
            kept.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(kept / _START, data)

    def start_of(self, run_id: RunId) -> FolderSnapshot:
        self.require_unlinked(run_id)
        path = self._layout.changes_of(run_id) / _START
        return _load(path) if path.exists() else FolderSnapshot()

    def abandon(self, drive: OpenDrive) -> None:
        """Forget a drive that did not come about."""
        with suppress(OSError, FolderLinked):
            self.require_unlinked(drive.run_id)
            (self._layout.changes_of(drive.run_id) / f"{drive.number:04}-before.z").unlink()
        drive.hold.release()

    def take_snapshot(self, folder: str) -> FolderSnapshot:
        require_workspace_unlinked(folder)
        snapshot = FolderSnapshot()
        with _explain_errors(Path(folder)), suppress(FileNotFoundError):
            snapshot = SnapshotTaker(None, self._latest(Path(folder)))(Path(folder))
        return snapshot

    def drives(self, run_id: RunId) -> list[RecordedDrive]:
        self.require_unlinked(run_id)
        found: list[RecordedDrive] = []
        for before in sorted(self._layout.changes_of(run_id).glob("[0-9]*-before.z")):
            after = before.with_name(f"{before.name[:4]}-after.z")
            found.append(RecordedDrive(_load(before), _load(after) if after.exists() else None))
        return found

    def content(self, folder: str, path: str, entry: Entry) -> bytes | None:
        """Return what a file held when an entry was made: as it was kept, or as it still is; None if it is gone."""
        require_workspace_unlinked(folder)
        data = self.objects.get(entry.digest) if entry.digest else None
        if data is None and entry.digest:
            with suppress(OSError), open_folder(Path(folder), path) as (inside, name):
                now = entry_at(inside, name)
                data = now[1] if now is not None and now[0].digest == entry.digest else None
        return data

    def forget_unused(self) -> int:
        """Remove contents to which no picture and no undo of any run refers; return how many bytes that freed.

        Raises:
            FolderHeld: a run works in some project folder, so that its picture may not be written yet.
            StoreUnavailable: a picture is damaged; nothing was removed.
        """
        self.require_unlinked()
        with self.locks.hold(Path("/"), "Cleaning up"):  # which is around every project folder
            runs = self._layout.root / "runs"
            for run in runs.iterdir() if runs.is_dir() else ():
                self.require_unlinked(RunId(run.name))
            pictures = [*runs.glob("*/changes/*.z"), *(self._layout.changes / "folders").glob("*")]
            wanted = {entry.digest for path in pictures for entry in _load(path).entries.values()}
            for undos in runs.glob("*/changes/undos.jsonl"):
                wanted.update(_DIGEST.findall(undos.read_text(encoding="utf-8")))
            return self.objects.forget_all_but(wanted)

    def require_unlinked(self, run_id: RunId | None = None, folder: str | None = None) -> None:
        """Check that everything is still in the fabric folder, and a project folder where it was.

        Raises:
            FolderLinked: something has become a link.
        """
        for inside in ("locks", "folders", "objects", "objects/packs"):
            self._layout.own("changes", *inside.split("/"))
        if run_id is not None:
            self._layout.own("runs", run_id, "changes", "undos.jsonl")
        if folder is not None:
            require_workspace_unlinked(folder)

    def _latest(self, folder: Path) -> FolderSnapshot:
        with suppress(OSError, ValueError):
            return load_snapshot(self._latest_file(folder).read_bytes())
        return FolderSnapshot()

    def _remember(self, folder: Path, data: bytes) -> None:
        path = self._latest_file(folder)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(path, data)

    def _latest_file(self, folder: Path) -> Path:
        return self._layout.changes / "folders" / hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]


_EXPECTED = REBUILDABLE | {".git"}
"""Folders that are never watched and surprise no one: saying so before every run would only be noise."""


def said_of(picture: FolderSnapshot) -> str:
    """Tell a person, before a run starts, what it could not take back; empty if there is nothing to say."""
    said: list[str] = []
    if missing := picture.not_kept:
        size = f"{MAX_FILE_BYTES // 2**20} MiB"
        said.append(f"cannot be undone (larger than {size}, unreadable, or no space): {some(missing)}")
    if told := [path for path in sorted(picture.left_alone) if path.rpartition("/")[2] not in _EXPECTED]:
        said.append(f"not watched: {some(told)}")
    return "; ".join(said)


def some(names: list[str]) -> str:
    """Return names for a sentence, not too many."""
    shown = ", ".join(names[:_MAX_NAMED])
    return shown if len(names) <= _MAX_NAMED else f"{shown} and {len(names) - _MAX_NAMED} more"


def _load(path: Path) -> FolderSnapshot:
    try:
        return load_snapshot(path.read_bytes())
    except (OSError, ValueError) as problem:
        raise StoreUnavailable(f"{path} cannot be read: {problem}", hint="Restore the file from a backup.") from None


@contextmanager
def _explain_errors(folder: Path) -> Iterator[None]:
    """Say for a person why a folder could not be recorded.

    Raises:
        ConfigError: there are too many files.
        StoreFull, StoreUnavailable: it cannot be read, or its picture not be kept.
    """
    try:
        yield
    except TooManyFiles:
        raise ConfigError(
            f"{folder} holds more than {MAX_ENTRIES:,} files", hint="Change to the folder of one project inside it."
        ) from None
    except OSError as problem:
        if problem.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull(
                "The disk is full: what the run changes could not be undone", hint="Free some space."
            ) from None
        raise StoreUnavailable(
            f"What {folder} holds cannot be recorded: {problem.strerror or problem}",
            hint="Check that you may read it, and write to the fabric folder.",
        ) from None
