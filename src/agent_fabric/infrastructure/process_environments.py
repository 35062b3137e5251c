"""The environments of other processes, where there is /proc."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_TRIES: Final = 8
_PAUSE_S: Final = 0.0005


def environment_of(pid: int | str) -> set[bytes]:
    """Return the entries `NAME=value` of a process; none if it has ended, is somebody else's, or has none.

    A process that is just being replaced by another program (exec) shows an empty environment for a moment, and
    whoever looks for a mark then would miss it: it is looked at again.
    """
    with suppress(OSError):
        for _ in range(_TRIES):
            found = Path(f"/proc/{pid}/environ").read_bytes()
            if found or not _is_program(pid):
                return set(found.split(b"\0")) - {b""}
            time.sleep(_PAUSE_S)
    return set()


def _is_program(pid: int | str) -> bool:
    """Tell whether this is a program at all: threads of the kernel and those that have ended show no file."""
    with suppress(OSError):
        return bool(Path(f"/proc/{pid}/exe").readlink().name)
    return False
