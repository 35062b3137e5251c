"""Reads hosts and ports so strictly that there is one way to understand them.

A filter and the system's resolver that read the same text differently have let requests through before. So whatever is
not plainly a name or an IP address is refused, and what is accepted is rewritten in one form: that form is checked,
looked up and dialled, and the text as it came is forgotten.
"""

import re
from ipaddress import IPv6Address
from typing import Final, NamedTuple

from agent_fabric.infrastructure.sandbox.egress.addresses import spelled_address

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
