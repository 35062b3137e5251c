"""The web, seen from the tools: reading a page, and finding pages."""

from collections.abc import Collection, Sequence
from typing import Protocol

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.tools.allowlists import Allowlists


class WebError(Exception):
    """A page or a search gave nothing to read; the message tells the model why, and what to do instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page as it was fetched."""

    url: str
    """The address that was asked for."""
    final_url: str
    """The address that answered, after redirects."""
    status: int
    content_type: str
    """Such as `text/html`, without parameters; what the content looks like if the server did not say."""
    body: bytes
    """The content as it came, decompressed."""
    title: str
    """Empty if the page has none."""
    text: str
    """What a person would read on the page: its main text, without menus and footers."""
    cut: bool
    """The content was longer than allowed; `body` and `text` are its beginning."""
    source: str = ""
    """The content before `text` was taken from it, with comments and what is not shown; empty: it is the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A page that a search found; no one has read it yet."""

    title: str
    url: str
    snippet: str


class PageFetcher(Protocol):
    """Reads pages, never anything on this machine or its network unless the configuration names it.

    May be used concurrently. Nothing is kept between two fetches: no cookies, no history. Cancelling a fetch closes its
    connection.
    """

    async def fetch(
        self, url: str, *, timeout_s: float, limits: Sequence[Allowlists] = (), files: Collection[str] = ()
    ) -> Page:
        """Get a page and its main text, following redirects; every address must be on the `limits`.

        What is of a type in `files`, such as a PDF, is returned as it came, without text.

        Raises:
            PermissionError: the address, or one that it leads to, is not for this program to reach.
            WebError: there is no page, or none that can be read.
        """
        ...


class WebSearch(Protocol):
    """Finds pages. May be used concurrently."""

    async def search(self, query: str, *, limit: int, timeout_s: float) -> Sequence[SearchHit]:
        """Return at most `limit` pages, the best first, each address once; nothing found is an empty answer.

        Raises:
            WebError: the search could not be made.
        """
        ...
