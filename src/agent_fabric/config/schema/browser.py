"""The browser that specialists may use."""

from typing import Final

from pydantic import Field

from agent_fabric.config.schema.egress import Domains
from agent_fabric.config.schema.values import AbsolutePath, Settings

BROWSER: Final = "browser"
"""The name under `tools` in a specialist's configuration that stands for the browser tools."""


class BrowserConfig(Settings):
    """A browser without a window, for pages that need one."""

    enabled: bool = False
    """Whether research packs, and specialists with `browser` among their `tools`, get the browser tools. They need the
    extra `browser` and an installed Chromium."""
    executable: AbsolutePath | None = None
    """The browser to start; not set: Chromium or Chrome, where it is usually installed."""
    own_sandbox: bool = True
    """Whether Chromium holds its pages in its own sandbox. Only where it cannot make one, such as in some containers,
    set this to false: a hostile page then has less in its way."""
    allow_domains: Domains = ()
    """The only hosts that pages may come from, each as under `egress.allow_domains`; empty: all that are public. What
    is private is refused unless `web.allow_hosts` names it."""
    timeout_s: float = Field(default=30.0, gt=0, le=600)
    """How long one page may take to load, and one click to be done."""
    max_bytes: int = Field(default=500_000_000, ge=1_000)
    """How much the pages of one run may send and receive, together."""
