"""Files of a node's machine: below configured folders, never the node's own, and never as a user it does not run as."""

import asyncio
import errno
import hashlib
import json
import mmap
import os
import stat
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.infrastructure.node.processes import RunAs
from agent_fabric.infrastructure.sandbox.beneath import Beneath

MAX_ENTRIES: Final = 2_000
MAX_READ_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """Reads, lists and writes files."""

    roots: tuple[str, ...]
    own_folder: Path
    """The node's own folder, which no tool touches."""
    user: RunAs

    async def list(self, path: str) -> dict[str, Any]:
        return await self._as_user(lambda: self._list(path))

    async def read(self, path: str, offset: int, max_bytes: int) -> dict[str, Any]:
        return await self._as_user(lambda: self._read(path, offset, max_bytes))

    async def write(self, path: str, content: str) -> dict[str, Any]:
        return await self._as_user(lambda: self._write(path, content))

    async def look_at(self, path: str) -> dict[str, Any]:
        """Tell size, SHA-256 and version of a file; the version changes with the file."""
        return await self._as_user(lambda: self._look_at(path))

    async def read_bytes(self, path: str, offset: int, max_bytes: int) -> dict[str, Any]:
        """Read a part of a file as it is, in base64."""
        return await self._as_user(lambda: self._read_bytes(path, offset, max_bytes))

    async def install(self, path: str, content: Path) -> dict[str, Any]:
        """Put a file of the node's own in the place of another, in one step."""
        with content.open("rb") as file:  # opened here: the user that it is written as may not enter the folder
            size = os.fstat(file.fileno()).st_size
            data = memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)) if size else memoryview(b"")
        return await self._as_user(lambda: self._write_bytes(path, data))

    def require_reachable(self, path: str) -> None:
        """Check that a path lies in a configured folder.

        Raises:
            OSError, ValueError: it does not.
        """
        self._below(path)

    def _look_at(self, path: str) -> dict[str, Any]:
        descriptor = self._open(path)
        with os.fdopen(descriptor, "rb") as file:
            before = _version(descriptor)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            if _version(descriptor) != before:
                raise OSError(errno.EBUSY, "it changes while it is read", path)
            return {"path": path, "size": os.fstat(descriptor).st_size, "sha256": digest, "version": before}

    def _read_bytes(self, path: str, offset: int, max_bytes: int) -> dict[str, Any]:
        descriptor = self._open(path)
        try:
            data, size = os.pread(descriptor, min(max_bytes, MAX_READ_BYTES), offset), os.fstat(descriptor).st_size
            version = _version(descriptor)
        finally:
            os.close(descriptor)
        return {"data": b64encode(data).decode(), "offset": offset, "size": size, "version": version}

    def _open(self, path: str) -> int:
        root, below = self._below(path)
        return self._require_not_own(Beneath(root).open_file(below), path)

    def _list(self, path: str) -> dict[str, Any]:
        descriptor = self._open_folder(path)
        try:
            entries: list[dict[str, Any]] = []
            with os.scandir(descriptor) as found:
                for entry in found:
                    if len(entries) == MAX_ENTRIES:
                        break
                    about = entry.stat(follow_symlinks=False)
                    entries.append(
                        {
                            "name": entry.name,
                            "kind": _kind(about.st_mode),
                            "bytes": about.st_size,
                            "mode": stat.filemode(about.st_mode),
                            "modified_at": about.st_mtime,
                        }
                    )
        finally:
            os.close(descriptor)
        entries.sort(key=lambda each: str(each["name"]))
        return {"path": path, "entries": entries, "truncated": len(entries) == MAX_ENTRIES}

    def _read(self, path: str, offset: int, max_bytes: int) -> dict[str, Any]:
        descriptor = self._open(path)
        try:
            size = os.fstat(descriptor).st_size
            data = os.pread(descriptor, min(max_bytes, MAX_READ_BYTES), offset)
        finally:
            os.close(descriptor)
        text = data.decode(errors="replace")
        return {"path": path, "content": text, "bytes": size, "offset": offset, "truncated": offset + len(data) < size}

    def _write(self, path: str, content: str) -> dict[str, Any]:
        return self._write_bytes(path, content.encode("utf-8", "surrogateescape"))

    def _write_bytes(self, path: str, data: bytes | memoryview) -> dict[str, Any]:
        root, below = self._below(path)
        real_root = Path(os.path.realpath(root))
        files = Beneath(root, protected=lambda found: self._is_own(str(real_root / found)))
        is_new = files.write_file(below, data)
        return {"path": path, "bytes": len(data), "created": is_new}

    def _open_folder(self, path: str) -> int:
        root, below = self._below(path)
        base = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            descriptor = os.open(below, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=base)
        finally:
            os.close(base)
        real = _real_path(descriptor)
        if not any(real == top or real.startswith(f"{top.rstrip('/')}/") for top in map(os.path.realpath, self.roots)):
            os.close(descriptor)
            raise PermissionError(errno.EACCES, "it lies outside of the folders that the node's file names", path)
        return self._require_not_own(descriptor, path)

    def _below(self, path: str) -> tuple[Path, str]:
        """Return the configured folder that a path lies in, and the path from there."""
        if not path.startswith("/"):
            raise ValueError(f"{path[:200]!r} is no absolute path")
        for root in sorted(self.roots, key=len, reverse=True):
            top = root.rstrip("/")
            if path == root or path.startswith(f"{top}/"):
                return Path(root), path[len(top) :].strip("/") or "."
        raise PermissionError(errno.EACCES, "it lies outside of the folders that the node's file names", path)

    def _require_not_own(self, descriptor: int, path: str) -> int:
        """Return a descriptor, unless it is of the node's own folder; then it is closed."""
        if self._is_own(_real_path(descriptor)):
            os.close(descriptor)
            raise PermissionError(errno.EACCES, "the node's own folder is closed to its tools", path)
        return descriptor

    def _is_own(self, real: str) -> bool:
        own = os.path.realpath(self.own_folder)
        return real == own or real.startswith(f"{own}/")

    async def _as_user(self, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Do something as the user that commands run as; a root that may not act does it in a child of its own."""
        return await asyncio.to_thread(_in_child if self.user.drops else _plainly, work, self.user)


def _plainly(work: Callable[[], dict[str, Any]], _: RunAs) -> dict[str, Any]:
    try:
        return {"status": "success", "output": work()}
    except (OSError, ValueError) as problem:
        return {"status": "error", "error": str(problem)}


def _in_child(work: Callable[[], dict[str, Any]], user: RunAs) -> dict[str, Any]:
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reads)
            os.setgroups([])
            os.setgid(user.gid)
            os.setuid(user.uid)
            data = json.dumps(_plainly(work, user)).encode("utf-8", "replace")
            with os.fdopen(writes, "wb") as file:
                file.write(data)
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads, "rb") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    if not text:
        return {"status": "error", "error": "the child that was to do it has failed"}
    found: dict[str, Any] = json.loads(text)
    return found


def _real_path(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


def _version(descriptor: int) -> str:
    about = os.fstat(descriptor)
    return f"{about.st_dev}-{about.st_ino}-{about.st_size}-{about.st_mtime_ns}"


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "link"
    return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"
