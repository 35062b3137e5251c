"""Who may be reached, by name and port. What the addresses behind a name may be is the address guard's decision."""

from dataclasses import dataclass

from agent_fabric.config.schema.sandbox import EgressConfig
from agent_fabric.config.schema.tools import BrowserConfig
from agent_fabric.domain.policy.allowlists import refuse_domain
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.infrastructure.sandbox.egress.addresses import AddressGuard, Lookup, system_lookup
from agent_fabric.infrastructure.sandbox.egress.hosts import Endpoint

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
    """What a person changes to allow more names; whoever is refused is told."""
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
            f"{endpoint.host} is not among the hosts that may be reached: {self._listed()}. Do without it; a person "
            f"can add it in the configuration, under `{self.domains_setting}`."
        )

    def _listed(self) -> str:
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
