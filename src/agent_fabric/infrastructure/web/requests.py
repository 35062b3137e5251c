"""HttpSender over aiohttp, behind the same guard as pages.

Redirects are followed here, not by aiohttp, so that every address on the way is checked, and so that no other server
gets what was meant for the first.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from agent_fabric.application.ports.http import HttpAnswer, HttpError, HttpRequest
from agent_fabric.application.ports.web import WebError
from agent_fabric.config.schema.tools import WebConfig
from agent_fabric.infrastructure.sandbox.egress.addresses import AddressGuard
from agent_fabric.infrastructure.web.connections import (
    REDIRECTS,
    check,
    guarded_session,
    require_listed,
    short_url,
    web_address,
)
from agent_fabric.infrastructure.web.extract import ContentKind, kind_of, settle_type
from agent_fabric.infrastructure.web.sessions import Sessions, read_up_to, reason_of, tls_failure

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_VALUES: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_OURS: Final = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers that say how a request is sent, not what it says."""
_FOR_EVERYBODY: Final = frozenset({"accept", "accept-language", "user-agent"})
"""Headers that another server than the one that was asked may see."""
_NOT_SPOKEN: Final = frozenset({"CONNECT", "TRACE", "TRACK"})
_KEEPS_METHOD: Final = frozenset({307, 308})


class HttpRequests:
    """HttpSender for http and https."""

    def __init__(self, config: WebConfig, guard: AddressGuard | None = None) -> None:
        self._config = config
        self._guard = guard or AddressGuard(config.allow_hosts)
        self._sessions = Sessions(self._open_session)

    async def send(self, request: HttpRequest, *, timeout_s: float) -> HttpAnswer:
        url = _address(request.url)
        method = _method(request.method)
        headers = dict(_headers(request.headers))
        try:
            async with asyncio.timeout(timeout_s):
                return await self._follow(request, url, method, headers)
        except TimeoutError:
            raise TimeoutError(f"{method} {short_url(url)} took longer than {timeout_s:g} s") from None

    async def aclose(self) -> None:
        """Close every connection."""
        await self._sessions.aclose()

    async def _follow(self, request: HttpRequest, start: URL, method: str, headers: dict[str, str]) -> HttpAnswer:
        url, body = start, request.body
        for _ in range(self._config.max_redirects + 1):
            try:
                require_listed(url, request.limits)
                answer = await self._ask(request, url, method, headers, body)
            except PermissionError as problem:
                if url is start:
                    raise
                raise PermissionError(f"{short_url(start)} redirects to {short_url(url)}. {problem}") from None
            location = answer.headers.get("location", "")
            if answer.status not in REDIRECTS - request.stays_at or not location:
                return answer
            before, url = url, _next(url, location)
            if answer.status not in _KEEPS_METHOD and method != "HEAD":
                method, body = "GET", None
                headers = {name: value for name, value in headers.items() if not name.lower().startswith("content-")}
            if url.origin() != before.origin():
                if body is not None:
                    raise HttpError(
                        f"{short_url(before)} answered {answer.status} and would have the request's body sent to "
                        f"{short_url(url)}. If that is meant, send it there yourself."
                    )
                headers = {name: value for name, value in headers.items() if name.lower() in _FOR_EVERYBODY}
        raise HttpError(
            f"{short_url(start)} redirects more than {self._config.max_redirects} times, at last to {short_url(url)}"
        )

    async def _ask(
        self, request: HttpRequest, url: URL, method: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpAnswer:
        dialled = check(url, self._guard)
        with _explain(url):
            async with self._sessions.current().request(
                method, dialled, headers=headers, data=body, allow_redirects=False
            ) as response:
                data, cut = await read_up_to(response, request.max_bytes)
                declared = response.content_type.lower() if "content-type" in response.headers else ""
                content_type = settle_type(declared, data, response.charset or "")
                return HttpAnswer(
                    url=str(url),
                    status=response.status,
                    reason=_clean(response.reason or ""),
                    headers=_as_mapping(response),
                    content_type=content_type,
                    is_text=kind_of(content_type) is not ContentKind.OTHER or not data,
                    charset=response.charset or "",
                    body=data,
                    cut=cut,
                )

    def _open_session(self) -> aiohttp.ClientSession:
        # No connection is used twice: one that the server has just closed would fail what may not be repeated.
        return guarded_session(
            self._guard,
            {"User-Agent": self._config.user_agent, "Accept": "*/*", "Accept-Encoding": "gzip, deflate"},
            keeps_connections=False,
        )


def _address(text: str) -> URL:
    if "\\" in text:  # a slash for some readers, a character for others
        raise ValueError("the address contains a backslash")
    try:
        return web_address(text)
    except WebError as problem:
        raise ValueError(str(problem)) from None


def _next(url: URL, location: str) -> URL:
    try:
        return _address(str(url.join(URL(_clean(location)))))
    except ValueError as problem:
        raise HttpError(f"{short_url(url)} redirects to an address that cannot be used: {problem}") from None


def _method(text: str) -> str:
    method = text.upper()
    if not _TOKEN.fullmatch(method) or method in _NOT_SPOKEN:
        raise ValueError(f"{text[:50]!r} is not a method that can be used, such as GET or POST")
    return method


def _headers(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in given.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"{name[:50]!r} cannot be the name of a header")
        if name.lower() in _OURS or name.lower().startswith("proxy-"):
            raise ValueError(f"the header {name!r} is set for you; leave it out")
        if _NOT_IN_VALUES.search(value):
            raise ValueError(f"the header {name!r} contains a line break or another character that has no place there")
        yield name, value.strip()


def _as_mapping(response: aiohttp.ClientResponse) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        key, text = _clean(name).lower(), _clean(value)
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _clean(text: str) -> str:
    """Return a text without the stand-ins for bytes that are no text."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


@contextmanager
def _explain(url: URL) -> Iterator[None]:
    """Turn what aiohttp raises into what the port says."""
    place = f"{url.host}:{url.port}"
    try:
        yield
    except aiohttp.ClientConnectorDNSError as problem:
        if isinstance(problem.os_error, PermissionError):
            raise problem.os_error from None
        raise ConnectionError(f"there is no host {url.host!r}: {_reason(problem)}") from None
    except aiohttp.ClientConnectorSSLError as problem:
        raise ConnectionError(tls_failure(problem, place)) from None
    except aiohttp.ClientConnectorCertificateError as problem:
        raise ConnectionError(f"the certificate of {place} is not trusted: {_reason(problem)}") from None
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as problem:
        raise ConnectionError(f"no server answers at {place}: {_reason(problem)}") from None
    except (aiohttp.ClientError, HttpProcessingError, ValueError, OSError) as problem:
        if isinstance(problem, TimeoutError | PermissionError):
            raise
        raise ConnectionError(f"{place} sent no usable answer: {_reason(problem)}") from None


def _reason(problem: BaseException) -> str:
    return problem.message.strip() if isinstance(problem, HttpProcessingError) else reason_of(problem)
