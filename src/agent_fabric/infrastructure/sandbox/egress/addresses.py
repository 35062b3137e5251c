"""Which addresses may be reached: public ones, and those that the configuration names.

A model chooses the addresses that are fetched, pages choose where they redirect to, and commands choose where they
connect. None of them may reach what only this machine can see: its own servers, its neighbours, the metadata service of
a cloud. `fetch_url`, the egress proxy and through it the browser and the shell all ask the one guard in here.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, NamedTuple

from agent_fabric.config.schema.sandbox import AllowedHost, allowed_host

Address = IPv4Address | IPv6Address
Lookup = Callable[[str, int], Awaitable[Sequence[str]]]
"""Asks the name service for the addresses of a host and port; raises OSError if there are none."""

# Written out, because what `ipaddress` counts as global differs between versions of Python.
_NOT_PUBLIC_V4: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this host
            "10.0.0.0/8",
            "100.64.0.0/10",  # shared by the customers of a provider
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # the host of a machine in Azure
            "169.254.0.0/16",  # link-local; the metadata service of most clouds
            "172.16.0.0/12",
            "192.0.0.0/24",  # protocol assignments; the metadata service of Oracle's cloud
            "192.0.2.0/24",  # documentation
            "192.88.99.0/24",  # relays to IPv6
            "192.168.0.0/16",
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
_PUBLIC_V6: Final = IPv6Network("2000::/3")
"""Everything that is assigned to hosts of the internet; the rest is private, local, multicast or reserved."""
_NOT_PUBLIC_V6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments; among them Teredo, which leads to any IPv4 address
            "2001:db8::/32",  # documentation
            "3fff::/20",  # documentation
        ),
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
_6TO4: Final = IPv6Network("2002::/16")
_NOBODYS: Final = IPv4Address("192.0.2.1")
"""For documentation only: no machine has it."""
_NUMBER: Final = re.compile(r"0x[0-9a-f]*|[0-9]+")


def is_public(address: Address) -> bool:
    """Tell whether an address belongs to the internet, and to no one's own network.

    An IPv6 address that stands for an IPv4 address is as public as that one.
    """
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_V4)
    if address.scope_id is not None:
        return False
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    if address in _6TO4:
        return is_public(IPv4Address(int(address) >> 80 & 0xFFFF_FFFF))
    return address in _PUBLIC_V6 and not any(address in network for network in _NOT_PUBLIC_V6)


def spelled_address(host: str) -> Address | None:
    """Return the IP address that a host is, in whichever way it is written; None if it is a name.

    IPv4 addresses may be written as browsers and system libraries understand them: `127.1`, `0x7f.1`, `2130706433`.

    Raises:
        ValueError: it looks like an IP address and is none.
    """
    if ":" in host:
        return _plain(IPv6Address(host))
    parts = host.removesuffix(".").lower().split(".")
    if not _NUMBER.fullmatch(parts[-1]):
        return None
    *heads, tail = map(_number, parts)
    if len(heads) > 3 or any(head > 255 for head in heads) or tail >= 256 ** (4 - len(heads)):
        raise ValueError(f"{host!r} is no IP address")
    return IPv4Address(tail + sum(head << 8 * (3 - place) for place, head in enumerate(heads)))


def is_own(address: Address) -> bool:
    """Tell whether an address is this machine's own, though it belongs to the internet.

    What listens there may be meant for this machine only. A socket can be bound to nothing but one's own addresses.
    """
    return _can_be_bound(address) and not _can_be_bound(_NOBODYS)  # some systems bind to every address


async def system_lookup(host: str, port: int) -> Sequence[str]:
    """Look a host up as every program on this machine does."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


