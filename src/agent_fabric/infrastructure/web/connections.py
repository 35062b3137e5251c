"""How web servers are reached: only at addresses that the guard has checked.

Names are looked up by a resolver that hands out checked addresses only: what was checked is what is dialled, and
nothing in between can change it. Proxies from the environment are not used, because they would do the dialling.
"""

import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from agent_fabric.application.ports.web import WebError
from agent_fabric.domain.policy.allowlists import refuse_domain
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.infrastructure.sandbox.egress.addresses import AddressGuard, spelled_address
from agent_fabric.infrastructure.web.url_syntax import problem_with

CONNECT_TIMEOUT_S: Final = 10.0
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_MAX_HEADER_BYTES: Final = 64 * 1024
"""Some sites send policies and cookies that aiohttp's own limit of 8 KB refuses."""
_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*\.?")


def guarded_session(
    guard: AddressGuard, headers: Mapping[str, str], *, keeps_connections: bool = True
) -> aiohttp.ClientSession:
    """Open a session that connects to checked addresses only, and that keeps no cookies."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            resolver=CheckedResolver(guard),
            use_dns_cache=False,
            ssl=ssl.create_default_context(),
            force_close=not keeps_connections,
        ),
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        max_line_size=_MAX_HEADER_BYTES,
        max_field_size=_MAX_HEADER_BYTES,
    )


def require_listed(url: URL, limits: Sequence[Allowlists]) -> None:
    """Check an address against the domain allowlists of a call.

    Raises:
        PermissionError: it is not on one of them.
    """
    if reason := refuse_domain(limits, (url.host or "").rstrip(".")):
        raise PermissionError(reason)


def check(url: URL, guard: AddressGuard) -> URL:
    """Check an address that is spelled out as numbers; names are checked when they are looked up.

    Raises:
        PermissionError: it may not be reached.
    """
    host = url.raw_host or ""
    address = spelled_address(host)
    if address is None:
        return url
    guard.check(host, url.port or 0, (address,))
    return url.with_host(str(address))


class CheckedResolver(AbstractResolver):
    """Gives aiohttp the addresses that the guard has checked, and no others."""

    def __init__(self, guard: AddressGuard) -> None:
        self._guard = guard

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 - aiohttp leaves out what it does not want
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in await self._guard.resolve(host, port)
        ]

    async def close(self) -> None:
        pass


def web_address(text: str) -> URL:
    """Read an address that someone wrote.

    Raises:
        WebError: it is none that can be fetched.
    """
    shown = repr(text if len(text) <= 100 else text[:100] + "…")
    if flaw := problem_with(text.strip()):
        raise WebError(f"{shown} is not a web address: {flaw}. Check it, or search for the page.")
    try:
        url = URL(text.strip())
        host = url.raw_host or ""
        is_host = spelled_address(host) is not None or _NAME.fullmatch(host) is not None
    except ValueError as problem:
        raise WebError(f"{shown} is not a web address: {problem}. Check it, or search for the page.") from None
    if url.scheme not in ("http", "https") or not url.port or not is_host:
        raise WebError(f"{shown} is not a web address. Give the whole of it, with http:// or https://.")
    if url.user is not None or url.password is not None:
        raise WebError("An address with a user name or password in it is not fetched. Leave them out.")
    return url.with_fragment(None)
