"""The program inside a box that carries connections to the egress proxy outside, the only way out there is.

It is run by itself by a bare interpreter. Arguments: the number of a socket that listens inside the box, and
the path at which the proxy's unix socket is seen.
"""

import ctypes
import socket
import sys
import threading
from contextlib import suppress

PORT = 3128
"""Where programs in the box find it, on 127.0.0.1."""

_PR_SET_DUMPABLE = 4
_CHUNK_BYTES = 64 * 1024
_STACK_BYTES = 256 * 1024
_MAX_CONNECTIONS = 64


def main() -> None:
    """Carry connections until the box ends."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    threading.stack_size(_STACK_BYTES)
    room = threading.BoundedSemaphore(_MAX_CONNECTIONS)
    while True:
        room.acquire()
        try:
            inner, _ = listener.accept()
            threading.Thread(target=_carry, args=(inner, sys.argv[2], room), daemon=True).start()
        except (OSError, RuntimeError):  # no more processes or files: that one connection is lost
            room.release()


def _carry(inner: socket.socket, proxy: str, room: threading.BoundedSemaphore) -> None:
    try:
        with inner, socket.socket(socket.AF_UNIX) as outer:
            outer.connect(proxy)
            back = threading.Thread(target=_copy, args=(outer, inner), daemon=True)
            back.start()
            _copy(inner, outer)
            back.join()
    except (OSError, RuntimeError):
        pass
    finally:
        room.release()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_CHUNK_BYTES):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
