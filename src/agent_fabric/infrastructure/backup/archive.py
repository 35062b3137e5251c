"""A backup file: a compressed tar archive whose last member, the manifest, lists all others.

Anyone may have made the file that is read, so nothing in it is believed before it was checked.
"""

import gzip
import hashlib
import hmac
import io
import json
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

from agent_fabric.domain.audit.key import UNKEYED, AuditKey
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.backup.contents import DATABASE, MANIFEST, Found, is_in_workspace, may_be_restored

FORMAT: Final = 1
MAX_BYTES: Final = 512 * 1024 * 1024
"""A manifest is held in memory; this is enough for millions of files."""
_PURPOSE: Final = b"agent-fabric backup\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a backup says of itself."""

    created_at: float
    fabric_version: str
    store_format: int
    workspaces: bool
    """Whether the files of runs are in it."""
    files: Mapping[str, str]
    """SHA-256 of each file by its path; of a link, of where it leads."""
    changed: tuple[str, ...] = ()
    """Files that were written while they were copied: each is as it was at some moment, perhaps cut. And files and
    folders that could not be read."""
    ours: bool = False
    """Whether the user's own key has signed it."""

    def encode(self, key: AuditKey) -> bytes:
        """Return it as it stands in a backup, signed with the user's key."""
        said = {name: value for name, value in asdict(self).items() if name != "ours"}
        body = json.dumps({"format": FORMAT, **said}, indent=1)
        return json.dumps({"manifest": body, "key": key.name, "signature": _signature(body, key)}).encode()


