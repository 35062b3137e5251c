"""The box around commands: how strong it must be, how much fits into it, and which hosts it reaches."""

import re
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Annotated, Final, Literal, NamedTuple, Self

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.declared import AfterValidator, Field, Settings, Strict, model_validator
from agent_fabric.config.schema.values import SECTION, Text, Texts

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
_PARTS: Final = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]+))(?::([0-9]{1,5}))?")
_NAME: Final = re.compile(r"(?:[a-z0-9_-]{1,63}\.)*(?!\d+$|0x[0-9a-f]*$)[a-z0-9_-]{1,63}")
"""A host's name. One that ends in a number would be read as an IP address."""


class AllowedHost(NamedTuple):
    """A host, or a network of hosts, that may be reached although it is private."""

    host: str | IPv4Network | IPv6Network
    port: int | None
    """The one port that is meant; None: every port."""


def allowed_host(entry: str) -> AllowedHost:
    """Read an entry of `allow_hosts`.

    Raises:
        ConfigProblem: it is neither a host nor a network.
    """
    text = entry.lower()
    try:
        return AllowedHost(ip_network(text), None)
    except ValueError:
        pass  # the usual case: a name, or an address with a port
    parts = _PARTS.fullmatch(text)
    try:
        if parts is None:
            raise ValueError
        bracketed, host, port = parts.groups()
        number = None if port is None else int(port)
        if number is not None and not 0 < number < 65_536:
            raise ValueError
        if bracketed is not None:
            return AllowedHost(IPv6Network(bracketed), number)
        name = host.removesuffix(".")
        return AllowedHost(name if _NAME.fullmatch(name) else IPv4Network(host), number)
    except ValueError:
        raise ConfigProblem(
            "must be a host, an IP address or a network, such as 'wiki.corp', 'localhost:8080' or '10.0.0.0/8'",
            hint="Write no http://, no path and no *. Each name must be given in full.",
        ) from None


def _entry(entry: str) -> str:
    allowed_host(entry)
    return entry


AllowedHosts = Annotated[tuple[Annotated[str, AfterValidator(_entry)], ...], Strict(strict=False)]
"""Hosts and networks that may be reached although they are private."""
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


class SandboxLimits(Settings):
    """How much the commands of one run may use. How long one may take is `shell.timeout_s`."""

    processes: int = Field(default=256, ge=8, le=100_000)
    """Processes and threads at once."""
    memory_mb: int = Field(default=2048, ge=64)
    """Memory of one process."""
    total_memory_mb: int = Field(default=2560, ge=64)
    """Memory of all processes together."""
    file_size_mb: int = Field(default=512, ge=1)
    """Size of one file."""
    total_disk_mb: int = Field(default=1024, ge=1)
    """What a run may add to its workspace, all files together; its private /tmp may hold as much again."""
    files: int = Field(default=500_000, ge=100)
    """Files and folders that a run may make or change in its workspace."""
    depth: int = Field(default=100, ge=10, le=200)
    """Levels of folders in a workspace."""


class SandboxConfig(Settings):
    """The box in which a run's commands are kept."""

    level: Literal["auto", "A", "A+", "B", "C"] = "auto"
    """`auto`: the strongest that works here. One that is named and does not work is an error, never lowered."""
    uid: int = Field(default=64_000, ge=1, lt=2**32 - 1)
    """The user that commands run as when fabric itself was started as root. Commands never run as root."""
    limits: SandboxLimits = SECTION
    """How much the commands of one run may use."""
    image: Text | None = None
    """The container image of level `A+`. A specialist's own `container_image` goes before it."""
    container_engine: Texts = ()
    """The command that starts containers, with its general options; not set: podman, else docker."""

    @model_validator(mode="after")
    def _a_container_has_an_image(self) -> Self:
        if self.level == "A+" and self.image is None:
            raise ConfigProblem("level A+ needs `image`: the container image in which commands run")
        return self
