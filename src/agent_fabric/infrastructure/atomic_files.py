"""Files that are written whole or not at all.

Imported by child processes: the standard library only.
"""

import os
from contextlib import suppress
from pathlib import Path


def write_atomically(path: Path, data: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Replace a file, or make it: readers see the old or the new content, never a part of it.

    Args:
        path: Where; the folder must exist.
        data: What.
        mode: Its rights, less what the umask takes.
        durable: Whether the content is on the disk, and not only on its way, when this returns.

    Raises:
        OSError: it cannot be written; what was there still is.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        write_new(fresh, data, mode=mode, durable=durable)
        fresh.replace(path)
    except BaseException:
        with suppress(OSError):
            fresh.unlink()
        raise


def write_new(path: Path, data: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Write a file that must not exist yet.

    Raises:
        OSError: it exists, or cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the disk remember the names in a folder, even if the power fails."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