class AddressGuard:
    """Knows which hosts may be reached."""

    def __init__(
        self,
        allow_hosts: Sequence[str] = (),
        lookup: Lookup = system_lookup,
        *,
        setting: str = "web.allow_hosts",
        is_own: Callable[[Address], bool] = is_own,
    ) -> None:
        self._allowed = [allowed_host(entry) for entry in allow_hosts]
        self._lookup = lookup
        self._is_own = is_own
        self._setting = setting
        """Where a person allows a host; it is named in refusals."""

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        """Look a name up, once, and return its addresses if every one of them may be reached.

        A host that is an IP address, however it is written, is not looked up. A connection must use these
        addresses: a second lookup may answer something else.

        Raises:
            PermissionError: it has an address that may not be reached.
            OSError: it has none at all.
            ValueError: it looks like an IP address and is none.
        """
        spelled = spelled_address(host)
        if spelled is not None:
            self.check(host, port, (spelled,))
            return (spelled,)
        # An address that was found twice, also as IPv4 and inside IPv6, is dialled once.
        answers = await self._lookup(host, port)
        addresses = list(dict.fromkeys(_plain(ip_address(text)) for text in answers))
        if not addresses:
            raise OSError("it has no address")
        self.check(host, port, addresses)
        return addresses

    def check(self, host: str, port: int, addresses: Sequence[Address]) -> None:
        """Check the addresses of a host.

        Raises:
            PermissionError: one of them may not be reached.
        """
        name = host.lower().removesuffix(".")
        if all(self._is_allowed(name, port, each) or self._is_elsewhere(each) for each in addresses):
            return
        raise PermissionError(
            f"{host} is on this machine or a private network, which may not be read. Use a public page instead; "
            f"a person can allow this host in the configuration, under `{self._setting}`."
        )

    def names(self, host: str, port: int) -> bool:
        """Tell whether the configuration names this host itself, rather than the network that it turns out to be in."""
        name = host.lower().removesuffix(".")
        address = spelled_address(name)
        if address is not None:
            return self._is_allowed(name, port, address)
        return any(name == entry.host for entry in self._allowed if entry.port in (None, port))

    def _is_elsewhere(self, address: Address) -> bool:
        return is_public(address) and not self._is_own(address)

    def _is_allowed(self, name: str, port: int, address: Address) -> bool:
        return any(_matches(entry, name, address) for entry in self._allowed if entry.port in (None, port))


def _matches(entry: AllowedHost, name: str, address: Address) -> bool:
    return name == entry.host if isinstance(entry.host, str) else address in entry.host


def _plain(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address wraps, else the address itself."""
    mapped = None if isinstance(address, IPv4Address) else address.ipv4_mapped
    return address if mapped is None else mapped


def _can_be_bound(address: Address) -> bool:
    family = socket.AF_INET if isinstance(address, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):  # Python would also take signs and underscores
        raise ValueError(f"{text!r} is no number")
    if text.startswith("0x"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if text.startswith("0") else 10)


_MAX_NAME: Final = 253
_NAME: Final = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")
_AUTHORITY: Final = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::(.*))?", re.DOTALL)
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")


class Malformed(ValueError):
    """A request that can be understood in more than one way, or in none; the message is for the sender."""


class Endpoint(NamedTuple):
    """A host in its one form, and a port."""

    host: str
    """A name in small letters, without a dot at its end, or an IP address as the system prints it."""
    port: int

    def __str__(self) -> str:
        """Return it as addresses have it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def endpoint_from(authority: str, *, default_port: int | None = None) -> Endpoint:
    """Read `host:port`.

    Raises:
        Malformed: it is no host, no port, or has more in it, such as a user name.
    """
    if "@" in authority:
        raise Malformed("an address with a user name or password in it is not accepted")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise Malformed(f"{_render(authority)} is no host and port")
    host, port = parts.groups()
    if port is None:
        if default_port is None:
            raise Malformed(f"{_render(authority)} names no port")
        return Endpoint(host_from(host), default_port)
    if not _PORT.fullmatch(port) or int(port) > 65_535:
        raise Malformed(f"{_render(port)} is no port")
    return Endpoint(host_from(host), int(port))


def host_from(text: str) -> str:
    """Return a host in its one form; an IPv6 address stands in brackets.

    Raises:
        Malformed: it is none.
    """
    if not text.isascii():
        raise Malformed(f"{_render(text)} is not ASCII; names in other scripts are written as xn--…")
    try:
        if text.startswith("["):
            inner = text[1:-1] if text.endswith("]") else ""
            if "%" in inner:
                raise Malformed(f"{_render(text)} has a scope, which only means something on one machine")
            IPv6Address(inner)
            return str(spelled_address(inner))
        name = text.lower().removesuffix(".")
        if not name or len(name) > _MAX_NAME or not _NAME.fullmatch(name):
            raise Malformed(f"{_render(text)} is no host")
        address = spelled_address(name)
    except Malformed:
        raise
    except ValueError:
        raise Malformed(f"{_render(text)} is no IP address") from None
    return name if address is None else str(address)


def _render(text: str) -> str:
    return ascii(text if len(text) <= 80 else text[:80] + "...")
