"""Machines that addresses and words name."""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_REMOTE = re.compile(r"(?:[^/@\s:]+@)?([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|\[[0-9a-fA-F:.]+\]):(?!//)")
_USER = re.compile(r"(?<=//)[^/?#]*@")
_NAME = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}(?::\d+)?(?:/\S*)?")


def host_of(url: str) -> str:
    """Return the host that an address names, in small letters; empty if none can be read from it."""
    # Browsers read a backslash as a slash, urlsplit does not.
    url = url.replace("\\", "/")
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:  # as brackets in place of a user's hidden password are
        bare = _USER.sub("", url)
        return host_of(bare) if bare != url else ""


def hosts_in(words: Iterable[str]) -> list[str]:
    """Return the hosts that words of a command name: in addresses, as `user@host:path`, or plainly."""
    found: list[str] = []
    for word in words:
        if addresses := _ADDRESS.findall(word):
            found.extend(host for address in addresses if (host := host_of(address)))
        elif remote := _REMOTE.match(word):
            found.append(remote[1].lower())
        elif "." in word and _NAME.fullmatch(word):
            found.append(word.partition("/")[0].partition(":")[0].lower())
    return found
