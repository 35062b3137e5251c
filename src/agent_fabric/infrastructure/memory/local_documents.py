"""Reads documents of this machine that a person has named."""

import errno
import os
import stat
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 50_000_000
_READING: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
"""Opening a named pipe does not wait for somebody who writes to it."""


def read_local_document(path: Path) -> bytes:
    """Return the content of a file; of one that is too large, a byte more than allowed, so that its reader refuses it.

    Raises:
        OSError: it cannot be read, or is a device, a pipe or a socket, which may never end.
    """
    descriptor = os.open(path, _READING)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)