def decode_manifest(data: bytes, key: AuditKey) -> Manifest:
    """Read a manifest.

    Raises:
        StoreUnavailable: it is none, or a newer program wrote it.
    """
    try:
        whole: dict[str, Any] = json.loads(data)
        body, signature = str(whole["manifest"]), str(whole["signature"])
        said: dict[str, Any] = json.loads(body)
        if said["format"] != FORMAT:
            raise StoreUnavailable(
                f"The backup has format {said['format']!r}; this agent-fabric knows {FORMAT}",
                hint="Upgrade agent-fabric, then try again.",
            )
        return Manifest(
            created_at=float(said["created_at"]),
            fabric_version=str(said["fabric_version"]),
            store_format=int(said["store_format"]),
            workspaces=bool(said["workspaces"]),
            files={str(name): str(digest) for name, digest in said["files"].items()},
            changed=tuple(map(str, said["changed"])),
            ours=key != UNKEYED and hmac.compare_digest(signature.encode(), _signature(body, key).encode()),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise StoreUnavailable("The backup's manifest cannot be read", hint="Choose another backup.") from None


def _signature(body: str, key: AuditKey) -> str:
    return hmac.digest(key.value, _PURPOSE + body.encode("utf-8", "surrogatepass"), "sha256").hex()


MAX_MEMBERS: Final = 20_000_000
_FAST: Final = 1
"""The texts in the store are compressed already."""
_PIECE: Final = 1024 * 1024
_BLOCK: Final = 64 * 1024
_MAX_HEADER: Final = 256 * 1024
"""What an archive may say about one member before its content begins; names are never that long."""

Keep = Callable[[tarfile.TarInfo, Iterator[bytes]], None]
"""Takes one member with its content. It counts only once the whole backup has been read."""


class ArchiveWriter:
    """Fills a backup."""

    def __init__(self, file: BinaryIO) -> None:
        self._zipped = gzip.GzipFile("", "wb", _FAST, file)
        self._tar = tarfile.TarFile(fileobj=self._zipped, mode="w", format=tarfile.PAX_FORMAT)
        self.digests: dict[str, str] = {}
        self.changed: list[str] = []
        """Files that were written while they were copied, and what could not be read."""

    def add(self, root: Path, found: Found) -> None:
        """Add one thing of a folder; one that is gone by now, or cannot be read, counts as changed."""
        path = root / found.name if found.folder is None else Path(found.name.rpartition("/")[2])
        try:
            if found.kind == stat.S_IFDIR:
                self._tar.addfile(_member(found.name, kind=tarfile.DIRTYPE, mode=0o755))
                if not found.is_whole:
                    self.changed.append(found.name)
            elif found.kind == stat.S_IFLNK:
                member = _member(found.name, kind=tarfile.SYMTYPE)
                member.linkname = os.readlink(path, dir_fd=found.folder)
                self.digests[found.name] = hashlib.sha256(os.fsencode(member.linkname)).hexdigest()
                self._tar.addfile(member)
            else:
                self.add_file(path, found.name, folder=found.folder)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            self.changed.append(found.name)

    def add_file(self, path: Path, name: str, *, folder: int | None = None) -> None:
        """Add a file under a name; its path may begin at an open folder."""
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(descriptor, "rb") as file:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                return
            content = _FixedSize(file, before.st_size)
            member = _member(name, size=before.st_size, mode=stat.S_IMODE(before.st_mode) & 0o777)
            member.mtime = int(before.st_mtime)
            self._tar.addfile(member, content)
            self.digests[name] = content.hash.hexdigest()
            if content.is_short or os.fstat(descriptor).st_mtime_ns != before.st_mtime_ns:
                self.changed.append(name)

    def finish(self, manifest: bytes) -> None:
        """Add the manifest and end the archive."""
        self._tar.addfile(_member(MANIFEST, size=len(manifest)), io.BytesIO(manifest))
        self._tar.close()
        self._zipped.close()


def _member(name: str, *, size: int = 0, kind: bytes = tarfile.REGTYPE, mode: int = 0o600) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.type, member.mode = size, kind, mode
    return member


class _FixedSize(io.RawIOBase):
    """A file of exactly as many bytes as it had at first; zeros stand for what is cut off meanwhile."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        super().__init__()
        self._file, self._left = file, size
        self.hash = hashlib.sha256()
        self.is_short = False

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._file.read(wanted)
        self.is_short |= len(data) < wanted
        data = data.ljust(wanted, b"\0")
        self._left -= wanted
        self.hash.update(data)
        return data


def read_archive(file: BinaryIO, key: AuditKey, keep: Keep = lambda _member, _content: None) -> Manifest:
    """Read a backup from its beginning to its end, and check that it is whole.

    Raises:
        StoreUnavailable: it is no backup, is damaged, or holds what no backup holds.
    """
    manifest: Manifest | None = None
    digests: dict[str, str] = {}
    with gzip.GzipFile(fileobj=file, mode="rb") as zipped, _explain_damage():
        limited = _Limited(zipped)
        # It only reads, so there is nothing to close.
        tar = tarfile.open(fileobj=limited, mode="r|", bufsize=_BLOCK)  # type: ignore[call-overload]  # noqa: SIM115
        for number, member in enumerate(_members(tar, limited)):
            if manifest is not None or number > MAX_MEMBERS:
                raise tarfile.ReadError("it goes on behind its end")
            if member.name == MANIFEST and member.isreg():
                if member.size > MAX_BYTES:
                    raise tarfile.ReadError("its manifest is too large to be one")
                manifest = decode_manifest(b"".join(_content(tar, member, limited)), key)
                continue
            _require_harmless(member)
            if member.name in digests:
                raise tarfile.ReadError(f"it has {member.name!r} twice")
            digest = hashlib.sha256(os.fsencode(member.linkname) if member.issym() else b"")
            content = _hash(_content(tar, member, limited), digest)
            keep(member, content)
            for _ in content:
                pass
            if not member.isdir():
                digests[member.name] = digest.hexdigest()
        limited.left = _MAX_HEADER
        while piece := tar.fileobj.read(4096):
            if piece.strip(b"\0"):
                raise tarfile.ReadError("it goes on behind its end")
    return _require_whole(manifest, digests)


class _Limited:
    """A stream of which only so much is read as was allowed.

    tarfile believes what an archive says about itself, and would take gigabytes into memory for a name.
    """

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self.left = _MAX_HEADER

    def read(self, size: int) -> bytes:
        if size > self.left:
            raise tarfile.ReadError("it says too much about itself")
        self.left -= size
        return self._stream.read(size)


def _members(tar: tarfile.TarFile, limited: _Limited) -> Iterator[tarfile.TarInfo]:
    while True:
        limited.left = _MAX_HEADER
        member = tar.next()
        tar.members = []  # type: ignore[attr-defined]  # or it keeps every one of them
        if member is None:
            return
        yield member


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo, limited: _Limited) -> Iterator[bytes]:
    left = member.size if member.isreg() else 0
    while left:
        limited.left = _PIECE + _MAX_HEADER
        assert tar.fileobj is not None
        piece = tar.fileobj.read(min(_PIECE, left))
        if not piece:
            raise EOFError("it ends too early")
        left -= len(piece)
        yield piece


def _hash(pieces: Iterator[bytes], digest: "hashlib._Hash") -> Iterator[bytes]:
    for piece in pieces:
        digest.update(piece)
        yield piece


@contextmanager
def _explain_damage() -> Iterator[None]:
    try:
        yield
    except (OSError, tarfile.TarError, EOFError, zlib.error, ValueError, OverflowError, MemoryError) as problem:
        if isinstance(problem, OSError) and problem.errno is not None:
            raise  # the disk's, not the backup's
        raise StoreUnavailable(
            f"This is no whole backup: {problem}", hint="It may have been cut off or changed. Choose another one."
        ) from None


def _require_whole(manifest: Manifest | None, digests: dict[str, str]) -> Manifest:
    if manifest is None:
        raise StoreUnavailable(
            "The backup has no manifest at its end", hint="It may have been cut off. Choose another backup."
        )
    if DATABASE not in digests:
        raise StoreUnavailable("The backup has no store in it", hint="Choose another backup.")
    if digests != dict(manifest.files):
        names = {name for name, _ in set(digests.items()) ^ set(manifest.files.items())}
        raise StoreUnavailable(
            f"The backup was changed: {', '.join(sorted(names)[:5])} differ",
            hint="Choose another backup.",
        )
    return manifest


def harmful(name: str) -> StoreUnavailable:
    """Return the error for what no backup of ours holds."""
    return StoreUnavailable(
        f"The backup holds {name!r}, which agent-fabric never puts there",
        hint="Do not use it: it may have been made to harm you.",
    )


def _require_harmless(member: tarfile.TarInfo) -> None:
    plain_file = member.isreg() and not member.issparse()
    link = member.issym() and is_in_workspace(member.name)
    if not may_be_restored(member.name) or not (plain_file or member.isdir() or link):
        raise harmful(member.name)
