"""Keeps a server that fails again and again from being started again and again."""

import os
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from agent_fabric.domain.errors import FabricError, MissingExtra, ModelError
from agent_fabric.infrastructure.models.servers.embedded_child import EXIT_EXTRA_MISSING
from agent_fabric.infrastructure.models.servers.supervisor import EXIT_NO_PROGRAM

MAX_FAILURES = 3
"""After so many in a row a server is left alone for a while."""
LEFT_ALONE_S = 60.0


class Failures:
    """What went wrong with one server lately: starts that failed, and ends in the middle of work."""

    def __init__(self) -> None:
        self._in_a_row = 0
        self._last_at = 0.0
        self._ready_at = 0.0
        self.problem: FabricError | None = None
        """Why it failed last; None: it is well."""

    def note(self, problem: FabricError) -> FabricError:
        """Remember a failure and return it."""
        self._in_a_row += 1
        self._last_at = time.monotonic()
        self.problem = problem
        return problem

    def note_ready(self) -> None:
        """Remember that the server is ready; what failed before is forgotten when that lasts."""
        self._ready_at = time.monotonic()

    def note_well(self) -> None:
        """Forget what failed when the server has been ready for a while."""
        if self._in_a_row and time.monotonic() - self._ready_at > LEFT_ALONE_S:
            self._in_a_row, self.problem = 0, None

    def refuse_storm(self, name: str, log: Path) -> None:
        """Let a start through unless the last ones failed.

        Raises:
            ModelError: too many failed, and the last one not long ago.
        """
        if self._in_a_row < MAX_FAILURES:
            return
        if time.monotonic() - self._last_at > LEFT_ALONE_S:
            self._in_a_row = MAX_FAILURES - 1  # one more try
            return
        because, hint = (self.problem.message, self.problem.hint) if self.problem else ("", "")
        raise ModelError(
            f"{name} failed {self._in_a_row} times in a row and is left alone for a minute. {because}",
            hint=hint or f"Look at its log: {log}",
        )


_NO_MEMORY = re.compile(
    r"cannot allocate memory|out of memory|bad_alloc|failed to allocate|unable to allocate|MemoryError", re.IGNORECASE
)
_CAUSES = (
    (
        re.compile(r"unknown model architecture|unknown pre-tokenizer|unsupported model", re.IGNORECASE),
        "this llama.cpp does not know this kind of model",
        'Upgrade it: pip install --upgrade "agent-fabric[embedded]"',
    ),
    (
        re.compile(
            r"invalid magic|failed to read magic|failed to read key-value|failed to read tensor"
            r"|not within the file bounds|gguf_init_from_\w+: failed|invalid GGUF|is corrupted",
            re.IGNORECASE,
        ),
        "{model} is damaged or not a GGUF file",
        "Remove the file and download it again: fabric models pull",
    ),
    (
        re.compile(r"invalid argument|unknown argument|error while handling argument", re.IGNORECASE),
        "the server does not take one of its arguments",
        "Check the options and `extra_args`, or upgrade the server.",
    ),
)
"""What the log says, what it means, and what helps."""
_TAIL_LINES = 5
_MAX_LINE = 300


def start_failure(name: str, model: Path, code: int | None, log: Sequence[str]) -> FabricError:
    """Return the error for a server that ended before it was ready.

    Args:
        name: what people call the model.
        model: its file.
        code: how the process ended, as `Popen.returncode`; None: it did not end, or no one saw it.
        log: the last lines it wrote.
    """
    if code == EXIT_EXTRA_MISSING:
        return MissingExtra("embedded", needed_for="The embedded model")
    text = "\n".join(log)
    said = _worth_saying(log)
    if code == EXIT_NO_PROGRAM:
        return ModelError(
            f"{name} did not start: its program cannot be started{said}",
            hint="Install llama.cpp's llama-server, or name the program with its path in `command`.",
        )
    if code == -signal.SIGILL:
        return ModelError(
            f"{name} cannot run here: this processor lacks instructions that llama.cpp was built for (AVX2)",
            hint="Use another server instead, such as Ollama: set `base_url` and `model` in the configuration.",
        )
    if code == -signal.SIGKILL or _NO_MEMORY.search(text):
        why = "there is not enough memory" if _NO_MEMORY.search(text) else "it was killed, probably for lack of memory"
        return ModelError(
            f"{name} did not start: {why}{_memory(model)}{said}",
            hint="Close other programs, use a smaller model (fast) or a smaller context window.",
        )
    for pattern, why, hint in _CAUSES:
        if pattern.search(text):
            return ModelError(f"{name} did not start: {why.format(model=model)}{said}", hint=hint)
    return ModelError(f"{name} did not start: {_ending(code)}{said}", hint="Look at the log; it is kept.")


def _ending(code: int | None) -> str:
    if code is None:
        return "it was not ready in time"
    if code < 0:
        try:
            return f"it was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"it was ended by signal {-code}"
    return f"it ended with exit code {code}"


def _worth_saying(log: Sequence[str]) -> str:
    """Return the end of the log: what llama.cpp marks as errors, or else just the last lines."""
    errors = [line for line in log if re.match(r"[\d.]+ E ", line)]
    lines = list(dict.fromkeys(re.sub(r"^[\d.]+ ", "", line)[:_MAX_LINE].strip() for line in errors or log))
    lines = [line for line in lines if line]
    lines = lines[:_TAIL_LINES] if errors else lines[-_TAIL_LINES:]  # the first error is the cause of the others
    return "\nIts last output:\n  " + "\n  ".join(lines) if lines else ""


def _memory(model: Path) -> str:
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return f" (the model alone takes {model.stat().st_size / 2**30:.1f} GB, {free / 2**30:.1f} GB are free)"
    except (OSError, ValueError):
        return ""
