"""Where a user's files belong, as the XDG specification says."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def base_folder(environ: Mapping[str, str], variable: str, *below_home: str) -> Path | None:
    """Return our folder in one of the user's base folders; None for a user without a home.

    A variable that holds no absolute path is ignored, as the specification demands.
    """
    base = Path(environ.get(variable, ""))
    if not base.is_absolute():
        home = Path(environ.get("HOME", ""))
        if not home.is_absolute():
            return None
        base = home.joinpath(*below_home)
    return base / "agent-fabric"


def temporary_folder() -> Path:
    """Return a folder for a user without a home, such as one that a container made up."""
    return Path(tempfile.gettempdir()) / f"agent-fabric-{os.getuid()}"
