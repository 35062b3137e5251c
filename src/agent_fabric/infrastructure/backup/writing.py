"""Writes a backup file: a compressed tar archive whose last member says what must have come before."""

import gzip
import hashlib
import io
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, BinaryIO, Final

from agent_fabric.infrastructure.backup.contents import DATABASE, MANIFEST, Found, kept_files

_QUICKLY: Final = 1
"""The texts in the store are compressed already."""


class Writing:
    """Fills a backup."""

    def __init__(self, file: BinaryIO) -> None:
        self._zipped = gzip.GzipFile("", "wb", _QUICKLY, file)
        self._tar = tarfile.TarFile(fileobj=self._zipped, mode="w", format=tarfile.PAX_FORMAT)
        self._digests: dict[str, str] = {}
        self._changed: list[str] = []

    def add_folder(self, root: Path, *, workspaces: bool, tell: Callable[[int], None]) -> None:
        """Add what lies beside the store; `tell` learns how many things have been added."""
        for number, found in enumerate(kept_files(root, workspaces=workspaces)):
            self._add(root, found)
            if number % 100 == 0:
                tell(number)

    def add_store(self, copy: Path) -> None:
        """Add a copy of the store."""
        self._add_file(copy, DATABASE)

    def finish(self, manifest: Callable[[dict[str, str], tuple[str, ...]], bytes]) -> int:
        """Add the manifest, made of all digests and of what changed meanwhile; return how many files there are."""
        data = manifest(self._digests, tuple(self._changed))
        self._tar.addfile(_member(MANIFEST, len(data)), io.BytesIO(data))
        self._tar.close()
        self._zipped.close()
        return len(self._digests)

    def _add(self, root: Path, found: Found) -> None:
        path = root / found.name
        try:
            if found.kind == stat.S_IFDIR:
                member = _member(found.name, 0, tarfile.DIRTYPE)
                member.mode = 0o755
                self._tar.addfile(member)
            elif found.kind == stat.S_IFLNK:
                member = _member(found.name, 0, tarfile.SYMTYPE)
                member.linkname = os.readlink(path)  # noqa: PTH115 - as it is written, whatever it is
                self._digests[found.name] = hashlib.sha256(os.fsencode(member.linkname)).hexdigest()
                self._tar.addfile(member)
            else:
                self._add_file(path, found.name)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            self._changed.append(found.name)  # gone meanwhile, or hidden by the run itself

    def _add_file(self, path: Path, name: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                return
            member = _member(name, before.st_size)
            member.mode, member.mtime = stat.S_IMODE(before.st_mode) & 0o777, int(before.st_mtime)
            content = _Exactly(file, before.st_size)
            self._tar.addfile(member, content)
            self._digests[name] = content.digest
            if content.short or os.fstat(descriptor).st_mtime_ns != before.st_mtime_ns:
                self._changed.append(name)


def _member(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.type, member.mode = size, kind, 0o600
    return member


class _Exactly(io.RawIOBase):
    """A file that has exactly as many bytes as it had at first, whatever becomes of it meanwhile."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        super().__init__()
        self._file, self._left = file, size
        self._hash = hashlib.sha256()
        self.short = False
        """Whether it has become shorter; zeros stand for what is missing."""

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._file.read(wanted)
        if len(data) < wanted:
            self.short = True
            data += bytes(wanted - len(data))
        self._left -= wanted
        self._hash.update(data)
        return data

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
