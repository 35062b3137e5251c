"""Servers that speak HTTP, seen from the tools that use them."""

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.tools.allowlists import Allowlists


class HttpError(Exception):
    """A server answered, but not with what was asked for; the message says what it answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    max_bytes: int
    """How much of the answer's body is read, after decompression."""
    stays_at: frozenset[int] = frozenset()
    """Redirects that are not followed: they are the answer."""
    limits: tuple[Allowlists, ...] = ()
    """Allowlists that every address on the way must be on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """What the last server on the way answered."""

    url: str
    status: int
    reason: str
    headers: Mapping[str, str]
    """By their names in small letters."""
    content_type: str
    """Without parameters; what the content looks like if the server did not say."""
    is_text: bool
    charset: str
    body: bytes
    """Decompressed."""
    cut: bool
    """There was more of it than wanted."""


class HttpSender(Protocol):
    """Makes requests, never to anything on this machine or its network unless the configuration names it.

    May be used concurrently. Nothing is kept between two requests: no cookies, no connections.
    """

    async def send(self, request: HttpRequest, *, timeout_s: float) -> HttpAnswer:
        """Make a request and follow redirects; every status is an answer.

        What a redirect to another origin gets is the address: no headers of ours, no body.

        Raises:
            PermissionError: the address, or one that it leads to, is not for this program to reach.
            ValueError: the address or a header is none.
            ConnectionError: no one answered, or nothing that can be understood.
            TimeoutError: not in time.
            HttpError: the redirects lead nowhere.
        """
        ...
