"""Ends a node's commands when the node is killed: a forked process that waits for the other end of a pipe to close."""

import os
import signal
from contextlib import suppress

from agent_fabric.infrastructure.node.processes import kill_marked


def start_guard(instance: str) -> int:
    """Fork the guard of this start of the node; call it before there are threads. Return what keeps it waiting."""
    waits, holds = os.pipe()
    if os.fork():
        os.close(waits)
        return holds
    os.close(holds)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    with suppress(OSError):
        while os.read(waits, 64):
            pass
    kill_marked(instance)
    os._exit(0)
