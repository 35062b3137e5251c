"""Services that many servers and workers share. One machine needs none of them."""

from collections.abc import Collection
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.values import Settings

_NATS: Final = frozenset({"nats", "tls"})
_REDIS: Final = frozenset({"redis", "rediss"})


def _nats_url(text: str) -> str:
    for address in text.split(","):
        _check(address, _NATS, "'nats://host:4222', several of them with commas between")
    return text


def _redis_url(text: str) -> str:
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


NatsUrl = Annotated[str, AfterValidator(_nats_url)]
"""One or more addresses of NATS, with commas between: `nats://host:4222`, `tls://user:password@host`."""

RedisUrl = Annotated[str, AfterValidator(_redis_url)]
"""The address of Redis: `redis://host:6379/0`, `rediss://:password@host`."""


class NatsConfig(Settings):
    """NATS, which wakes other servers and workers at once and carries the bus. Needs `agent-fabric[cluster]`."""

    url: NatsUrl | None = None
    """Addresses of one NATS system, with commas between; not set: others are found by polling, once a second. A
    password in it is shown nowhere."""
    replicas: int = Field(default=1, ge=1, le=5)
    """On how many servers of a NATS cluster the messages of the bus are kept: 3 outlive the loss of one."""


class RedisConfig(Settings):
    """Redis, which counts for all servers together. Needs `agent-fabric[cluster]`."""

    url: RedisUrl | None = None
    """Its address, for `limits.storage: redis`; not set: none is used. A password in it is shown nowhere."""
