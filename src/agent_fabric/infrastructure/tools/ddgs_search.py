"""WebSearch by public search engines, through the library ddgs: no account, no server, no promise that it works."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from agent_fabric.application.ports.web import SearchHit, WebError
from agent_fabric.infrastructure.threads import on_own_thread
from agent_fabric.infrastructure.tools.search_results import hits_from, query_from

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
