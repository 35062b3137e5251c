"""Takes snapshots of folders: their entries, and the contents that an undo may need.

Files are opened relative to open folder descriptors, and no link is followed. So a snapshot shows only this folder,
even if paths are swapped meanwhile. A file that is unchanged since the previous snapshot is not read again.
"""

import errno
import hashlib
import json
import os
import stat
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.policy.protected import GIT_FOLDER
from agent_fabric.domain.runs.changes import REBUILDABLE, Entry, EntryKind, FolderSnapshot
from agent_fabric.infrastructure.runs.changes.objects import Objects, ObjectWriter
from agent_fabric.infrastructure.sandbox.beneath import NOT_ENTERED
from agent_fabric.infrastructure.tree_walk import MAX_DEPTH, TreeEntry, TreeTooDeep, walk_tree

LEFT_ALONE = frozenset({*map(os.fsdecode, NOT_ENTERED), *REBUILDABLE, ".tox", ".nox", ".gradle", ".terraform"})
"""Folders that are not looked into, wherever they lie: large, and made by programs."""

_OURS = ".fabric"

MAX_ENTRIES = 200_000
"""A folder with more is no project."""
MAX_FILE_BYTES = 16 * 2**20
"""Larger files are not kept."""
MAX_TOTAL_BYTES = 2 * 2**30
"""What one picture may add to the kept contents."""
LEAST_FREE_BYTES = 256 * 2**20
"""What is left free on the disk."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_SETTLED_NS = 1_000_000_000
"""A file written this shortly before it was looked at may have been written once more within the same tick."""
_READ_BYTES = 1 << 20


class TooManyFiles(Exception):
    """The folder holds more entries than a snapshot may."""


@dataclass(slots=True)
class SnapshotTaker:
    """Takes one snapshot of a folder."""

    objects: Objects | None
    """Where contents are kept; None: they are only compared."""
    earlier: FolderSnapshot = field(default_factory=FolderSnapshot)
    """What need not be read again."""
    max_file_bytes: int = MAX_FILE_BYTES
    max_total_bytes: int = MAX_TOTAL_BYTES
    most_entries: int = MAX_ENTRIES
    _entries: dict[str, Entry] = field(default_factory=dict)
    _left_alone: list[str] = field(default_factory=list)
    _known: set[str] = field(default_factory=set)
    _room: int = 0
    _writer: ObjectWriter | None = None

    def __call__(self, folder: Path) -> FolderSnapshot:
        """Return how the folder stands now.

        Raises:
            OSError: the folder itself cannot be read.
            TooManyFiles: it holds more than `most_entries`.
        """
        taken_at_ns = time.time_ns()
        if self.objects is not None:
            self._known = self.objects.digests()
        self._room = self._room_on_disk(folder)
        if self.objects is None:
            self._look_into(folder)
        else:
            with self.objects.writing() as self._writer:
                self._look_into(folder)
        return FolderSnapshot(
            entries=self._entries, left_alone=tuple(sorted(self._left_alone)), taken_at_ns=taken_at_ns
        )

    def _look_into(self, folder: Path) -> None:
        for found in walk_tree(folder, max_depth=MAX_DEPTH + 1, enter=_is_watched):
            path = found.path
            if stat.S_ISDIR(found.status.st_mode):
                if found.name == _OURS:
                    continue
                if not _is_watched(found) or isinstance(found.problem, TreeTooDeep):
                    self._left_alone.append(path)
                    if found.name not in REBUILDABLE:
                        self._entries[path] = _unwatched_entry(found.folder, found.name, found.status)
                    continue
                if found.problem is not None:
                    self._left_alone.append(path)
            if len(self._entries) >= self.most_entries:
                raise TooManyFiles
            if (entry := self._entry(found.folder, found.name, path, found.status)) is not None:
                self._entries[path] = entry

    def _entry(self, folder: int, name: str, path: str, status: os.stat_result) -> Entry | None:
        kind = _kind_of(status.st_mode)
        match kind:
            case EntryKind.FILE:
                return self._file(folder, name, path, status)
            case EntryKind.LINK:
                try:
                    return _as_entry(kind, status, os.readlink(name, dir_fd=folder))
                except OSError:
                    return None
            case EntryKind.FOLDER | EntryKind.OTHER | EntryKind.UNWATCHED:
                return _as_entry(kind, status)

    def _file(self, folder: int, name: str, path: str, status: os.stat_result) -> Entry | None:
        entry = _as_entry(EntryKind.FILE, status)
        before = self.earlier.entries.get(path)
        if before is not None and before.digest and entry.untouched_since(before):
            settled = max(before.ctime_ns, before.mtime_ns) + _SETTLED_NS < self.earlier.taken_at_ns
            if settled and (self.objects is None or before.digest in self._known):
                return entry._replace(digest=before.digest, kept=before.digest in self._known)
        if status.st_size > self.max_file_bytes:
            return entry
        try:
            file = _open_file(folder, name)
        except FileNotFoundError:
            return None
        except OSError:
            return entry  # not for us to read, so not for us to change either
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                return None
            data = _read(file, self.max_file_bytes)
            entry = _as_entry(EntryKind.FILE, status)
            if data is None:
                return entry
            return self._kept_entry(entry._replace(size=len(data), digest=hashlib.sha256(data).hexdigest()), data)
        except OSError:
            return entry
        finally:
            os.close(file)

    def _kept_entry(self, entry: Entry, data: bytes) -> Entry:
        if self._writer is None:
            return entry
        if entry.digest not in self._known:
            if len(data) > self._room:
                return entry
            try:
                self._writer.put(data, entry.digest)
            except OSError:
                self._room = 0  # the disk is full, or not for us: what is left is only looked at
                return entry
            self._room -= len(data)
            self._known.add(entry.digest)
        return entry._replace(kept=True)

    def _room_on_disk(self, folder: Path) -> int:
        disk = os.statvfs(folder)
        return max(0, min(self.max_total_bytes, disk.f_bavail * disk.f_frsize - LEAST_FREE_BYTES))


@contextmanager
def open_folder(root: Path, path: str) -> Iterator[tuple[int, str]]:
    """Open the folder in which a path lies, following no link; give it with the last name.

    Raises:
        OSError: a folder on the way is not there, or is no folder.
    """
    *folders, name = path.split("/")
    if not name or name in {".", ".."} or any(one in {"", ".", ".."} for one in folders):
        raise FileNotFoundError(errno.ENOENT, "there is no such path")
    opened = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for one in folders:
            inner = os.open(one, _FOLDER, dir_fd=opened)
            os.close(opened)
            opened = inner
        yield opened, name
    finally:
        os.close(opened)


def entry_at(folder: int, name: str, *, max_bytes: int = MAX_FILE_BYTES) -> tuple[Entry, bytes | None] | None:
    """Return what lies at a name in an open folder, and a file's content if it is not too large; None for nothing."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    kind = _kind_of(status.st_mode)
    if kind is EntryKind.LINK:
        return _as_entry(kind, status, os.readlink(name, dir_fd=folder)), None
    if kind is not EntryKind.FILE or status.st_size > max_bytes:
        return _as_entry(kind, status), None
    file = _open_file(folder, name)
    try:
        status = os.fstat(file)
        data = _read(file, max_bytes) if stat.S_ISREG(status.st_mode) else None
        entry = _as_entry(_kind_of(status.st_mode), status)
        return (entry, None) if data is None else (entry._replace(digest=hashlib.sha256(data).hexdigest()), data)
    finally:
        os.close(file)


