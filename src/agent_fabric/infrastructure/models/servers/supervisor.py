"""Supervises a llama-server: `python -m agent_fabric.infrastructure.models.servers.supervisor`.

It starts the server, announces it when it is ready, keeps its log short, and ends it when it is idle or our stdin is
closed, which happens however the owner ends. Its settings are the first line of stdin, one JSON object. It ends as the
server did.
"""

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_fabric.infrastructure.atomic_files import write_atomically
from agent_fabric.infrastructure.models.servers.loopback import answers_health
from agent_fabric.infrastructure.models.servers.server_files import ServerFiles
from agent_fabric.infrastructure.models.servers.serving import serve_until_idle, signal_socket

EXIT_NO_PROGRAM = 127
_GRACE_S = 4.0
_LOOK_S = 0.05
_PORT_TRIES = 3
_PR_SET_PDEATHSIG = 1


def main() -> int:
    """Run the server until it ends, is idle, or our stdin is closed."""
    settings: dict[str, Any] = json.loads(_first_line())
    files = ServerFiles(Path(settings["folder"]), settings["key"])
    woken = signal_socket(signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
    key_file = files.folder / f"{files.key}.key"
    write_atomically(key_file, f"{settings['api_key']}\n".encode(), durable=False)
    try:
        for _ in range(_PORT_TRIES):
            code = _run(files, settings, key_file, woken)
            if code <= 0 or not any("couldn't bind" in line or "already in use" in line for line in files.log_tail(40)):
                break  # else another program took the port between our look and the server's start
    except OSError as problem:
        print(f"{settings['program'][0]} cannot be started: {problem}", file=sys.stderr)  # noqa: T201 - to the log
        return EXIT_NO_PROGRAM
    finally:
        key_file.unlink(missing_ok=True)
    return code


def _run(files: ServerFiles, settings: dict[str, Any], key_file: Path, woken: socket.socket) -> int:
    port = _free_port()
    address = ("--host", "127.0.0.1", "--port", str(port), "--api-key-file", str(key_file))
    server = subprocess.Popen(
        (*settings["program"], *address, *settings["arguments"]),
        stdin=subprocess.DEVNULL,
        pass_fds=[settings["lock"]],  # so that its life counts, should we be the first to go
        preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - we have one thread
    )

    def ended(timeout_s: float) -> bool:
        ready, _, _ = select.select([0, woken.fileno()], [], [], timeout_s)
        told = 0 in ready or (ready and woken.recv(64).strip(bytes([signal.SIGCHLD])))
        if told and server.poll() is None:
            files.withdraw()
            _end(server)
        return server.poll() is not None

    while not ended(_LOOK_S):
        if answers_health(port, settings["api_key"]):
            serve_until_idle(files, port, settings, ended)
            break
    if server.poll() is None:
        _end(server)
    return server.returncode


def _first_line() -> bytes:
    """Read up to the end of the line and not a byte further: what follows is only ever the end of stdin."""
    line = bytearray()
    while (byte := os.read(0, 1)) not in (b"", b"\n"):
        line += byte
    return bytes(line)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


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
    if code < 0:  # end by the same signal, so that the parent process sees what happened
        with suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)
