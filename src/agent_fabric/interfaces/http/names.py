"""How the server may be called, and who is on the same machine."""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address

from agent_fabric.domain.errors import ConfigError

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
"""How this machine may always be called."""


def is_loopback(host: str) -> bool:
    """Return whether an address or name is this machine's own, which no other machine can reach."""
    if host == "localhost":
        return True
    address = _address(host)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address is not None and address.is_loopback


def names_of(host: str, port: int, configured: Iterable[str]) -> frozenset[str]:
    """Return what may stand in the Host header of requests to a server that listens there.

    Raises:
        ConfigError: it listens on every address, and `server.hosts` is not set.
    """
    configured = tuple(configured)
    address = _address(host)
    if address is not None and address.is_unspecified and not configured:
        raise ConfigError(
            f"`server.hosts` must say how the server is called when it listens on {host}",
            hint="List the names under which people reach it: FABRIC_SERVER__HOSTS='[\"fabric.example.org\"]'",
        )
    return frozenset(_spellings((*LOOPBACK_NAMES, _bracket(host), *configured), port))


def url_of(host: str, port: int, *, tls: bool = False) -> str:
    """Return the address of a server that listens there."""
    return f"{'https' if tls else 'http'}://{_bracket(host)}:{port}"


def seen_from_here(host: str) -> str:
    """Return where this machine itself reaches a server that listens there."""
    address = _address(host)
    if address is None or not address.is_unspecified:
        return host
    return "127.0.0.1" if address.version == 4 else "::1"


def _spellings(names: Iterable[str], port: int) -> Iterator[str]:
    for name in names:
        yield name
        yield f"{name}:{port}"


def _bracket(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _address(host: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        return None
