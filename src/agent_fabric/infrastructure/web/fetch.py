"""PageFetcher over aiohttp.

Redirects are followed here, not by aiohttp, so that every address on the way is checked.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import aiohttp
from yarl import URL

from agent_fabric.application.ports.web import Page, WebError
from agent_fabric.config.schema.tools import WebConfig
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.infrastructure.sandbox.egress.addresses import AddressGuard
from agent_fabric.infrastructure.threads import on_own_thread
from agent_fabric.infrastructure.web.connections import (
    REDIRECTS,
    check,
    explain_failures,
    guarded_session,
    refusal,
    require_listed,
    short_url,
    unreadable,
    web_address,
)
from agent_fabric.infrastructure.web.extract import ContentKind, ExtractedText, is_told, kind_of, read, settle_type
from agent_fabric.infrastructure.web.sessions import Sessions, read_up_to

_ACCEPT: Final = "text/html,application/xhtml+xml,application/json;q=0.9,text/*;q=0.9,application/xml;q=0.8,*/*;q=0.1"
MAX_FILE_BYTES: Final = 50_000_000
"""Of a file that is returned as it came: half of one is of no use."""


class _Answer(NamedTuple):
    """What the last address on the way said."""

    url: URL
    status: int
    content_type: str
    charset: str
    body: bytes
    cut: bool


class HttpPageFetcher:
    """PageFetcher for http and https."""

    def __init__(self, config: WebConfig, guard: AddressGuard | None = None) -> None:
        self._config = config
        self._guard = guard or AddressGuard(config.allow_hosts)
        self._sessions = Sessions(self._open_session)

    async def fetch(
        self, url: str, *, timeout_s: float, limits: Sequence[Allowlists] = (), files: Collection[str] = ()
    ) -> Page:
        start = web_address(url)
        allowed_s = min(timeout_s, self._config.timeout_s)
        try:
            async with asyncio.timeout(allowed_s):
                answer = await self._follow(start, limits, files)
                reading = (
                    ExtractedText("", "")
                    if answer.content_type in files
                    else await on_own_thread(lambda: read(answer.body, answer.content_type, answer.charset))
                )
        except TimeoutError:
            raise WebError(
                f"{short_url(start)} took longer than {allowed_s:g} s. Use another source, or try again later."
            ) from None
        return Page(
            url=url,
            final_url=str(answer.url),
            status=answer.status,
            content_type=answer.content_type,
            body=answer.body,
            title=reading.title,
            text=reading.text,
            cut=answer.cut or reading.cut,
            source=reading.source,
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self._sessions.aclose()

    async def _follow(self, start: URL, limits: Sequence[Allowlists], files: Collection[str]) -> _Answer:
        """Go where an address leads, through redirects."""
        url, jar, seen = start, aiohttp.CookieJar(), set[tuple[URL, str]]()
        for _ in range(self._config.max_redirects + 1):
            # Some sites set a cookie and send us back to where we were; that is no circle.
            place = (url, jar.filter_cookies(url).output())
            if place in seen:
                raise WebError(
                    f"{short_url(start)} redirects in a circle, back to {short_url(url)}. Use another source."
                )
            seen.add(place)
            try:
                require_listed(url, limits)
                answer = await self._get(url, jar, files)
            except PermissionError as problem:
                if url is start:
                    raise
                raise PermissionError(f"{short_url(start)} redirects to {short_url(url)}. {problem}") from None
            if isinstance(answer, _Answer):
                return answer
            url = answer
        raise WebError(
            f"{short_url(start)} redirects more than {self._config.max_redirects} times, at last to {short_url(url)}. "
            "Use another source."
        )

    async def _get(self, url: URL, jar: aiohttp.CookieJar, files: Collection[str]) -> _Answer | URL:
        """Ask one address; return its answer, or where it sends us."""
        dialled = check(url, self._guard)
        with explain_failures(url):
            async with self._sessions.current().get(
                dialled, allow_redirects=False, cookies=jar.filter_cookies(dialled)
            ) as response:
                jar.update_cookies(response.cookies, dialled)
                if response.status in REDIRECTS or (response.status == 300 and "location" in response.headers):
                    return _next_address(url, response)
                return await self._answer(url, response, files)

    async def _answer(self, url: URL, response: aiohttp.ClientResponse, files: Collection[str]) -> _Answer:
        declared = response.content_type.lower() if "content-type" in response.headers else ""
        charset = response.charset or ""
        if response.status >= 400 or response.status == 304:
            raise await refusal(url, response, declared, charset)
        if is_told(declared) and kind_of(declared) is ContentKind.OTHER and declared not in files:
            raise unreadable(url, declared, response.content_length)
        most = max(self._config.max_bytes, MAX_FILE_BYTES) if declared in files else self._config.max_bytes
        body, cut = await read_up_to(response, most)
        content_type = declared if declared in files else settle_type(declared, body, charset)
        if content_type in files:
            if cut:
                raise WebError(f"{short_url(url)} has more than {most:,} bytes, and half a file cannot be read.")
        elif kind_of(content_type) is ContentKind.OTHER:
            raise unreadable(url, content_type, response.content_length if cut else len(body))
        return _Answer(url, response.status, content_type, charset, body, cut)

    def _open_session(self) -> aiohttp.ClientSession:
        return guarded_session(
            self._guard,
            {
                "User-Agent": self._config.user_agent,
                "Accept": _ACCEPT,
                "Accept-Encoding": "gzip, deflate",
            },
        )


def _next_address(url: URL, response: aiohttp.ClientResponse) -> URL:
    location = response.headers.get("location", "")
    if not location:
        raise WebError(
            f"{short_url(url)} answered {response.status}, a redirect that leads nowhere. Use another source."
        )
    try:
        return web_address(str(url.join(URL(location))))
    except ValueError:
        raise WebError(f"{short_url(url)} redirects to {location[:100]!r}, which is not a web address.") from None
    except WebError as problem:
        raise WebError(f"{short_url(url)} redirects to an address that cannot be used. {problem}") from None
