"""Who may be reached, by name and port, and how much one proxy does.

What the addresses behind a name may be is the address guard's decision.
"""

from dataclasses import field
from typing import Final

from agent_fabric.config.schema.sandbox import EgressConfig
from agent_fabric.config.schema.tools import BrowserConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.policy.allowlists import refuse_domain
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.infrastructure.sandbox.egress.addresses import AddressGuard, Endpoint, Lookup, system_lookup

_MAX_HOSTS: Final = 1_000
_MAX_REPORTS: Final = 200
OTHERS: Final = "others"
"""Under this name everything is counted that comes after very many hosts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressLimits:
    """What one proxy gives, to all its clients together."""

    connections: int = 64
    """At the same time; more are told to come back later."""
    max_bytes: int = 2_000_000_000
    """In both directions, as long as the proxy lives."""
    head_bytes: int = 32 * 1024
    head_s: float = 10.0
    """How long a client may take to say what it wants."""
    connect_s: float = 15.0
    """How long a name and its server may take to answer."""
    idle_s: float = 120.0
    """How long nothing may move on a connection."""
    connection_s: float = 3_600.0
    """How long one connection may live."""


def shell_limits(config: EgressConfig) -> EgressLimits:
    """Return what the commands of one run may use."""
    return EgressLimits(connections=config.max_connections, max_bytes=config.max_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressRefusal:
    """A connection that was not made."""

    host: str
    """Empty if the request was not understood."""
    port: int
    reason: str


@dataclass(slots=True)
class HostUse:
    """What went to one host and came from it."""

    connections: int = 0
    sent: int = 0
    received: int = 0


class LimitReached(Exception):
    """The bytes are used up."""


@dataclass(slots=True)
class EgressRecord:
    """What a proxy has done so far."""

    max_bytes: int
    uses: dict[str, HostUse] = field(default_factory=dict)
    """By `host:port`."""
    total_bytes: int = 0
    """All that has moved."""
    refused: int = 0
    _reported: set[EgressRefusal] = field(default_factory=set)

    @property
    def used_up(self) -> bool:
        """Whether nothing more may move."""
        return self.total_bytes >= self.max_bytes

    def count_connection(self, endpoint: Endpoint) -> HostUse:
        """Count a connection; return where its bytes are counted."""
        key = str(endpoint) if str(endpoint) in self.uses or len(self.uses) < _MAX_HOSTS else OTHERS
        use = self.uses.setdefault(key, HostUse())
        use.connections += 1
        return use

    def count_sent(self, use: HostUse, count: int) -> None:
        """Count what goes to a host.

        Raises:
            LimitReached: it is too much.
        """
        use.sent += count
        self._count(count)

    def count_received(self, use: HostUse, count: int) -> None:
        """Count what comes from a host.

        Raises:
            LimitReached: it is too much.
        """
        use.received += count
        self._count(count)

    def is_news(self, refusal: EgressRefusal) -> bool:
        """Count a refusal; tell whether it is worth a report: the same one twice is not, nor is one of hundreds."""
        self.refused += 1
        if refusal in self._reported or len(self._reported) >= _MAX_REPORTS:
            return False
        self._reported.add(refusal)
        return True

    def refusal_of(self, endpoint: Endpoint) -> str:
        """Return why a host was refused; nothing if it was not."""
        return next((each.reason for each in self._reported if (each.host, each.port) == endpoint), "")

    def _count(self, count: int) -> None:
        self.total_bytes += count
        if self.total_bytes > self.max_bytes:
            raise LimitReached


WEB_PORTS = frozenset({80, 443})
_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressPolicy:
    """The rules of one proxy."""

    allow_domains: tuple[str, ...] | None = ()
    """Names that may be reached: `example.org` is itself, `*.example.org` all that is below it. None: every name."""
    ports: frozenset[int] | None = WEB_PORTS
    """Ports that may be reached. None: every port."""
    allow_hosts: tuple[str, ...] = ()
    """Hosts that may be reached, whatever else is said here, although they are private; as in `web.allow_hosts`."""
    domains_setting: str = "egress.allow_domains"
    """What a person changes to allow more names; it is named in refusals."""
    limits: tuple[Allowlists, ...] = ()
    """Allowlists of the run's agent and of the policy; they hold for private hosts, too."""
    hosts_setting: str = "egress.allow_hosts"
    """What a person changes to allow private hosts."""

    def guard(self, lookup: Lookup = system_lookup) -> AddressGuard:
        """Return what checks the addresses behind the names."""
        return AddressGuard(self.allow_hosts, lookup, setting=self.hosts_setting)

    def objection(self, endpoint: Endpoint, guard: AddressGuard) -> str:
        """Say why a host may not even be looked up; nothing if it may."""
        if reason := refuse_domain(self.limits, endpoint.host):
            return reason
        if guard.names(*endpoint):
            return ""
        if self.ports is not None and endpoint.port not in self.ports:
            allowed = ", ".join(map(str, sorted(self.ports))) or "none"
            return f"port {endpoint.port} of {endpoint.host} may not be reached; ports that may be: {allowed}."
        if self.allow_domains is None or any(covers(domain, endpoint.host) for domain in self.allow_domains):
            return ""
        return (
            f"{endpoint.host} is not among the hosts that may be reached: {self._list_names()}. Do without it; a "
            f"person can add it in the configuration, under `{self.domains_setting}`."
        )

    def _list_names(self) -> str:
        domains = (*(self.allow_domains or ()), *self.allow_hosts)
        more = f" and {len(domains) - _SHOWN} more" if len(domains) > _SHOWN else ""
        return (", ".join(domains[:_SHOWN]) or "there are none") + more


def shell_policy(config: EgressConfig) -> EgressPolicy:
    """Return whom commands may reach where `shell.network` is `allowlist`."""
    return EgressPolicy(
        allow_domains=config.allow_domains, ports=frozenset(config.ports), allow_hosts=config.allow_hosts
    )


def browser_policy(
    config: BrowserConfig, allow_hosts: tuple[str, ...], limits: tuple[Allowlists, ...] = ()
) -> EgressPolicy:
    """Return where pages may come from: as for `fetch_url`, unless the browser is held to some hosts.

    Args:
        config: The browser's settings.
        allow_hosts: The private hosts that pages may come from: `web.allow_hosts`.
        limits: Allowlists that every address must be on.
    """
    return EgressPolicy(
        allow_domains=config.allow_domains or None,
        ports=None,
        allow_hosts=allow_hosts,
        limits=limits,
        domains_setting="browser.allow_domains",
        hosts_setting="web.allow_hosts",
    )


def covers(domain: str, host: str) -> bool:
    """Tell whether an entry of `allow_domains` stands for a host in its one form."""
    domain = domain.lower()
    return host.endswith(domain[1:]) if domain.startswith("*.") else host == domain
