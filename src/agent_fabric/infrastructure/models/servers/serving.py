"""The life of a server process: announce it, stay until it is idle or told to end, withdraw.

Imported by child processes: the standard library only.
"""

import os
import select
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from agent_fabric.infrastructure.models.servers.locks import FileLock, is_free
from agent_fabric.infrastructure.models.servers.loopback import slots_of
from agent_fabric.infrastructure.models.servers.server_files import Endpoint, ServerFiles

_MAX_LOOK_S = 2.0


def signal_socket(*numbers: int) -> socket.socket:
    """Return a socket that can be read when one of these signals came; its bytes are their numbers."""
    heard, told = socket.socketpair()
    told.setblocking(False)
    signal.set_wakeup_fd(told.detach(), warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, _ignore)
    return heard


def serve_until_idle(
    files: ServerFiles, port: int, settings: dict[str, Any], wait_for_end: Callable[[float], bool] | None = None
) -> None:
    """Announce the server and stay until it is idle or ends; an idle one has withdrawn when this returns.

    Args:
        files: of this server.
        port: where it listens.
        settings: `api_key`, `slots`, `context_window` and `idle_s`; without `idle_s` it stays however idle it is.
        wait_for_end: tells within a time whether the server ends; by default it withdraws and ends on a signal.
    """
    ended = wait_for_end or _send_signal()
    api_key, idle_s = str(settings["api_key"]), settings["idle_s"]
    slots = None
    with suppress(OSError):  # it listens, but the machine may be very busy: then as it was told
        slots = slots_of(port, api_key=api_key, timeout_s=10)
    files.announce(
        Endpoint(
            os.getpid(),
            port,
            api_key,
            slots.total if slots else int(settings["slots"]),
            slots.context_window if slots else int(settings["context_window"]),
            idle_s,
        )
    )
    last_used, touched = time.monotonic(), _last_touch(files)
    while not ended(_MAX_LOOK_S if idle_s is None else min(_MAX_LOOK_S, idle_s / 4)):
        files.shorten_log()
        said = files.listening()
        if said is None or said.pid != os.getpid():
            return  # it was stopped, or the folder was cleaned up: no process could find it any more
        if idle_s is None:
            continue
        if not is_free(files.lease) or _at_work(port, api_key):
            last_used = time.monotonic()
            with suppress(OSError):
                os.utime(files.lease)
        elif touched != _last_touch(files):  # used and released since the last look
            last_used = time.monotonic()
        elif time.monotonic() - last_used >= idle_s and FileLock.take(files.lease) is not None:
            files.withdraw()
            return  # the lease is held until we are gone: the next user waits for that, and then starts another
        touched = _last_touch(files)
    if wait_for_end is None:
        files.withdraw()


def _send_signal() -> Callable[[float], bool]:
    heard = signal_socket(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    return lambda timeout_s: bool(select.select([heard], [], [], timeout_s)[0])


def _last_touch(files: ServerFiles) -> int | None:
    try:
        return files.lease.stat().st_mtime_ns
    except OSError:
        return None


def _at_work(port: int, api_key: str) -> bool:
    try:
        slots = slots_of(port, api_key=api_key, timeout_s=1.0)
    except OSError:
        return True  # too busy to answer
    return slots is not None and slots.busy > 0


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the byte on the socket says it all, also when another thread was interrupted."""
