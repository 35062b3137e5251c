"""What makes a server the same server."""

import hashlib
import json

from agent_fabric.config.schema.tools import MCPServerConfig


def content_hash(server: MCPServerConfig) -> str:
    """Identify everything that the configuration says about a server; references to secrets stay references."""
    return _hash(server.model_dump(mode="json"))


def identity(server: MCPServerConfig) -> str:
    """Identify the program or address behind a server's name, whatever else is configured for it."""
    return _hash({"transport": server.transport, "command": server.command, "url": server.url})


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
