"""A browser, seen from the tools: one page at a time, as text whose links and fields have numbers."""

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from agent_fabric.domain.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PageView:
    """A page as it looks at this moment."""

    url: str
    title: str
    status: int
    """What the server answered; 0 if the page came about in another way."""
    text: str
    """What a person would see. `[7 button: Search]` is a thing that can be used, by its number."""
    links: Mapping[int, str] = field(default_factory=dict)
    """Where the numbered links lead."""
    notes: tuple[str, ...] = ()
    """What else happened: a dialog, a new window, a page that is too long."""
    html: str = ""
    """The page's content behind the text, for the record."""


class Browser(Protocol):
    """One browser with a fresh profile, for one run; closed with it.

    Everything it loads goes through the egress proxy. Numbers are those of the last view; a thing keeps its number as
    long as it stays on the page. Calls wait for each other. Every method raises WebError if it cannot be done, with
    words for the model, and PermissionError if the page wants to lead where it may not.
    """

    async def open(self, url: str, *, timeout_s: float) -> PageView:
        """Load a page."""
        ...

    async def read(self, *, timeout_s: float) -> PageView:
        """Look at the page again."""
        ...

    async def click(self, number: int, *, timeout_s: float) -> PageView:
        """Click a link, a button or a box, and look at what came of it."""
        ...

    async def type(self, number: int, text: str, *, submit: bool, timeout_s: float) -> PageView:
        """Replace the text of a field, or choose from a list; with `submit`, press Enter then."""
        ...

    async def screenshot(self, *, whole_page: bool, timeout_s: float) -> tuple[str, bytes]:
        """Return the page's address, and how it looks, as PNG."""
        ...
