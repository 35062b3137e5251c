"""The network, as far as commands may use it."""

import re
from ipaddress import ip_address
from typing import Annotated, Final

from pydantic import AfterValidator, Field, Strict

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.values import Settings
from agent_fabric.config.schema.web import AllowedHosts

_DOMAIN: Final = re.compile(r"(\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)+(?!\d+$)[a-z0-9-]{2,63}")


def _domain(entry: str) -> str:
    domain = entry.lower().removesuffix(".")
    if not domain.isascii():
        raise ConfigProblem("must be written in ASCII", hint="Write names in other scripts as xn--…")
    if _DOMAIN.fullmatch(domain) and len(domain) <= 253:
        if domain.startswith("*.") and domain.count(".") < 2:
            raise ConfigProblem("is too wide: it would allow a whole top-level domain")
        return domain
    try:
        return str(ip_address(domain))
    except ValueError:
        raise ConfigProblem(
            "must be a name such as 'pypi.org', or '*.example.org' for everything below it",
            hint="Write no http://, no port and no path. Private hosts belong under `egress.allow_hosts`.",
        ) from None


Domains = Annotated[tuple[Annotated[str, AfterValidator(_domain)], ...], Strict(strict=False)]
"""Names of hosts, and with `*.` of everything below a name."""
Port = Annotated[int, Field(ge=1, le=65_535)]


class EgressConfig(Settings):
    """Which hosts commands may reach where `shell.network` is `allowlist`."""

    allow_domains: Domains = ()
    """Hosts that commands may reach: `pypi.org` is that one host, `*.example.org` everything below it. Addresses that
    are private are refused, whatever name they have."""
    ports: Annotated[tuple[Port, ...], Strict(strict=False)] = (80, 443)
    """Ports that commands may reach."""
    allow_hosts: AllowedHosts = ()
    """Hosts that commands may reach although they are on this machine or a private network, on any port unless one is
    named: `registry.corp`, `localhost:8080`, `10.1.2.3`. For a network such as `10.0.0.0/8`, a name in it must also be
    under `allow_domains`."""
    max_bytes: int = Field(default=2_000_000_000, ge=1_000)
    """How much the commands of one run may send and receive, together."""
    max_connections: int = Field(default=64, ge=1, le=1_000)
    """How many connections the commands of one run may have at once."""
