"""How much one proxy does, and what it has done."""

from dataclasses import dataclass, field
from typing import Final

from agent_fabric.config.schema.sandbox import EgressConfig
from agent_fabric.infrastructure.sandbox.egress.hosts import Endpoint

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

    def connected(self, endpoint: Endpoint) -> HostUse:
        """Count a connection; return where its bytes are counted."""
        key = str(endpoint) if str(endpoint) in self.uses or len(self.uses) < _MAX_HOSTS else OTHERS
        use = self.uses.setdefault(key, HostUse())
        use.connections += 1
        return use

    def sent(self, use: HostUse, count: int) -> None:
        """Count what goes to a host.

        Raises:
            LimitReached: it is too much.
        """
        use.sent += count
        self._moved(count)

    def received(self, use: HostUse, count: int) -> None:
        """Count what comes from a host.

        Raises:
            LimitReached: it is too much.
        """
        use.received += count
        self._moved(count)

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

    def _moved(self, count: int) -> None:
        self.total_bytes += count
        if self.total_bytes > self.max_bytes:
            raise LimitReached
