"""Web access that is built when the first page or search is asked for: most runs never need it."""

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from agent_fabric.application.ports.web import Page, SearchHit
from agent_fabric.config.schema.tools import WebConfig
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.infrastructure.web.access import WebAccess, build_web

if TYPE_CHECKING:
    from agent_fabric.application.ports.http import HttpAnswer, HttpRequest


class LazyWeb:
    """PageFetcher, WebSearch and HttpSender that stands in until it is used."""

    def __init__(self, config: WebConfig) -> None:
        self._config = config

    @cached_property
    def _access(self) -> WebAccess:
        return build_web(self._config)

    async def fetch(
        self, url: str, *, timeout_s: float, limits: Sequence[Allowlists] = (), files: Collection[str] = ()
    ) -> Page:
        return await self._access.fetcher.fetch(url, timeout_s=timeout_s, limits=limits, files=files)

    async def search(self, query: str, *, limit: int, timeout_s: float) -> Sequence[SearchHit]:
        return await self._access.search.search(query, limit=limit, timeout_s=timeout_s)

    async def send(self, request: "HttpRequest", *, timeout_s: float) -> "HttpAnswer":
        return await self._access.requests.send(request, timeout_s=timeout_s)

    async def aclose(self) -> None:
        """Close what was opened."""
        if "_access" in self.__dict__:
            await self._access.aclose()
