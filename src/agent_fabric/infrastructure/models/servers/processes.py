"""Starts and ends server processes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from agent_fabric.infrastructure.models.servers.locks import FileLock, is_held
from agent_fabric.infrastructure.models.servers.server_files import ServerFiles

TERM_GRACE_S = 5.0
"""How long a server may take to end by itself after SIGTERM."""
KILL_GRACE_S = 10.0
"""How long the system may take to clear away a large process."""
_LOOK_S = 0.02

EMBEDDED: Final = (sys.executable, "-P", "-m", "agent_fabric.infrastructure.models.servers.embedded_child")
"""-P: a module of the same name in the current folder must not be taken for ours."""

_PASSED_ON = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "VIRTUAL_ENV")
_PASSED_PREFIXES = ("LC_", "PYTHON", "OMP_", "GOMP_", "KMP_", "GGML_", "CUDA_", "HIP_", "ROCR_", "VK_")


def server_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a model server needs to know of the environment; keys and tokens are no part of it."""
    passed = {name: value for name, value in environ.items() if name in _PASSED_ON or name.startswith(_PASSED_PREFIXES)}
    # Threads that wait for each other actively take the core from the one they wait for as soon as anything else runs:
    # measured, answers that take 8 to 12 s on two busy cores then take 27 to 92 s.
    return {"GOMP_SPINCOUNT": "0"} | passed


class StartedServer:
    """A server process that we started: in a session of its own, so that Ctrl-C in our terminal is not its end."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.pid = process.pid
        # A thread reaps it as soon as it ends; our own end does not wait for it.
        self._end = threading.Thread(target=self._reap, name="fabric-server-end", daemon=True)
        self._end.start()

    @property
    def exit_code(self) -> int | None:
        """How it ended, as `Popen.returncode`; None: it still runs."""
        return self._process.returncode

    def wait_for_end(self, timeout_s: float) -> int | None:
        """Return how it ended; None: not within this time. Blocks."""
        self._end.join(timeout_s)
        return self.exit_code

    def write(self, line: bytes, *, keep_open: bool) -> None:
        """Write a line to its stdin; one that has ended already says why by its exit code and its log."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()
        if not keep_open:
            self._close_stdin()

    def _reap(self) -> None:
        self._process.wait()
        self._close_stdin()

    def _close_stdin(self) -> None:
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()


def start_server(
    files: ServerFiles,
    lock: FileLock,
    command: Sequence[str],
    settings: Mapping[str, Any],
    *,
    environment: Mapping[str, str],
    keep_stdin: bool = False,
) -> StartedServer:
    """Start a server that holds `lock` for as long as it lives; its settings go to its stdin, as one line of JSON.

    Blocks for some milliseconds. Our own hold on the lock ends here, also when this fails.

    Raises:
        OSError: the command cannot be started.
    """
    try:
        files.withdraw()
        lock.write("")  # so that the process of the server before is not taken for this one
        started = start_process(
            files, command, environment, stdin=subprocess.PIPE, cwd=files.folder, pass_fds=(lock.fileno(),)
        )
        lock.write(json.dumps({"pid": started.pid, "name": settings["name"], "model": settings["model"]}))
    finally:
        lock.release()
    started.write(json.dumps(settings).encode(), keep_open=keep_stdin)
    return started


def start_process(
    files: ServerFiles,
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    stdin: int = subprocess.DEVNULL,
    cwd: Path | None = None,
    pass_fds: Sequence[int] = (),
) -> StartedServer:
    """Start a program that writes to the server's log.

    Raises:
        OSError: it cannot be started.
    """
    log = files.open_log()
    try:
        process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=log,
            stderr=log,
            cwd=cwd,
            env=environment,
            start_new_session=True,
            pass_fds=tuple(pass_fds),
        )
    finally:
        os.close(log)
    return StartedServer(process)


async def end_server(files: ServerFiles, *, grace_s: float = TERM_GRACE_S) -> bool:
    """End a server, no matter who started it, and wait until it is gone; return whether there was one."""
    if not is_held(files.lock):
        files.withdraw()
        return False
    for number, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILL_GRACE_S)):
        deadline = time.monotonic() + wait_s
        told = False
        while is_held(files.lock):
            holder = files.holder()  # not there for the moment between the lock and the start
            if holder is not None and holder.pid > 1 and not told:
                told = True
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(holder.pid, number)
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(_LOOK_S)
        else:
            break
    files.withdraw()
    return True


def memory_of(pid: int) -> int | None:
    """Return how much memory a process and its children occupy, where the system tells."""
    process = Path(f"/proc/{pid}")
    try:
        pages = int((process / "statm").read_text().split()[1])
        children = (process / "task" / str(pid) / "children").read_text().split()
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(memory_of(int(child)) or 0 for child in children)
