"""`fabric` as a fork of a warm interpreter, for tests that wait in a thread; used like `subprocess.Popen`.

`fork_server` says what that leaves unproven, and how to start fresh interpreters instead.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from e2e.fork_server import MODULE, ask_for_process, needs_fresh_interpreter

START_TIMEOUT_S = 60.0


class ForkedProcess:
    """What tests use of `subprocess.Popen`."""

    def __init__(self, arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], new_session: bool) -> None:
        reading, writing = os.pipe()
        self.stderr: IO[bytes] = os.fdopen(reading, "rb")
        self.returncode: int | None = None
        self._status, reported = socket.socketpair()
        nothing = os.open(os.devnull, os.O_RDWR)
        try:
            request: dict[str, Any] = {
                "arguments": list(arguments),
                "cwd": str(cwd),
                "imports_from": str(cwd),
                "env": dict(env),
                "new_session": new_session,
            }
            ask_for_process(json.dumps(request).encode(), [nothing, nothing, writing, reported.fileno()])
        finally:
            reported.close()
            os.close(writing)
            os.close(nothing)
        self._lines = self._status.makefile("rb")
        self._status.settimeout(START_TIMEOUT_S)
        self.pid = int(self._lines.readline())
        if new_session:
            self._wait_for_session()

    def _wait_for_session(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.poll() is None and os.getsid(self.pid) != self.pid:
            assert time.monotonic() < deadline, "the fork did not become the head of a session"
            time.sleep(0.001)

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        return self._await_end(0)

    def wait(self, timeout: float) -> int:
        """Wait for its end and return the exit code.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        code = self._await_end(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(MODULE, timeout)
        return code

    def _await_end(self, timeout_s: float) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout_s)[0]:
            # Without an exit code the server was killed, and nobody knows how its children end.
            self.returncode = int(self._lines.readline() or -signal.SIGKILL)
            self._lines.close()
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)


AnyProcess = ForkedProcess | subprocess.Popen[bytes]


def start_forked(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], new_session: bool = False
) -> AnyProcess:
    """Start `fabric` with these arguments and nothing to read; what it says on standard error can be had."""
    if os.environ.get("FABRIC_TEST_PROCESSES") == "fresh" or needs_fresh_interpreter(env):
        return subprocess.Popen(
            [sys.executable, "-m", MODULE, *arguments],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=new_session,
        )
    return ForkedProcess(arguments, cwd=cwd, env=env, new_session=new_session)
