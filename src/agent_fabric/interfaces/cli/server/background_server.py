"""A server that goes on when the command that started it has ended."""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from agent_fabric.domain.errors import StoreUnavailable

START_TIMEOUT_S = 60.0


class BackgroundServer(NamedTuple):
    """A server that was started."""

    url: str
    pid: int


def start_server(root: Path, *, port: int) -> BackgroundServer:
    """Start `fabric serve` for a fabric folder, and wait until it listens. What it logs is in its `server.log`.

    Raises:
        StoreUnavailable: it did not start.
    """
    command = [sys.executable, "-m", "agent_fabric", "serve", "--json", "--port", str(port), "--workspace", str(root)]
    # Beside the folder at first: one that has something in it already would not be taken for our own.
    file, log = tempfile.mkstemp(prefix=".fabric-server-", suffix=".log", dir=root.parent)
    with os.fdopen(file, "ab") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    assert process.stdout is not None
    with process.stdout as output:
        told = _first_line(output.fileno())
    try:
        answer = json.loads(told)
        started = BackgroundServer(answer["url"], answer["pid"])
    except (ValueError, KeyError):
        process.terminate()
        raise StoreUnavailable("The server could not start", hint=_why(told) or f"See {log}.") from None
    Path(log).replace(root / "server.log")
    return started


def _why(told: bytes) -> str:
    """Return what a server has said about why it does not start."""
    try:
        problem = json.loads(told)["error"]
        return f"{problem['message']}. {problem['hint']}"
    except (ValueError, KeyError, TypeError):
        return ""


def _first_line(file: int) -> bytes:
    text, deadline = b"", time.monotonic() + START_TIMEOUT_S
    while b"\n" not in text and select.select([file], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not (piece := os.read(file, 4096)):
            break
        text += piece
    return text
