"""How the command line works."""

from typing import Literal

from pydantic import BaseModel

from agent_fabric.config.schema.values import SETTINGS


class CliConfig(BaseModel):
    """How the command line works."""

    model_config = SETTINGS

    server: Literal["auto"] | None = None
    """`auto`: commands use the server that runs for this folder, if one does. Not set: they work in this process, and
    mention the server. `--server` and `FABRIC_URL` count more."""
