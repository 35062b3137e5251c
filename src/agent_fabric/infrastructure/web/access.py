"""Web access as the configuration describes it.

Importing this is cheap. Building it imports aiohttp, which takes a third of a second and which most runs do not need.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_fabric.config.schema.tools import WebConfig

if TYPE_CHECKING:
    from agent_fabric.infrastructure.tools.search_engines import DdgsSearch, SearxngSearch
    from agent_fabric.infrastructure.web.fetch import HttpPageFetcher
    from agent_fabric.infrastructure.web.requests import HttpRequests


@dataclass(frozen=True, slots=True)
class WebAccess:
    """What reads pages, what finds them, and what makes other requests."""

    fetcher: "HttpPageFetcher"
    search: "SearxngSearch | DdgsSearch"
    requests: "HttpRequests"

    async def aclose(self) -> None:
        """Close every connection."""
        await self.fetcher.aclose()
        await self.search.aclose()
        await self.requests.aclose()


def build_web(config: WebConfig) -> WebAccess:
    """Return web access with the search that the configuration chooses."""
    from agent_fabric.infrastructure.tools.search_engines import DdgsSearch, SearxngSearch  # noqa: PLC0415 - the same
    from agent_fabric.infrastructure.web.fetch import HttpPageFetcher  # noqa: PLC0415 - the same
    from agent_fabric.infrastructure.web.requests import HttpRequests  # noqa: PLC0415 - the same

    search: SearxngSearch | DdgsSearch
    if config.search_url is None or config.search_provider == "ddgs":
        search = DdgsSearch(timeout_s=config.timeout_s)
    else:
        search = SearxngSearch(config.search_url, user_agent=config.user_agent, timeout_s=config.timeout_s)
    return WebAccess(HttpPageFetcher(config), search, HttpRequests(config))
