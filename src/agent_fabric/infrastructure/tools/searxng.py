"""WebSearch by a SearXNG server, over its JSON API.

A person chose the server, so its address is trusted: it may be on this machine or a private network.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import aiohttp
import orjson

from agent_fabric.application.ports.web import SearchHit, WebError
from agent_fabric.infrastructure.tools.search_results import hits_from, query_from
from agent_fabric.infrastructure.web.sessions import Sessions, read_up_to

_MAX_ANSWER_BYTES: Final = 5_000_000
_GO_ON: Final = "Go on without searching, and tell the person."
_ADVICE: Final = {
    403: "Its settings.yml must list `json` under `search: formats:`.",
    404: "Check `web.search_url`: it must be the address of a SearXNG server.",
    429: "Its limiter refuses programs; a person can switch it off for this machine.",
}


class SearxngSearch:
    """WebSearch by one SearXNG server."""

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
