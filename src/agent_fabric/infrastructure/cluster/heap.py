"""The memory of a process that serves for long."""

import ctypes
from typing import Final

_M_ARENA_MAX: Final = -8
"""As `malloc.h` of glibc has it."""


def share_heap() -> None:
    """Let all threads take their memory from one heap.

    Otherwise, glibc gives each of the first threads one of its own, up to eight for each core. What a thread has given
    back there only that thread takes again, so a server with many threads grows for hours. Other systems have no such
    heaps; there, nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
