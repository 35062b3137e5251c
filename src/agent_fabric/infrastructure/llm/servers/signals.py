"""Signals as something to wait for.

Imported by child processes: the standard library only.
"""

import signal
import socket
from types import FrameType


def signal_socket(*numbers: int) -> socket.socket:
    """Return a socket that can be read when one of these signals came; its bytes are their numbers."""
    heard, told = socket.socketpair()
    told.setblocking(False)
    signal.set_wakeup_fd(told.detach(), warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, _ignore)
    return heard


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the byte on the socket says it all, also when another thread was interrupted."""
