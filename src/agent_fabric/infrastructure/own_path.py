"""Where programs that we start ourselves, outside every box, are looked for.

A person who works in a project often has its virtual environment, or its `node_modules/.bin`, in front of the search
path. A run may write there, so what is found there is a program of the run.
"""

import os
import sys
from pathlib import Path


def own_path(path: str | None) -> str:
    """Return a search path without folders that belong to a project: in the current folder, or made for one."""
    entries = (os.defpath if path is None else path).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if not _is_a_projects(Path(entry)))


def _is_a_projects(entry: Path) -> bool:
    if not entry.is_absolute():
        return True
    if entry == Path(sys.prefix, "bin"):  # ours; where it is in a workspace, no run may write there
        return False
    try:
        here = Path.cwd()
    except OSError:  # gone
        here = Path("/nonexistent")
    if here != here.parent and (entry.is_relative_to(here) or entry.resolve().is_relative_to(here)):
        return True
    return entry.name == ".bin" or (entry.parent / "pyvenv.cfg").exists()
