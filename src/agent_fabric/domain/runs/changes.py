"""The changes of a run to a folder, computed from snapshots.

A run may be driven several times, with people at work in between. Each drive has a snapshot of the folder at its
beginning and at its end; only differences within drives are changes of the run.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Literal, NamedTuple

from agent_fabric.domain.dataclass import dataclass

REBUILDABLE = frozenset({"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"})
"""Folders that programs make again by themselves."""


class EntryKind(StrEnum):
    """The type of an entry."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"
    """A pipe, a socket, a device: noticed, never opened."""
    UNWATCHED = "unwatched"
    """A folder that is not looked into, such as `.git`: only its loss is noticed."""


class Entry(NamedTuple):
    """One path of a folder, as it was at some moment."""

    kind: EntryKind
    mode: int
    """Permission bits."""
    size: int
    digest: str
    """Of a file's content, if it was read; of a link, where it leads; of a repository, what tells it from a new one."""
    kept: bool = False
    """The content can be had again."""
    mtime_ns: int = 0
    ctime_ns: int = 0
    inode: int = 0
    uid: int = -1
    gid: int = -1

    @property
    def octal(self) -> str:
        """Permission bits, octal."""
        return f"{self.mode:04o}"

    @property
    def restorable(self) -> bool:
        """Whether it could be put back as it was."""
        return self.kind in (EntryKind.FOLDER, EntryKind.LINK) or (self.kind is EntryKind.FILE and self.kept)

    def same_as(self, other: "Entry") -> bool:
        """Tell whether nothing that matters differs; a content that was not read is the same if it was not touched."""
        if self.kind is not other.kind:
            return False
        match self.kind:
            case EntryKind.FOLDER:
                return self.mode == other.mode
            case EntryKind.LINK | EntryKind.UNWATCHED:
                return self.digest == other.digest
            case EntryKind.OTHER:
                return self.mode == other.mode
            case EntryKind.FILE:
                return self.mode == other.mode and self.same_content(other)

    def same_content(self, other: "Entry") -> bool:
        """Tell whether two files hold the same."""
        if self.digest and other.digest:
            return self.digest == other.digest
        return self.untouched_since(other)

    def untouched_since(self, other: "Entry") -> bool:
        """Tell whether the system says that nothing was written since."""
        mine = (self.kind, self.size, self.mtime_ns, self.ctime_ns, self.inode)
        return mine == (other.kind, other.size, other.mtime_ns, other.ctime_ns, other.inode)


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderSnapshot:
    """A folder at one moment."""

    entries: Mapping[str, Entry] = field(default_factory=dict)
    """By path from the folder on, with slashes; bytes that are no text as surrogates."""
    left_alone: tuple[str, ...] = ()
    """Folders that were not looked into."""
    taken_at_ns: int = 0

    @property
    def not_kept(self) -> list[str]:
        """Files whose content could not be had again if it changed."""
        return sorted(path for path, entry in self.entries.items() if entry.kind is EntryKind.FILE and not entry.kept)


class DriveSnapshots(NamedTuple):
    """The folder before and after one drive of a run."""

    before: FolderSnapshot
    after: FolderSnapshot
    sure_until_ns: int | None = None
    """The last event of a driver that was killed: later changes may not be the run's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """The change of a run to one path."""

    path: str
    before: Entry | None
    after: Entry | None
    mixed: bool = False
    """Someone else changed it too, between two changes of the run."""
    doubtful: bool = False
    """It may have been someone else, after the run was killed."""

    @property
    def undoable(self) -> bool:
        """Whether it can be undone."""
        return not self.why_final

    @property
    def what(self) -> Literal["created", "deleted", "modified", "mode", "replaced"]:
        """The change in one word."""
        if self.before is None:
            return "created"
        if self.after is None:
            return "deleted"
        if self.before.kind is not self.after.kind:
            return "replaced"
        if self.before.kind is EntryKind.FILE and self.before.same_content(self.after):
            return "mode"
        return "mode" if self.before.kind is EntryKind.FOLDER else "modified"

    @property
    def why_final(self) -> str:
        """Why it cannot be taken back; empty if it can."""
        if self.before is not None and not self.before.restorable:
            if self.before.kind is EntryKind.OTHER:
                return "it is neither a file nor a folder"
            if self.before.kind is EntryKind.UNWATCHED:
                return f"the run {'removed' if self.after is None else 'replaced'} it, and nothing of it was kept"
            if self.what != "mode":
                return "its former content was too large to be kept"
        return ""


def compare(before: FolderSnapshot, after: FolderSnapshot) -> list[FileChange]:
    """Return what differs, by path. What lies in a folder that one of the pictures left alone is not compared."""
    alone = frozenset((*before.left_alone, *after.left_alone))
    found: list[FileChange] = []
    for path in before.entries.keys() | after.entries.keys():
        was, is_ = before.entries.get(path), after.entries.get(path)
        if was is not None and is_ is not None and was.same_as(is_):
            continue
        lost = was is not None and was.kind is EntryKind.UNWATCHED
        if lost or not (alone and _below(path, alone)):
            found.append(FileChange(path=path, before=was, after=is_))
    return sorted(found, key=lambda change: change.path)


def changes_of(drives: Sequence[DriveSnapshots]) -> list[FileChange]:
    """Return what a run changed in all its drives together; what it took back itself is no change."""
    together: dict[str, FileChange] = {}
    for drive in drives:
        for change in compare(drive.before, drive.after):
            earlier = together.get(change.path)
            together[change.path] = FileChange(
                path=change.path,
                before=change.before if earlier is None else earlier.before,
                after=change.after,
                mixed=earlier is not None and (earlier.mixed or not same(earlier.after, change.before)),
                doubtful=_in_doubt(change.after, drive.sure_until_ns) or (earlier is not None and earlier.doubtful),
            )
    return sorted(
        (change for change in together.values() if not same(change.before, change.after)),
        key=lambda change: change.path,
    )


def below_any(path: str, wanted: Iterable[str]) -> bool:
    """Tell whether a path is one of those wanted, or lies below one."""
    return any(not one or path == one or path.startswith(f"{one}/") for one in wanted)


def same(one: Entry | None, other: Entry | None) -> bool:
    """Tell whether two moments of a path differ in nothing that matters."""
    if one is None or other is None:
        return one is other
    return one.same_as(other)


def _in_doubt(after: Entry | None, sure_until_ns: int | None) -> bool:
    return sure_until_ns is not None and after is not None and after.ctime_ns > sure_until_ns


def _below(path: str, folders: frozenset[str]) -> bool:
    end = path.find("/")
    while end >= 0:
        if path[:end] in folders:
            return True
        end = path.find("/", end + 1)
    return path in folders
