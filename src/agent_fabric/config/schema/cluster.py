"""Several processes that share one database."""

from typing import Annotated

from pydantic import Field, Strict, StringConstraints

from agent_fabric.config.constants import (
    CLUSTER_PATTERN,
    DEFAULT_CLUSTER,
    DEFAULT_LEASE_TTL_S,
    DEFAULT_POOL,
    POOL_PATTERN,
)
from agent_fabric.config.schema.values import Settings

PoolName = Annotated[str, StringConstraints(pattern=POOL_PATTERN)]


class ClusterConfig(Settings):
    """Servers and workers that share a PostgreSQL database (`store.url`)."""

    name: Annotated[str, StringConstraints(pattern=CLUSTER_PATTERN)] = DEFAULT_CLUSTER
    """Name of all processes that share a database. Those of two databases may share one NATS and one Redis if their
    names differ: subjects of hints and keys of counters begin with it."""
    label: str = ""
    """What others call this process in `fabric cluster status`; empty: its number and its machine."""
    lease_ttl_s: float = Field(default=DEFAULT_LEASE_TTL_S, ge=1, le=600)
    """Seconds that a process may be away before others take over its runs. It stops by itself a fifth earlier."""
    sweep_s: float = Field(default=1.0, ge=0.1, le=60)
    """Seconds between two looks for runs that have no driver. With `nats.url`, hints come at once."""
    pools: Annotated[tuple[PoolName, ...], Strict(strict=False), Field(min_length=1)] = (DEFAULT_POOL,)
    """The pools of which this process takes up runs. A run is of the pool that its request names, or of `default`."""
    home: str = ""
    """Where workspaces are. Only processes with the same home drive a run; empty: this machine. Machines that share a
    disk for the fabric folder have the same, such as `volume:team`."""
