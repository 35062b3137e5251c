"""Gives memory back that nobody uses any more."""

import ctypes
from contextlib import suppress


def give_back_memory() -> None:
    """Return to the system what starting, or a long output, has left: glibc would keep it for later."""
    with suppress(OSError, AttributeError):  # other C libraries have no such function, and need none
        ctypes.CDLL(None).malloc_trim(0)
