"""Remembers which servers of a project's own configuration a person has agreed to.

A project that was handed over may bring a configuration file. A command or an address in it must do nothing by itself.
"""

from collections.abc import Mapping
from pathlib import Path

from agent_fabric.config.schema.mcp import MCPServerConfig
from agent_fabric.domain.errors import ToolServerUnavailable
from agent_fabric.infrastructure.tools.mcp.identity import content_hash
from agent_fabric.infrastructure.tools.mcp.shared_json_file import SharedJsonFile


class ProjectServers:
    """The servers that a project's file asks for, and what a person said about them."""

    def __init__(self, folder: Path, asked_by: Mapping[str, str]) -> None:
        """Take the folder for what is remembered and, by `content_hash`, the project file that asks for a server."""
        self._file = SharedJsonFile(folder / "project-servers.json")
        self._asked_by = asked_by

    def file_of(self, server: MCPServerConfig) -> str:
        """Return the project's file that asks for a server; empty: the user's own configuration does."""
        return self._asked_by.get(content_hash(server), "")

    def agreed(self, server: MCPServerConfig) -> bool:
        """Tell whether it may be started or reached."""
        file = self.file_of(server)
        return not file or content_hash(server) in self._file.read().get(file, {})

    def agree(self, server: MCPServerConfig) -> None:
        """Remember that a person agreed to exactly this entry of exactly this file."""
        file = self.file_of(server)
        if file:
            with self._file.changing() as content:
                content.setdefault(file, {})[content_hash(server)] = server.name

    def require_agreed(self, server: MCPServerConfig) -> None:
        """Make sure that nothing is started because of a file that came with a project.

        Raises:
            ToolServerUnavailable: nobody has agreed to it.
        """
        if not self.agreed(server):
            raise ToolServerUnavailable(
                f"the project's file {self.file_of(server)} asks for it, and you have not trusted it yet",
                hint=f"Look at the entry; if you want it: fabric mcp trust {server.name}",
            )
