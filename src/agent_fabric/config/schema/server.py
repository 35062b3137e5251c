"""The HTTP server."""

from ipaddress import ip_network
from typing import Annotated

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.declared import AfterValidator, Field, Settings
from agent_fabric.config.schema.values import Text, Texts


def _networks(entries: tuple[str, ...]) -> tuple[str, ...]:
    for entry in entries:
        try:
            ip_network(entry)
        except ValueError:
            raise ConfigProblem(
                f"has {entry!r}, which is no address and no network",
                hint="Write an address such as 10.0.0.7, or a network such as 10.0.0.0/8.",
            ) from None
    return entries


Networks = Annotated[Texts, AfterValidator(_networks)]
"""Addresses and networks of machines."""


class TlsConfig(Settings):
    """The certificate with which the server shows who it is, if no proxy in front of it does that."""

    certificate: Text
    """File with the certificate and those between it and its authority, as PEM."""
    key: Text
    """File with its private key, as PEM."""


class ServerConfig(Settings):
    """How `fabric serve` listens and how much it takes on."""

    host: Text = "127.0.0.1"
    """Address to listen on. One that other machines can reach is refused until a user or an API key exists."""
    port: int = Field(default=8787, ge=0, le=65_535)
    """Port to listen on; 0 takes a free one."""
    hosts: Texts = ()
    """How the server is called by others, such as `fabric.example.org`; requests for other names are refused."""
    trusted_proxies: Networks = ()
    """Addresses or networks of proxies, such as `10.0.0.0/8`; only they are believed in `X-Forwarded-For`."""
    tls: TlsConfig | None = None
    """Serve HTTPS; not set: plain HTTP, for this machine or a proxy in front."""
    max_running: int = Field(default=64, ge=1, le=10_000)
    """Runs that are driven at the same time; further ones wait for their turn."""
    max_queued: int = Field(default=1_000, ge=0, le=1_000_000)
    """Runs that may wait for their turn; further ones are refused with status 503."""
    max_body_bytes: int = Field(default=2_000_000, ge=1_000)
    """Largest body of a request; a larger one is refused with status 413."""
    shutdown_timeout_s: float = Field(default=10.0, ge=1, le=3_600)
    """How long stopping may take, whatever hangs. Runs that are under way continue with the next start."""
