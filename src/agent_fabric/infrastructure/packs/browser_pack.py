"""Gives packs a browser. Importing this is cheap: playwright is imported when the first page is opened."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from agent_fabric.application.ports.browser import PageView
from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.config.schema.tools import BROWSER, BrowserConfig
from agent_fabric.domain.errors import MissingExtra, RecruitError
from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.domain.tools.specs import ToolContext, ToolResult, ToolSpec
from agent_fabric.infrastructure.packs.wrapped_pack import WrappedPack
from agent_fabric.infrastructure.sandbox.egress.policy import EgressLimits, EgressRefusal, browser_policy
from agent_fabric.infrastructure.sandbox.egress.proxy import EgressProxy
from agent_fabric.infrastructure.tools.browser_tools import BROWSER_TOOLS, PageRecord, browser_tools

if TYPE_CHECKING:
    from agent_fabric.infrastructure.tools.browser.session import ChromiumBrowser


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserParts:
    """What the browsers of all runs share."""

    config: BrowserConfig
    allow_hosts: tuple[str, ...] = ()
    """Private hosts that pages may come from: `web.allow_hosts`."""
    on_refused: Callable[[RunId, EgressRefusal], None] | None = None
    """Hears what the pages of a run were refused."""

    @property
    def offered(self) -> bool:
        """Whether packs get a browser without asking for it."""
        return self.config.enabled and find_spec("playwright") is not None

    def require(self, specialist_id: SpecialistId) -> None:
        """Make sure that a pack that asks for a browser can have one.

        Raises:
            RecruitError: it is switched off.
            MissingExtra: it is not installed.
        """
        if not self.config.enabled:
            raise RecruitError(
                f"The pack {specialist_id!r} asks for the browser, which is switched off",
                hint=f"Set `browser.enabled: true`, or remove {BROWSER!r} from its tools.",
            )
        if find_spec("playwright") is None:
            raise MissingExtra("browser", needed_for="The browser")

    def added_to(
        self,
        pack: SpecialistPack,
        *,
        run_id: RunId,
        sandbox: Sandbox,
        network_allowed: bool,
        record: PageRecord | None = None,
    ) -> "PackWithBrowser":
        """Return the pack with the browser tools and a browser of its own, which ends with it."""
        return PackWithBrowser(pack, LazyBrowser(self, run_id), sandbox, network_allowed=network_allowed, record=record)

    def proxy(self, run_id: RunId, limits: tuple[Allowlists, ...] = ()) -> EgressProxy:
        """Return the way out for the browser of a run; every request of a page goes through it."""
        heard = self.on_refused
        return EgressProxy(
            browser_policy(self.config, self.allow_hosts, limits),
            loopback=True,
            limits=EgressLimits(connections=256, max_bytes=self.config.max_bytes),
            on_refused=None if heard is None else lambda refusal: heard(run_id, refusal),
        )


class LazyBrowser:
    """Browser that stands in until it is used: most runs never open a page."""

    def __init__(self, parts: BrowserParts, run_id: RunId) -> None:
        self._parts = parts
        self._run_id = run_id
        self._browser: ChromiumBrowser | None = None
        self.limits: tuple[Allowlists, ...] = ()
        """Allowlists of the agent that uses it; set before the browser starts."""

    async def open(self, url: str, *, timeout_s: float) -> PageView:
        return await self._ready().open(url, timeout_s=timeout_s)

    async def read(self, *, timeout_s: float) -> PageView:
        return await self._ready().read(timeout_s=timeout_s)

    async def click(self, number: int, *, timeout_s: float) -> PageView:
        return await self._ready().click(number, timeout_s=timeout_s)

    async def type(self, number: int, text: str, *, submit: bool, timeout_s: float) -> PageView:
        return await self._ready().type(number, text, submit=submit, timeout_s=timeout_s)

    async def screenshot(self, *, whole_page: bool, timeout_s: float) -> tuple[str, bytes]:
        return await self._ready().screenshot(whole_page=whole_page, timeout_s=timeout_s)

    async def aclose(self) -> None:
        """End the browser, if there is one."""
        if self._browser is not None:
            await self._browser.aclose()

    def _ready(self) -> "ChromiumBrowser":
        if self._browser is None:
            from agent_fabric.infrastructure.tools.browser.session import (  # noqa: PLC0415 - an optional part, slow to import
                ChromiumBrowser,
            )

            self._browser = ChromiumBrowser(self._parts.config, lambda: self._parts.proxy(self._run_id, self.limits))
        return self._browser


class PackWithBrowser(WrappedPack):
    """Has the browser tools beside those of another pack.

    Without the network they are not offered; a call of one is answered with a refusal. The browser starts with the
    first page.
    """

    def __init__(
        self,
        inner: SpecialistPack,
        browser: LazyBrowser,
        sandbox: Sandbox,
        *,
        network_allowed: bool,
        record: PageRecord | None = None,
    ) -> None:
        super().__init__(inner)
        self.added = BROWSER_TOOLS if network_allowed else ()
        self._refused = () if network_allowed else BROWSER_TOOLS
        self._browser = browser
        self._functions = {spec.name: function for spec, function in browser_tools(browser, sandbox, record)}

    @property
    def hidden_tools(self) -> Sequence[ToolSpec]:
        """Those of the pack, if it has any, and without the network the browser's."""
        return (*super().hidden_tools, *self._refused)

    async def aclose(self) -> None:
        """End the browser, and close the pack."""
        try:
            await self._browser.aclose()
        finally:
            await super().aclose()

    async def execute_tool(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        """Run a browser tool, or one of the pack's own.

        Raises:
            KeyError: neither has this name.
        """
        function = self._functions.get(name)
        if function is None:
            return await super().execute_tool(name, args, context)
        self._browser.limits = context.limits
        return await function(args, context)
