"""Reading and searching the web."""

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field, Strict, model_validator

from agent_fabric.config.problems import ConfigProblem
from agent_fabric.config.schema.values import BaseAddress, HeaderValue, Settings

_PARTS: Final = re.compile(r"(?:\[([^\[\]]*)\]|([^:\[\]]+))(?::([0-9]{1,5}))?")
_NAME: Final = re.compile(r"(?:[a-z0-9_-]{1,63}\.)*(?!\d+$|0x[0-9a-f]*$)[a-z0-9_-]{1,63}")
"""A host's name. One that ends in a number would be read as an IP address."""


class AllowedHost(NamedTuple):
    """A host, or a network of hosts, that may be reached although it is private."""

    host: str | IPv4Network | IPv6Network
    port: int | None
    """The one port that is meant; None: every port."""


def allowed_host(entry: str) -> AllowedHost:
    """Read an entry of `allow_hosts`.

    Raises:
        ConfigProblem: it is neither a host nor a network.
    """
    text = entry.lower()
    try:
        return AllowedHost(ip_network(text), None)
    except ValueError:
        pass  # the usual case: a name, or an address with a port
    parts = _PARTS.fullmatch(text)
    try:
        if parts is None:
            raise ValueError
        bracketed, host, port = parts.groups()
        number = None if port is None else int(port)
        if number is not None and not 0 < number < 65_536:
            raise ValueError
        if bracketed is not None:
            return AllowedHost(IPv6Network(bracketed), number)
        name = host.removesuffix(".")
        return AllowedHost(name if _NAME.fullmatch(name) else IPv4Network(host), number)
    except ValueError:
        raise ConfigProblem(
            "must be a host, an IP address or a network, such as 'wiki.corp', 'localhost:8080' or '10.0.0.0/8'",
            hint="Write no http://, no path and no *. Each name must be given in full.",
        ) from None


def _entry(entry: str) -> str:
    allowed_host(entry)
    return entry


AllowedHosts = Annotated[tuple[Annotated[str, AfterValidator(_entry)], ...], Strict(strict=False)]
"""Hosts and networks that may be reached although they are private."""


class WebConfig(Settings):
    """How pages are found and read."""

    search_provider: Literal["auto", "searxng", "ddgs"] = "auto"
    """Who is asked: `searxng`, the server at `search_url`; `ddgs`, public search engines without an account (install
    the extra `search`); `auto`, the first if `search_url` is set, else the second."""
    search_url: BaseAddress | None = None
    """Address of a SearXNG server whose settings allow the format `json`; `/search` is added to it."""
    allow_hosts: AllowedHosts = ()
    """Hosts that may be read although they are on this machine or a private network: `wiki.corp`, `localhost:8080`,
    `10.1.2.3` or a network such as `10.0.0.0/8`. All other private addresses are refused."""
    exposed_fetches: int = Field(default=20, ge=0, le=1_000)
    """How many addresses that it found on pages and in search results a run may open without a question, once it has
    read both untrusted text and private data. Addresses in the task count for `exposed_task_calls`."""
    exposed_task_calls: int = Field(default=40, ge=0, le=1_000)
    """How many calls such a run may make without a question with addresses and arguments that stand in the task."""
    exposed_searches: int = Field(default=20, ge=0, le=1_000)
    """How many searches such a run may make without a question."""
    exposed_query_chars: int = Field(default=200, ge=0, le=1_000)
    """How long each of these searches may be."""
    max_bytes: int = Field(default=5_000_000, ge=1_000, le=100_000_000)
    """How much of a page is read, in bytes after decompression; the rest is left out."""
    timeout_s: float = Field(default=20.0, gt=0, le=3_600)
    """How long one page or one search may take, redirects and all."""
    max_redirects: int = Field(default=5, ge=0, le=20)
    """How often a page may send us on to another address."""
    user_agent: HeaderValue = Field(default="Mozilla/5.0 (compatible; agent-fabric)", min_length=1)
    """How we introduce ourselves to web servers."""

    @model_validator(mode="after")
    def _knows_whom_to_ask(self) -> Self:
        if self.search_provider == "searxng" and self.search_url is None:
            raise ConfigProblem("needs 'search_url' because its search_provider is 'searxng'")
        return self
