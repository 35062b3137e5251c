"""The HTTP server."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.values import SETTINGS

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def _loopback(host: str) -> str:
    if host not in LOOPBACK:
        raise ConfigProblem(
            f"must be {', '.join(LOOPBACK[:-1])} or {LOOPBACK[-1]}: there is no login yet, "
            "so whoever reached the server could run commands as you",
            hint="From another machine, use a tunnel: ssh -L 8787:127.0.0.1:8787 HOST",
        )
    return host


class ServerConfig(BaseModel):
    """How `fabric serve` listens and how much it takes on."""

    model_config = SETTINGS

    host: Annotated[str, AfterValidator(_loopback)] = "127.0.0.1"
    """Address to listen on: `127.0.0.1`, `::1` or `localhost`. Others are refused until there is a login."""
    port: int = Field(default=8787, ge=0, le=65_535)
    """Port to listen on; 0 takes a free one."""
    max_running: int = Field(default=64, ge=1, le=10_000)
    """Runs that are driven at the same time; further ones wait for their turn."""
    max_queued: int = Field(default=1_000, ge=0, le=1_000_000)
    """Runs that may wait for their turn; further ones are refused with status 503."""
    max_body_bytes: int = Field(default=2_000_000, ge=1_000)
    """Largest body of a request; a larger one is refused with status 413."""
    shutdown_timeout_s: float = Field(default=10.0, ge=1, le=3_600)
    """How long stopping may take, whatever hangs. Runs that are under way go on with the next start."""
