"""The user's own folder in which running servers are found again."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from agent_fabric.config.folders import base_folder, temporary_folder
from agent_fabric.domain.errors import ConfigError


def servers_folder(environ: Mapping[str, str]) -> Path:
    """Return where servers leave their state: gone after a logout where the system offers that, else kept."""
    runtime = Path(environ.get("XDG_RUNTIME_DIR", ""))
    if runtime.is_absolute() and _is_ours(runtime):
        return runtime / "agent-fabric" / "servers"
    return (base_folder(environ, "XDG_STATE_HOME", ".local", "state") or temporary_folder()) / "servers"


def prepare_folder(folder: Path) -> Path:
    """Make the folder, for our eyes only.

    Raises:
        ConfigError: it cannot be made, or it belongs to someone else, who could then read keys or hand us a server.
    """
    hint = "Set XDG_STATE_HOME (or XDG_RUNTIME_DIR) to a folder of your own."
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir(exist_ok=True, mode=0o700)
        for place in (folder.parent, folder):
            about = place.lstat()
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
                raise ConfigError(f"The folder for model servers, {place}, is not a folder of yours", hint=hint)
        if stat.S_IMODE(folder.lstat().st_mode) & 0o077:
            folder.chmod(0o700)
    except OSError as problem:
        raise ConfigError(f"The folder for model servers, {folder}, cannot be used: {problem}", hint=hint) from None
    return folder


def _is_ours(folder: Path) -> bool:
    try:
        about = folder.stat()
    except OSError:
        return False
    return stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and os.access(folder, os.W_OK)
