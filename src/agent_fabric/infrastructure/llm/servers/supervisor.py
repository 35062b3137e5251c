"""Supervises a llama-server: `python -m agent_fabric.infrastructure.llm.servers.supervisor`.

It starts the server, keeps its log short, and ends it as soon as its own stdin is closed: on Linux and elsewhere that
happens however its owner ends. Its settings are the first line of stdin, one JSON object. It ends as the server did.
"""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_fabric.infrastructure.llm.servers.server_files import ServerFiles
from agent_fabric.infrastructure.llm.servers.signals import signal_socket

EXIT_NO_PROGRAM = 127
_GRACE_S = 4.0
_LOOK_AT_LOG_S = 5.0
_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Run the server until it ends or our stdin is closed."""
    settings: dict[str, Any] = json.loads(_first_line())
    files = ServerFiles(Path(settings["folder"]), settings["key"])
    woken = signal_socket(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
    try:
        server = subprocess.Popen(
            settings["command"],
            stdin=subprocess.DEVNULL,
            pass_fds=[settings["lock"]],  # so that its life counts, should we be the first to go
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - we have one thread
        )
    except OSError as problem:
        print(f"{settings['command'][0]} cannot be started: {problem}", file=sys.stderr)  # noqa: T201 - to the log
        return EXIT_NO_PROGRAM
    while server.poll() is None:
        ready, _, _ = select.select([0, woken.fileno()], [], [], _LOOK_AT_LOG_S)
        files.shorten_log()
        if 0 in ready or (ready and woken.recv(64).strip(bytes([signal.SIGCHLD]))):
            _end(server)
    return server.returncode


def _first_line() -> bytes:
    """Read up to the end of the line and not a byte further: what follows is only ever the end of stdin."""
    line = bytearray()
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    return bytes(line)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end(server: "subprocess.Popen[bytes]") -> None:
    server.terminate()
    try:
        server.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


if __name__ == "__main__":
    code = main()
    if code < 0:  # end by the same signal, so that whoever started us sees what happened
        with suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
