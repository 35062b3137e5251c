"""Several processes that share one database."""

from pydantic import Field

from agent_fabric.config.constants import DEFAULT_LEASE_TTL_S
from agent_fabric.config.schema.values import Settings


class ClusterConfig(Settings):
    """Servers and workers that share a PostgreSQL database (`store.url`)."""

    name: str = ""
    """What others call this process in `fabric cluster status`; empty: its number and its machine."""
    lease_ttl_s: float = Field(default=DEFAULT_LEASE_TTL_S, ge=1, le=600)
    """Seconds that a process may be away before others take over its runs. It stops by itself a fifth earlier."""
    sweep_s: float = Field(default=1.0, ge=0.1, le=60)
    """Seconds between two looks for runs that have no driver. With `nats.url`, hints come at once."""
    home: str = ""
    """Where workspaces are. Only processes with the same home drive a run; empty: this machine. Machines that share a
    disk for the fabric folder have the same, such as `volume:team`."""
