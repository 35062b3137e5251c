"""Small files of this user that hold what opens servers."""

import os
import stat
from pathlib import Path


def read_own(path: Path, *, most_bytes: int, private: bool = False) -> bytes:
    """Return what a file of ours says; nothing if it is a link or another user's, and so may be any secret.

    `private`: nor if others may read or change it.

    Raises:
        OSError: there is none, or it cannot be read.
    """
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
            return b""
        if private and facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            return b""
        return os.read(file, most_bytes)
    finally:
        os.close(file)


def replace_own(path: Path, content: bytes) -> None:
    """Put a file that only we can read in the place of what is there: whole, or not at all.

    Raises:
        OSError: it cannot be written; what was there still is.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(file)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