def dump_snapshot(picture: FolderSnapshot) -> bytes:
    """Return a picture as it is stored."""
    rows = [[path, *entry] for path, entry in picture.entries.items()]
    value = {"version": 1, "taken_at_ns": picture.taken_at_ns, "left_alone": picture.left_alone, "entries": rows}
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1)


def load_snapshot(data: bytes) -> FolderSnapshot:
    """Return a stored picture.

    Raises:
        ValueError: it is damaged.
    """
    try:
        value = json.loads(zlib.decompress(data))
        return FolderSnapshot(
            entries={row[0]: Entry(EntryKind(row[1]), *row[2:]) for row in value["entries"]},
            left_alone=tuple(value["left_alone"]),
            taken_at_ns=value["taken_at_ns"],
        )
    except (zlib.error, KeyError, TypeError, IndexError, ValueError) as problem:
        raise ValueError(f"the picture is damaged: {problem}") from None


_KINDS = {stat.S_IFREG: EntryKind.FILE, stat.S_IFDIR: EntryKind.FOLDER, stat.S_IFLNK: EntryKind.LINK}


def _kind_of(mode: int) -> EntryKind:
    return _KINDS.get(stat.S_IFMT(mode), EntryKind.OTHER)


def _is_watched(found: TreeEntry) -> bool:
    return found.name != _OURS and found.name not in LEFT_ALONE


def _unwatched_entry(folder: int, name: str, status: os.stat_result) -> Entry:
    """Return the entry of a folder that is not looked into; a repository has a file that no one changes."""
    try:
        made = os.stat(f"{name}/description", dir_fd=folder, follow_symlinks=False)
        identity = f"{made.st_ino}:{made.st_ctime_ns}" if name == GIT_FOLDER else ""
    except OSError:
        identity = ""
    return _as_entry(EntryKind.UNWATCHED, status, identity)


def _as_entry(kind: EntryKind, status: os.stat_result, digest: str = "") -> Entry:
    return Entry(
        kind,
        stat.S_IMODE(status.st_mode),
        status.st_size if kind is EntryKind.FILE else 0,
        digest,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
        inode=status.st_ino,
        uid=status.st_uid,
        gid=status.st_gid,
    )


def _open_file(folder: int, name: str) -> int:
    """Open a file for reading, also one of our own that is closed to us: or a run could keep what it did from undo."""
    try:
        return os.open(name, _FILE, dir_fd=folder)
    except PermissionError:
        place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        status, itself = os.fstat(place), f"/proc/self/fd/{place}"
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        mode = stat.S_IMODE(status.st_mode)
        os.chmod(itself, mode | stat.S_IRUSR)  # noqa: PTH101 - an open file, not a path
        try:
            return os.open(itself, _FILE & ~os.O_NOFOLLOW)
        finally:
            os.chmod(itself, mode)  # noqa: PTH101 - as above
    finally:
        os.close(place)


def _read(file: int, max_bytes: int) -> bytes | None:
    """Return a whole file; None if it is larger."""
    chunks = list[bytes]()
    size = 0
    while chunk := os.read(file, _READ_BYTES):
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            return None
    return b"".join(chunks)
