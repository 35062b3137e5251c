"""How web servers are reached, only at addresses that the guard has checked, and what went wrong with a page.

Names are looked up by a resolver that hands out checked addresses only: what was checked is what is dialled, and
nothing in between can change it. Proxies from the environment are not used, because they would do the dialling. What
went wrong is told in words for the model: what happened, and what to do instead.
"""

import re
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.http_exceptions import ContentEncodingError, HttpProcessingError
from yarl import URL

from agent_fabric.application.ports.web import WebError
from agent_fabric.domain.policy.allowlists import refuse_domain
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.infrastructure.sandbox.egress.addresses import AddressGuard, spelled_address
from agent_fabric.infrastructure.threads import on_own_thread
from agent_fabric.infrastructure.web.extract import ContentKind, kind_of, read, settle_type
from agent_fabric.infrastructure.web.sessions import read_up_to, reason_of, tls_failure
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


_ERROR_BYTES: Final = 64 * 1024
_QUOTED_CHARS: Final = 300
"""How much of an error page the model is told."""
_ADVICE: Final = {
    401: "It wants a login. Use another source.",
    403: "It keeps programs out. Use another source.",
    404: "There is no such page. Check the address, or search for the page.",
    410: "The page was removed. Use another source.",
    429: "It wants fewer requests. Use another source, or try again later.",
    451: "It may not be shown for legal reasons. Use another source.",
}


async def refusal(url: URL, response: aiohttp.ClientResponse, content_type: str, charset: str) -> WebError:
    """Say that a server refused, and how it put it."""
    body, _ = await read_up_to(response, _ERROR_BYTES)
    content_type = settle_type(content_type, body, charset)
    said = ""
    if kind_of(content_type) is not ContentKind.OTHER:
        reading = await on_own_thread(lambda: read(body, content_type, charset))
        said = " ".join(f"{reading.title} {reading.text}".split())[:_QUOTED_CHARS]
    otherwise = "Use another source, or try again later." if response.status >= 500 else "Use another source."
    advice = _ADVICE.get(response.status, otherwise)
    reason = f" {response.reason}" if response.reason else ""
    return WebError(
        f"{short_url(url)} answered {response.status}{reason}. {advice}" + (f" It said: {said}" if said else "")
    )


def unreadable(url: URL, content_type: str, size: int | None) -> WebError:
    """Say that a content is nothing to read."""
    name = "a PDF" if content_type == "application/pdf" else "not text"
    length = "of unknown size" if size is None else f"{size:,} bytes"
    return WebError(
        f"{short_url(url)} is {name} ({content_type}, {length}) and cannot be read. "
        "Look for the same content as a web page, such as its abstract or its HTML version."
    )


@contextmanager
def explain_failures(url: URL) -> Iterator[None]:
    """Turn what aiohttp raises into words for the model."""
    host = url.host or ""
    try:
        yield
    except aiohttp.ClientConnectorDNSError as problem:
        if isinstance(problem.os_error, PermissionError):
            raise problem.os_error from None
        raise WebError(f"There is no host {host!r}. Check the address, or search for the page.") from None
    except aiohttp.ClientConnectorSSLError as problem:
        raise WebError(f"{tls_failure(problem, f'{host}:{url.port}')}. Use another source.") from None
    except aiohttp.ClientConnectorCertificateError as problem:
        raise WebError(f"The certificate of {host!r} is not trusted: {_reason(problem)}. Use another source.") from None
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as problem:
        raise WebError(
            f"No server answers at {host}:{url.port}: {_reason(problem)}. Use another source, or try again later."
        ) from None
    except (aiohttp.ClientError, HttpProcessingError, ValueError, OSError) as problem:
        if isinstance(problem, TimeoutError):
            raise
        if isinstance(problem, ContentEncodingError) or isinstance(problem.__cause__, ContentEncodingError):
            raise WebError(
                f"{short_url(url)} sent compressed content that is broken and cannot be unpacked. Use another source."
            ) from None
        raise WebError(f"{short_url(url)} sent no usable answer: {_reason(problem)}. Use another source.") from None


def short_url(url: URL) -> str:
    """Return an address as it is shown: a very long one is cut."""
    text = str(url)
    return text if len(text) <= 200 else text[:200] + "…"


def _reason(problem: BaseException) -> str:
    return problem.message.strip() if isinstance(problem, HttpProcessingError) else reason_of(problem)
