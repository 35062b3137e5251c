"""A server that goes on when the command that started it has ended."""

import json
import os
import select
import subprocess
import sys
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
    log = root / "server.log"
    root.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "agent_fabric", "serve", "--json", "--port", str(port), "--workspace", str(root)]
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), "ab") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
    assert process.stdout is not None
    with process.stdout as output:
        told = _first_line(output.fileno())
    try:
        answer = json.loads(told)
        return BackgroundServer(answer["url"], answer["pid"])
    except (ValueError, KeyError):
        process.terminate()
        raise StoreUnavailable("The server could not start", hint=f"See {log}.") from None


def _first_line(file: int) -> bytes:
    text, deadline = b"", time.monotonic() + START_TIMEOUT_S
    while b"\n" not in text and select.select([file], [], [], max(0.0, deadline - time.monotonic()))[0]:
        if not (piece := os.read(file, 4096)):
            break
        text += piece
    return text
