"""Contents of files, kept once each under the name of their hash, shared by all runs of a fabric folder.

objects/
    <2 digits>/<62 digits>   one content
    packs/<name>.pack        many small ones, one behind the other: a file for each would take far longer to make
    packs/<name>.json        where each of them begins, and how long it is; a pack without it was never finished
"""

import hashlib
import json
import os
import secrets
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from agent_fabric.infrastructure.atomic_files import write_atomically
from agent_fabric.infrastructure.runs.log.layout import require_unlinked

PACKED_BYTES = 512 * 1024
"""Larger contents get a file of their own."""

_PACKS = "packs"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class _Place(NamedTuple):
    pack: str
    offset: int
    length: int


class Objects:
    """Contents by their SHA-256. One that is damaged counts as missing."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._places: dict[str, _Place] = {}
        self._read: set[str] = set()

    @staticmethod
    def digest_of(data: bytes) -> str:
        """Return the name of a content."""
        return hashlib.sha256(data).hexdigest()

    def writing(self) -> "ObjectWriter":
        """Begin to keep many contents; they can be had again when the writer is closed."""
        return ObjectWriter(self._root)

    def put(self, data: bytes, digest: str) -> None:
        """Keep one content.

        Raises:
            OSError: it cannot be written.
        """
        path = self._file(digest)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(path, data)

    def get(self, digest: str) -> bytes | None:
        """Return a content; None if it is not here, or not as it was."""
        data = None
        if digest not in self._places:
            self._read_indexes()
        with suppress(OSError, ValueError):
            place = self._places.get(digest)
            if place is None:
                data = self._file(digest).read_bytes()
            else:
                with (self._root / _PACKS / f"{place.pack}.pack").open("rb") as pack:
                    data = os.pread(pack.fileno(), place.length, place.offset)
        return data if data is not None and self.digest_of(data) == digest else None

    def digests(self) -> set[str]:
        """Return the names of all that is kept."""
        self._read_indexes()
        return {*self._places, *self._loose()}

    def forget_all_but(self, wanted: Collection[str]) -> int:
        """Remove every other content; return how many bytes that freed. No process may be writing.

        A pack stays as long as one of its contents is wanted.
        """
        wanted = set(wanted)
        self._read_indexes()
        needed = {place.pack for digest, place in self._places.items() if digest in wanted}
        unused = [self._file(name) for name in self._loose() - wanted]
        unused += [path for path in (self._root / _PACKS).glob("*") if path.stem not in needed]
        freed = 0
        for path in unused:
            with suppress(OSError):
                size = path.stat().st_size
                path.unlink()
                freed += size
        self._places = {digest: place for digest, place in self._places.items() if place.pack in needed}
        self._read &= needed
        return freed

    def _file(self, digest: str) -> Path:
        """Return the file of a content.

        Raises:
            FolderLinked: it, or its folder, has become a link.
        """
        require_unlinked(self._root, digest[:2], digest[2:])
        return self._root / digest[:2] / digest[2:]

    def _loose(self) -> set[str]:
        found: set[str] = set()
        with suppress(FileNotFoundError):
            for folder in os.listdir(self._root):  # noqa: PTH208 - names only
                require_unlinked(self._root, folder)
                if folder != _PACKS:
                    with suppress(NotADirectoryError):
                        found.update(folder + rest for rest in os.listdir(self._root / folder))  # noqa: PTH208 - as above
        return found

    def _read_indexes(self) -> None:
        with suppress(FileNotFoundError):
            for name in os.listdir(self._root / _PACKS):  # noqa: PTH208 - names only
                pack, suffix = name[:-5], name[-5:]
                if suffix == ".json" and pack not in self._read:
                    with suppress(OSError, ValueError, TypeError):
                        index = json.loads((self._root / _PACKS / name).read_bytes())
                        self._places |= {digest: _Place(pack, *place) for digest, place in index.items()}
                        self._read.add(pack)


class ObjectWriter:
    """Keeps many contents, small ones in one file. For one thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._name = secrets.token_hex(8)
        self._pack = -1
        self._index: dict[str, tuple[int, int]] = {}
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Make what was put durable.

        Raises:
            OSError: it cannot be written.
        """
        if self._pack < 0:
            return
        try:
            os.fsync(self._pack)
        finally:
            os.close(self._pack)
        write_atomically(self._path("json"), json.dumps(self._index, separators=(",", ":")).encode())

    def put(self, data: bytes, digest: str) -> None:
        """Keep a content.

        Raises:
            OSError: it cannot be written; the others can.
        """
        if len(data) > PACKED_BYTES:
            Objects(self._root).put(data, digest)
            return
        if self._pack < 0:
            self._path("pack").parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._pack = os.open(self._path("pack"), _NEW, 0o600)
        try:
            _write(self._pack, data)
        except OSError:
            os.ftruncate(self._pack, self._end)
            os.lseek(self._pack, self._end, os.SEEK_SET)
            raise
        self._index[digest] = (self._end, len(data))
        self._end += len(data)

    def _path(self, suffix: str) -> Path:
        return self._root / _PACKS / f"{self._name}.{suffix}"


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]
