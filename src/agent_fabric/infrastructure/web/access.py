"""Web access as the configuration describes it.

Importing this is cheap. Each part is built when it is first asked for: that imports aiohttp, which takes a third of a
second and which most runs do not need.
"""

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from agent_fabric.application.ports.web import Page, SearchHit
from agent_fabric.config.schema.tools import WebConfig
from agent_fabric.domain.tools.allowlists import Allowlists

if TYPE_CHECKING:
    from agent_fabric.application.ports.http import HttpAnswer, HttpRequest
    from agent_fabric.infrastructure.tools.search_engines import DdgsSearch, SearxngSearch
    from agent_fabric.infrastructure.web.fetch import HttpPageFetcher
    from agent_fabric.infrastructure.web.requests import HttpRequests


class LazyWeb:
    """PageFetcher, WebSearch and HttpSender that stands in until it is used."""

    def __init__(self, config: WebConfig) -> None:
        self._config = config

    async def fetch(
        self, url: str, *, timeout_s: float, limits: Sequence[Allowlists] = (), files: Collection[str] = ()
    ) -> Page:
        return await self._fetcher.fetch(url, timeout_s=timeout_s, limits=limits, files=files)

    async def search(self, query: str, *, limit: int, timeout_s: float) -> Sequence[SearchHit]:
        return await self.search_engine.search(query, limit=limit, timeout_s=timeout_s)

    async def send(self, request: "HttpRequest", *, timeout_s: float) -> "HttpAnswer":
        return await self._requests.send(request, timeout_s=timeout_s)

    async def aclose(self) -> None:
        """Close what was opened."""
        for name in ("_fetcher", "search_engine", "_requests"):
            if name in vars(self):
                await vars(self)[name].aclose()

    @cached_property
    def search_engine(self) -> "SearxngSearch | DdgsSearch":
        """The search that the configuration chooses."""
        from agent_fabric.infrastructure.tools.search_engines import DdgsSearch, SearxngSearch  # noqa: PLC0415 - slow

        config = self._config
        if config.search_url is None or config.search_provider == "ddgs":
            return DdgsSearch(timeout_s=config.timeout_s)
        return SearxngSearch(config.search_url, user_agent=config.user_agent, timeout_s=config.timeout_s)

    @cached_property
    def _fetcher(self) -> "HttpPageFetcher":
        from agent_fabric.infrastructure.web.fetch import HttpPageFetcher  # noqa: PLC0415 - slow

        return HttpPageFetcher(self._config)

    @cached_property
    def _requests(self) -> "HttpRequests":
        from agent_fabric.infrastructure.web.requests import HttpRequests  # noqa: PLC0415 - slow

        return HttpRequests(self._config)
