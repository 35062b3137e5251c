"""Counts the ways through the house: the modules of ours whose code runs while something is done.

In this process: `with Way() as way: …`, then `way.modules`. Threads count if they were started after `watch_threads()`.
In a process of its own: `python tests/ways_through.py FILE MODULE ARGUMENTS…` runs a module; each SIGUSR1 writes to
FILE what was touched since the last one.
"""

import json
import os
import runpy
import signal
import sys
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

_touched: set[str] = set()
_STANDS_OUTSIDE = ("agent_fabric.testing",)


def _note(frame: FrameType, event: str, _: object) -> None:
    if event == "call" and frame.f_code.co_name != "<module>":
        name = frame.f_globals.get("__name__", "")
        if name.startswith("agent_fabric.") and not name.startswith(_STANDS_OUTSIDE):
            _touched.add(name.removeprefix("agent_fabric."))


def watch_threads() -> None:
    """Watch threads that begin from now on, such as those of the store."""
    threading.setprofile(_note)


class Way:
    """The modules whose functions run inside the block."""

    modules: frozenset[str] = frozenset()

    def __enter__(self) -> Self:
        _touched.clear()
        sys.setprofile(_note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        sys.setprofile(None)
        self.modules = frozenset(_touched)


def _write(to: Path) -> None:
    part = to.with_suffix(".part")
    part.write_text(json.dumps(sorted(_touched)))
    part.replace(to)
    _touched.clear()


def _main() -> None:
    to, module, *arguments = sys.argv[1:]
    signal.signal(signal.SIGUSR1, lambda *_: _write(Path(to)))
    sys.argv = [module, *arguments]
    watch_threads()
    sys.setprofile(_note)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    sys.path[0] = os.fspath(Path(__file__).parent)
    _main()
