"""Several processes that share one database, and the services between them."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Final
from urllib.parse import urlsplit

from agent_fabric.config.constants import (
    CLUSTER_PATTERN,
    DEFAULT_CLUSTER,
    DEFAULT_LEASE_TTL_S,
    DEFAULT_POOL,
    POOL_PATTERN,
)
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.declared import AfterValidator, Field, Settings, Strict, StringConstraints
from agent_fabric.config.secret_references import NAME

_NATS: Final = frozenset({"nats", "tls"})
_REDIS: Final = frozenset({"redis", "rediss"})
_REFERENCE: Final = re.compile(f"env:({NAME})")


def _nats_url(text: str) -> str:
    if _REFERENCE.fullmatch(text):
        return text
    for address in text.split(","):
        _check(address, _NATS, "'nats://host:4222', several of them with commas between")
    return text


def _redis_url(text: str) -> str:
    if _REFERENCE.fullmatch(text):
        return text
    _check(text, _REDIS, "'redis://host:6379/0', or 'rediss://…' for TLS")
    return text


def _check(address: str, schemes: Collection[str], example: str) -> None:
    try:
        parts = urlsplit(address)
        usable = parts.scheme in schemes and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or not address.isascii() or not address.isprintable() or " " in address:
        raise ConfigProblem(f"must be an address such as {example}")


def _resolve(setting: str, url: str | None, check: Callable[[str], str], environ: Mapping[str, str]) -> str | None:
    found = None if url is None else _REFERENCE.fullmatch(url)
    if found is None:
        return url
    value = environ.get(found[1], "").strip()
    if not value or _REFERENCE.fullmatch(value):
        state = "is a reference itself" if value else "is not set"
        raise ConfigProblem(
            f"{setting} refers to the environment variable {found[1]}, which {state}",
            hint="Put the whole address into it, or leave the setting out.",
        )
    try:
        return check(value)
    except ConfigProblem as problem:
        raise ConfigProblem(
            f"{setting} refers to the environment variable {found[1]}, which {problem.message}"
        ) from None


NatsUrl = Annotated[str, AfterValidator(_nats_url)]
"""One or more addresses of NATS, with commas between: `nats://host:4222`, `tls://user:password@host`; or `env:NAME`."""

RedisUrl = Annotated[str, AfterValidator(_redis_url)]
"""The address of Redis: `redis://host:6379/0`, `rediss://:password@host`; or `env:NAME`."""


class NatsConfig(Settings):
    """NATS, which wakes other servers and workers at once and carries the bus. Needs `agent-fabric[cluster]`."""

    url: NatsUrl | None = None
    """Addresses of one NATS system, with commas between, or `env:NAME`; not set: others are found by polling, once a
    second. A password in it is shown nowhere."""
    replicas: int = Field(default=1, ge=1, le=5)
    """On how many servers of a NATS cluster the messages of the bus are kept: 3 outlive the loss of one."""

    def address(self, environ: Mapping[str, str]) -> str | None:
        """Return the address itself where the setting refers to a variable.

        Raises:
            ConfigProblem: there is no such variable, or no address in it.
        """
        return _resolve("nats.url", self.url, _nats_url, environ)


class RedisConfig(Settings):
    """Redis, which counts and keeps sessions at hand for all servers. Needs `agent-fabric[cluster]`."""

    url: RedisUrl | None = None
    """Its address, or `env:NAME`: for `limits.storage: redis`, and for sessions where `store.url` is set; not set: none
    is used. A password in it is shown nowhere."""

    def address(self, environ: Mapping[str, str]) -> str | None:
        """Return the address itself where the setting refers to a variable.

        Raises:
            ConfigProblem: there is no such variable, or no address in it.
        """
        return _resolve("redis.url", self.url, _redis_url, environ)


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
