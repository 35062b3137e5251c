"""After a run has read what strangers wrote: what would carry something out?

Reading further pages is not sending. An address that carries much, or a tool whose effect leaves the box, is.
"""

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from agent_fabric.domain.policy.globs import domain_fits
from agent_fabric.domain.policy.hosts import host_of

MAX_QUERY_CHARS = 200
"""A search or a page number fits in; a file does not."""
MAX_PART_CHARS = 100
"""Longer parts of a path are no names that people give."""
MAX_PATH_CHARS = 400
MAX_HOST_CHARS = 80
"""Names of machines can carry data, too: each lookup of `<data>.example.org` tells its owner."""
_ENCODED = re.compile(r"[A-Za-z0-9+/_=-]{48,}")
_WORDS = re.compile(r"[-_+]")


def carries_data(url: str, allowed_domains: Iterable[str] = ()) -> str:
    """Say how an address carries something out that a page's address would not; empty if it does not."""
    host = host_of(url)
    if not host:
        return ""
    if is_trusted(url, allowed_domains):
        return ""
    parts = urlsplit(url.replace("\\", "/"))
    if "@" in parts.netloc:
        return "its address carries a user name"
    if len(parts.query) + len(parts.fragment) > MAX_QUERY_CHARS:
        return f"its address carries {len(parts.query) + len(parts.fragment)} characters behind the path"
    if len(host) > MAX_HOST_CHARS or any(len(label) > 40 for label in host.split(".")):
        return "the name of its host carries data"
    if len(parts.path) > MAX_PATH_CHARS or any(_is_data(part) for part in parts.path.split("/")):
        return "its path carries data"
    return ""


def is_trusted(url: str, allowed_domains: Iterable[str]) -> bool:
    """Tell whether somebody has allowed the host that an address names."""
    host = host_of(url)
    return bool(host) and any(domain_fits(domain, host) for domain in allowed_domains)


def _is_data(part: str) -> bool:
    """Tell a title from a blob: titles have words."""
    if len(part) <= 48:
        return False
    return len(part) > 2 * MAX_PART_CHARS or any(_ENCODED.fullmatch(word) for word in _WORDS.split(part))


def named_sources(sources: Iterable[str], most: int = 3) -> str:
    """Name where text came from, in a sentence."""
    sources = tuple(dict.fromkeys(sources))
    shown = ", ".join(sources[:most])
    return shown + (f" and {len(sources) - most} more" if len(sources) > most else "")


def only_from(server: str, sources: Iterable[str]) -> bool:
    """Tell whether all text came from the very server that it would go to."""
    words = (re.split(r"[:/\s]+|__", source) for source in sources)
    return all(word[0] == "mcp" and server in word for word in words)
