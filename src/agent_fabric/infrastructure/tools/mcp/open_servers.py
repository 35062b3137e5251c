"""Joins what talks to tool servers."""

import os
from collections.abc import Mapping
from pathlib import Path

from agent_fabric.application.ports.secrets import Resolve
from agent_fabric.config.files import user_file
from agent_fabric.config.folders import base_folder, temporary_folder
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.config.variable_names import CONFIG_PATH
from agent_fabric.infrastructure.tools.mcp.lazy_servers import LazyToolServers
from agent_fabric.infrastructure.tools.mcp.pins import content_hash


def open_tool_servers(
    config: FabricConfig, origins: Mapping[str, str], environ: Mapping[str, str], resolve: Resolve
) -> LazyToolServers:
    """Return the tool servers of a configuration; for `origins` see `Loaded`. Nothing is started yet.

    `resolve` gives the secrets that are not in the environment.
    """
    return LazyToolServers(
        folder=mcp_folder(environ),
        environ=environ,
        asked_by_project=asked_by_project(config, origins, environ),
        resolve=resolve,
    )


def mcp_folder(environ: Mapping[str, str]) -> Path:
    """Return the user's folder for what is known about tool servers, and for what they write."""
    return (base_folder(environ, "XDG_DATA_HOME", ".local", "share") or temporary_folder()) / "mcp"


def asked_by_project(config: FabricConfig, origins: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return, by `content_hash`, the servers that a project's file asks for, and that file.

    The user's own file, one chosen by FABRIC_CONFIG_PATH, variables, flags and installed packages are the user's doing;
    a file that lies in a project, `.env` too, may have come with it.
    """
    chosen = environ.get(CONFIG_PATH)
    own = Path(os.path.expanduser(chosen)) if chosen else user_file(environ)  # noqa: PTH111 - as the loader has it
    found: dict[str, str] = {}
    for name, specialist in config.specialists.items():
        kind, _, file = origins.get(f"specialists.{name}.mcp_servers", "").partition(" ")
        if kind == "file" and (own is None or file != str(own)):
            found |= {content_hash(server): file for server in specialist.mcp_servers}
    return found
