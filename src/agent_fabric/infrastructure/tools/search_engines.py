"""WebSearch by a SearXNG server, or by public search engines through the library ddgs."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urldefrag, urlsplit

import aiohttp
import orjson

from agent_fabric.application.ports.web import SearchHit, WebError
from agent_fabric.infrastructure.threads import on_own_thread
from agent_fabric.infrastructure.web.sessions import Sessions, read_up_to
from agent_fabric.infrastructure.web.url_syntax import problem_with

_MAX_ANSWER_BYTES: Final = 5_000_000
_GO_ON: Final = "Go on without searching, and tell the person."
_ADVICE: Final = {
    403: "Its settings.yml must list `json` under `search: formats:`.",
    404: "Check `web.search_url`: it must be the address of a SearXNG server.",
    429: "Its limiter refuses programs; a person can switch it off for this machine.",
}


class SearxngSearch:
    """WebSearch by one SearXNG server. A person chose it: it may be on this machine or a private network."""

    def __init__(self, search_url: str, *, user_agent: str, timeout_s: float) -> None:
        self._base_url = search_url.rstrip("/")
        self._timeout_s = timeout_s
        self._sessions = Sessions(
            lambda: aiohttp.ClientSession(
                headers={"User-Agent": user_agent, "Accept": "application/json"},
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        )

    async def search(self, query: str, *, limit: int, timeout_s: float) -> Sequence[SearchHit]:
        query = query_from(query)
        allowed_s = min(timeout_s, self._timeout_s)
        try:
            async with asyncio.timeout(allowed_s):
                answer = await self._ask(query)
        except TimeoutError:
            raise WebError(
                f"The search server at {self._base_url} took longer than {allowed_s:g} s. Try once more. {_GO_ON}"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            reason = str(problem) or type(problem).__name__
            raise WebError(f"The search server at {self._base_url} cannot be used: {reason}. {_GO_ON}") from None
        return self._hits(answer, limit)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._sessions.aclose()

    async def _ask(self, query: str) -> bytes:
        async with self._sessions.current().get(
            f"{self._base_url}/search", params={"q": query, "format": "json"}, allow_redirects=False
        ) as response:
            if response.status != 200:
                to = response.headers.get("location")
                advice = f"It is now at {to[:200]}." if to else _ADVICE.get(response.status, "Look at its log.")
                raise WebError(f"The search server at {self._base_url} answered {response.status}. {advice} {_GO_ON}")
            body, _ = await read_up_to(response, _MAX_ANSWER_BYTES)
            return body

    def _hits(self, body: bytes, limit: int) -> Sequence[SearchHit]:
        try:
            answer: Any = orjson.loads(body)
        except ValueError:
            answer = None
        rows = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(rows, list):
            raise WebError(
                f"The server at {self._base_url} did not answer as SearXNG does. Check `web.search_url`. {_GO_ON}"
            )
        hits = hits_from(rows, limit=limit, url_key="url", snippet_key="content")
        silent = answer.get("unresponsive_engines")
        if not hits and isinstance(silent, list) and silent:
            raise WebError(f"Nothing was found, and some engines did not answer: {str(silent)[:300]}. Try other words.")
        return hits


MAX_QUERY_CHARS: Final = 1_000
_MAX_TITLE_CHARS: Final = 300
_MAX_SNIPPET_CHARS: Final = 1_000


def query_from(text: str) -> str:
    """Return a query as engines want it: on one line.

    Raises:
        WebError: it is empty or far too long.
    """
    query = " ".join(text.split())
    if not query:
        raise WebError("The query is empty. Say what to look for.")
    if len(query) > MAX_QUERY_CHARS:
        raise WebError(f"The query is longer than {MAX_QUERY_CHARS} characters. Use a few words.")
    return query


def hits_from(rows: Iterable[Any], *, limit: int, url_key: str, snippet_key: str) -> list[SearchHit]:
    """Return the rows that are pages, each page once and the best first, as the engine ordered them."""
    hits: dict[str, SearchHit] = {}
    for row in rows:
        if len(hits) >= limit:
            break
        url = _address(row, url_key)
        page = urldefrag(url).url.rstrip("/") if url else ""
        if not page or page in hits:
            continue
        title = (_text(row, "title") or url)[:_MAX_TITLE_CHARS]
        hits[page] = SearchHit(title=title, url=url, snippet=_text(row, snippet_key)[:_MAX_SNIPPET_CHARS])
    return list(hits.values())


def _text(row: Any, key: str) -> str:
    value = row.get(key) if isinstance(row, Mapping) else None
    return " ".join(value.split()) if isinstance(value, str) else ""


def _address(row: Any, key: str) -> str:
    """Return the row's web address; nothing if it has none that can be used."""
    value = row.get(key) if isinstance(row, Mapping) else None
    url = value.strip() if isinstance(value, str) else ""
    return url if _is_web_address(url) and not problem_with(url) else ""


def _is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


_ENGINE_TIMEOUT_S: Final = 5
"""How long one engine may take. The library asks several, one after another, and cannot be stopped in between."""
_NOTHING: Final = "No results found."
_INSTEAD: Final = "A person can set `web.search_url` to a SearXNG server, which is more dependable."


class DdgsSearch:
    """WebSearch by whichever public engine answers."""

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    async def search(self, query: str, *, limit: int, timeout_s: float) -> Sequence[SearchHit]:
        query = query_from(query)
        allowed_s = min(timeout_s, self._timeout_s)
        try:
            async with asyncio.timeout(allowed_s):
                rows = await on_own_thread(lambda: _ask(query, limit, allowed_s))
        except TimeoutError:
            raise WebError(f"No search engine answered within {allowed_s:g} s. Try again later. {_INSTEAD}") from None
        return hits_from(rows, limit=limit, url_key="href", snippet_key="body")

    async def aclose(self) -> None:
        """Do nothing: no connection outlives its search."""


def _ask(query: str, limit: int, timeout_s: float) -> list[dict[str, Any]]:
    try:
        from ddgs import DDGS  # noqa: PLC0415 - an optional part, and slow to import
    except ImportError:
        raise WebError(
            "Web search is not set up. Go on without searching, and tell the person: set `web.search_url` to a SearXNG "
            'server, or install a search with: pip install "agent-fabric[search]"'
        ) from None
    try:
        return DDGS(timeout=max(1, min(_ENGINE_TIMEOUT_S, int(timeout_s)))).text(query, max_results=limit)
    except Exception as problem:  # noqa: BLE001 - its engines let through whatever their parsers and clients raise
        if str(problem) == _NOTHING:
            return []
        raise WebError(f"The search engines refused: {str(problem)[:300]}. Try again later. {_INSTEAD}") from None
