"""A `fabric` for shells that is a fork of a warm interpreter; `fork_server` says what that leaves unproven."""

import atexit
import functools
import os
import shutil
import socket
import sys
import tempfile
import threading
from pathlib import Path

from e2e.fork_server import LENGTH, ask_for_process

_STREAMS = 3
_PROGRAM = """#!{python} -IS
import json, os, signal, socket, struct, sys

def kept(name):
    # Without a locale, this interpreter has chosen UTF-8 for itself and its children, which is what a fork speaks.
    if name == "LC_CTYPE":
        return os.environ[name] in ("C.UTF-8", "C.utf8", "UTF-8")
    return not name.startswith(("PYTHON", "LC_", "LD_")) or name == "PYTHONPATH"

# A terminal belongs to a session, and a fork is in another one.
if os.isatty(0) or os.isatty(2) or not all(map(kept, os.environ)):
    os.execv({fabric!r}, [{fabric!r}, *sys.argv[1:]])
here = os.path.dirname({fabric!r})
request = {{
    "arguments": sys.argv[1:],
    "cwd": os.getcwd(),
    "imports_from": here,
    "env": dict(os.environ),
    "new_session": False,
}}
body = json.dumps(request).encode()
door = socket.socket(socket.AF_UNIX)
door.connect({door!r})
socket.send_fds(door, [struct.pack("!I", len(body))], [0, 1, 2])
door.sendall(body)
lines = door.makefile("rb")
pid = int(lines.readline())

def pass_on(number, frame):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, pass_on)
code = int(lines.readline())
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


_NOT_PASSED_ON = ("PYTHON", "LC_", "LD_")
"""With these, a fork cannot stand for a fresh interpreter."""


def fabric_program() -> list[str]:
    """Return what a command line begins with: a fork, or a fresh interpreter where that is asked for."""
    if os.environ.get("FABRIC_TEST_PROCESSES") == "fresh":
        return [sys.executable, "-m", "agent_fabric"]
    return [str(forked_command() / "fabric")]


def passed_on() -> dict[str, str]:
    """Return what such a program gets of our environment."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_NOT_PASSED_ON)}


@functools.cache
def forked_command() -> Path:
    """Return a folder for PATH with a `fabric` that starts forks, for as long as this process lives."""
    folder = Path(tempfile.mkdtemp(prefix="fabric-"))  # short: the name of a socket has at most a hundred characters
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    door = folder / "door"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(door))
    listener.listen()
    threading.Thread(target=_pass_on_requests, args=(listener,), daemon=True).start()
    program = folder / "fabric"
    fabric = str(Path(sys.executable).with_name("fabric"))
    program.write_text(_PROGRAM.format(python=sys.executable, fabric=fabric, door=str(door)))
    program.chmod(0o755)
    return folder


def _pass_on_requests(listener: socket.socket) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            head, streams, _, _ = socket.recv_fds(connection, LENGTH.size, _STREAMS, socket.MSG_WAITALL)
            try:
                if len(head) == LENGTH.size and len(streams) == _STREAMS:
                    body = _exactly(connection, LENGTH.unpack(head)[0])
                    ask_for_process(body, [*streams, connection.fileno()])
            except ConnectionError:
                continue  # the program was killed before it had said what it wants
            finally:
                for stream in streams:
                    os.close(stream)


def _exactly(connection: socket.socket, length: int) -> bytes:
    received = b""
    while len(received) < length:
        part = connection.recv(length - len(received))
        if not part:
            raise ConnectionResetError
        received += part
    return received
