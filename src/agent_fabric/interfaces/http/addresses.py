"""Where a request comes from."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from starlette.types import Scope

from agent_fabric.interfaces.http.names import is_loopback

_Address = IPv4Address | IPv6Address
MAX_HOPS = 16
"""Entries of `X-Forwarded-For` that are looked at, from the end."""


class Addresses:
    """Tells who is behind a request, as far as it can be believed.

    `X-Forwarded-For` counts only when a proxy of ours has sent the request: its own entry is the last, and entries
    before it are believed as long as they are of such proxies, too. Other clients could write there what they like.
    """

    def __init__(self, trusted_proxies: Iterable[str] = ()) -> None:
        self._trusted: Sequence[IPv4Network | IPv6Network] = [ip_network(each) for each in trusted_proxies]

    def source(self, scope: Scope) -> str:
        """Return what stands for the sender of a request: an IPv4 address, or an IPv6 network of one customer.

        Empty when it is a program of this machine.
        """
        peer = scope["client"][0] if scope.get("client") else ""
        forwarded = [value for name, value in scope["headers"] if name == b"x-forwarded-for"]
        if not forwarded:
            return _known_peer(peer)
        address = _address(peer)
        if address is None or not self._trusts(address):
            return _name_of(peer)  # an unknown proxy, or a forged header: never this machine's own program
        for entry in reversed(b",".join(forwarded).decode("latin-1").split(",")[-MAX_HOPS:]):
            found = _address(entry.strip())
            if found is None:
                break
            address = found
            if not self._trusts(found):
                break
        return _name_of(str(address))

    def _trusts(self, address: _Address) -> bool:
        return any(address in network for network in self._trusted)


@lru_cache(maxsize=4096)
def _known_peer(peer: str) -> str:
    return "" if not peer or is_loopback(peer) else _name_of(peer)


@lru_cache(maxsize=4096)
def _name_of(text: str) -> str:
    address = _address(text)
    if isinstance(address, IPv6Address):
        # A client has at least a network of this size to itself, and could use a new address for each request.
        return str(IPv6Network((address, 64), strict=False))
    return text if address is None else str(address)


def _address(text: str) -> _Address | None:
    host = text[1:].partition("]")[0] if text.startswith("[") else text.partition("%")[0]
    if host.count(":") == 1:  # an IPv4 address with its port
        host = host.partition(":")[0]
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped
