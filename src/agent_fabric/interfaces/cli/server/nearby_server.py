"""The server that runs for the current folder: found, used when that is wanted, and otherwise mentioned."""

import sys
from pathlib import Path

from agent_fabric.bootstrap.records import running_server
from agent_fabric.bootstrap.this_machine import require_ours
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.domain.errors import ConfigError
from agent_fabric.interfaces.cli.options import fabric_root


def find_server(*, wanted: bool) -> str | None:
    """Return the address of this folder's server if one runs and is `wanted`, or the configuration says so."""
    root = fabric_root(None)
    url = running_server(root)
    return url if url is not None and (wanted or _is_configured(root)) else None


def mention_server(root: Path) -> None:
    """Say on standard error that a server runs for a folder in which this process is about to work by itself."""
    url = running_server(root)
    if url is not None:
        where = "" if root == fabric_root(None) else "in its folder, "
        sys.stderr.write(f"note: a server runs for this folder at {url}; {where}--server auto uses it\n")


def _is_configured(root: Path) -> bool:
    from agent_fabric.config.installed_packs import installed_packs  # noqa: PLC0415 - mostly, no server runs
    from agent_fabric.config.loader import load_config  # noqa: PLC0415 - as above

    try:
        require_ours(root)
        return load_config(fabric_folder=root, packages=installed_packs).config.cli.server == "auto"
    except (ConfigProblem, ConfigError):
        return False  # the command says what is wrong with the configuration, if it needs one
