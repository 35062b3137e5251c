"""How the command line works."""

from typing import Literal

from agent_fabric.config.schema.values import Settings


class CliConfig(Settings):
    """How the command line works."""

    server: Literal["auto"] | None = None
    """`auto`: commands use the server that runs for this folder, if one does. Not set: they work in this process, and
    mention the server. `--server` and `FABRIC_URL` count more."""
