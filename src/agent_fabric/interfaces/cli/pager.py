"""Shows long output page by page, at a terminal."""

import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TextIO

from agent_fabric.interfaces.cli.output import capable

DEFAULT_PAGER = "less"
_DEFAULTS = {"LESS": "FRX", "LV": "-c"}
"""For pagers without settings of their own: show colours, and end at once if all fits on one screen."""


def pager_command(stream: TextIO, environment: Mapping[str, str] = os.environ) -> str:
    """Return the pager for a stream; empty: it is no terminal, or NO_PAGER or an empty PAGER wants none."""
    command = environment.get("PAGER", DEFAULT_PAGER).strip()
    if not capable(stream) or environment.get("NO_PAGER") or command in ("", "cat"):
        return ""
    try:
        program = shlex.split(command)[0]
    except ValueError:  # quotes that do not end
        return ""
    return command if shutil.which(program, path=environment.get("PATH")) else ""


@contextmanager
def open_pager(command: str) -> Iterator[TextIO]:
    """Give a stream that ends in a pager, or standard output if there is no command. Leaving the pager is no error."""
    if not command:
        yield sys.stdout
        return
    environment = {**_DEFAULTS, **os.environ}
    sys.stdout.flush()
    # A shell, as other programs run it: PAGER may have options and pipes.
    pager = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.PIPE, env=environment)
    assert pager.stdin is not None
    out = io.TextIOWrapper(pager.stdin, encoding="utf-8", errors="backslashreplace")
    # Ctrl-C is for the pager: it stops a search there. A handler, unlike SIG_IGN, is not inherited.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        with suppress(BrokenPipeError):
            yield out
    finally:
        with suppress(BrokenPipeError):
            out.close()
        pager.wait()
        signal.signal(signal.SIGINT, before)
