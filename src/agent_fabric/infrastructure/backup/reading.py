"""Reads a backup file, which anybody may have made."""

import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, Protocol

from agent_fabric.domain.audit_key import AuditKey
from agent_fabric.domain.errors import StoreUnavailable
from agent_fabric.infrastructure.backup.contents import DATABASE, MANIFEST, is_in_workspace, may_be_restored
from agent_fabric.infrastructure.backup.forward import MAX_ABOUT, PIECE, Forward
from agent_fabric.infrastructure.backup.manifest import MAX_BYTES, Manifest, decoded

MAX_MEMBERS: Final = 20_000_000


class Keeper(Protocol):
    """Takes what is in a backup, as it comes. It counts only once the whole backup has been read."""

    def folder(self, name: str) -> None:
        """Take a folder."""
        ...

    def file(self, name: str, size: int, mode: int, content: Iterator[bytes]) -> None:
        """Take a file, to the end of its content."""
        ...

    def link(self, name: str, target: str) -> None:
        """Take a link; to be made last, or somebody's link could lead a file to elsewhere."""
        ...


def read_archive(file: BinaryIO, key: AuditKey, keeper: Keeper) -> Manifest:
    """Read a backup from its beginning to its end, and check that it is whole.

    Raises:
        StoreUnavailable: it is no backup, is damaged, or wants what no backup wants.
    """
    with gzip.GzipFile(fileobj=file, mode="rb") as zipped, _explained():
        forward = Forward(zipped)
        tar = tarfile.TarFile(fileobj=forward)  # type: ignore[arg-type]  # it has all that is used
        manifest, digests = _read(tar, forward, key, keeper)
        forward.require_end()
    return _require_whole(manifest, digests)


def _read(
    tar: tarfile.TarFile, forward: Forward, key: AuditKey, keeper: Keeper
) -> tuple[Manifest | None, dict[str, str]]:
    digests: dict[str, str] = {}
    manifest: Manifest | None = None
    for number, member in enumerate(_members(tar, forward)):
        if manifest is not None or number > MAX_MEMBERS:
            raise tarfile.ReadError("it goes on behind its end")
        if member.name == MANIFEST and member.isreg():
            if member.size > MAX_BYTES:
                raise tarfile.ReadError("its manifest is too large to be one")
            manifest = decoded(b"".join(_content(tar, member, forward)), key)
            continue
        _require_harmless(member)
        if member.isdir():
            keeper.folder(member.name)
        elif member.name in digests:
            raise tarfile.ReadError(f"it has {member.name!r} twice")
        elif member.issym():
            keeper.link(member.name, member.linkname)
            digests[member.name] = hashlib.sha256(os.fsencode(member.linkname)).hexdigest()
        else:
            hashed = hashlib.sha256()
            content = _hashed(_content(tar, member, forward), hashed)
            keeper.file(member.name, member.size, member.mode & 0o777, content)
            digests[member.name] = hashed.hexdigest()
    return manifest, digests


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        if problem.errno is not None:
            raise  # the disk's, not the backup's
        raise _no_backup(problem) from None
    except (tarfile.TarError, EOFError, zlib.error, ValueError, OverflowError, MemoryError) as problem:
        raise _no_backup(problem) from None


def _no_backup(problem: BaseException) -> StoreUnavailable:
    return StoreUnavailable(
        f"This is no whole backup: {problem}", hint="It may have been cut off or changed. Choose another one."
    )


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
            f"The backup is not as it was made: {', '.join(sorted(names)[:5])} differ", hint="Choose another backup."
        )
    return manifest


def _members(tar: tarfile.TarFile, forward: Forward) -> Iterator[tarfile.TarInfo]:
    while True:
        forward.allow(MAX_ABOUT)
        member = tar.next()
        tar.members = []  # type: ignore[attr-defined]  # or it keeps every one of them
        if member is None:
            return
        forward.allow(member.size + MAX_ABOUT)
        yield member


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo, forward: Forward) -> Iterator[bytes]:
    content = tar.extractfile(member)
    assert content is not None
    left = member.size
    while left:
        forward.allow(PIECE + MAX_ABOUT)
        piece = content.read(min(PIECE, left))
        if not piece:
            raise EOFError("it ends too early")
        left -= len(piece)
        yield piece


def _hashed(pieces: Iterator[bytes], hashed: "hashlib._Hash") -> Iterator[bytes]:
    for piece in pieces:
        hashed.update(piece)
        yield piece


def _require_harmless(member: tarfile.TarInfo) -> None:
    plain_file = member.isreg() and not member.issparse()
    link = member.issym() and is_in_workspace(member.name)
    if not may_be_restored(member.name) or not (plain_file or member.isdir() or link):
        raise StoreUnavailable(
            f"The backup holds {member.name!r}, which no backup of ours does",
            hint="Do not use it: it may have been made to harm you.",
        )
