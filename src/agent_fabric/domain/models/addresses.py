"""Addresses of this machine. Names are not looked up: they may mean something else a moment later."""

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Tell whether a host name means this machine."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_local_url(url: str) -> bool:
    """Tell whether a URL leads to this machine."""
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False
