"""Starts the process that ends our commands and tool servers if we are frozen for longer than our lease lasts."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from agent_fabric.infrastructure.sandbox import effect_guard_process

HAS_PROCESSES = Path("/proc/self/stat").exists()
"""Where processes can be found. Elsewhere a lease that has lapsed ends what this process itself can end."""


class EffectGuard:
    """A child process that is told each deadline. It ends with us."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def renew(self, deadline: float) -> None:
        """Let what runs below this process go on until `deadline`."""
        if not HAS_PROCESSES:
            return
        if self._process is None or self._process.poll() is not None:
            program = [sys.executable, "-I", "-S", str(effect_guard_process.__file__)]
            self._process = subprocess.Popen(
                program, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
            )
        assert self._process.stdin is not None
        with suppress(OSError):  # it was killed; the next renewal starts another one
            self._process.stdin.write(f"{deadline!r}\n".encode())
            self._process.stdin.flush()

    def close(self) -> None:
        """End the guard."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            with suppress(OSError):
                process.stdin.close()
            process.wait()
