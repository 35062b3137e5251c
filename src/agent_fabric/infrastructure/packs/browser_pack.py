"""Gives packs a browser. Importing this is cheap: playwright is imported when the first page is opened."""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.config.schema.tools import BROWSER, BrowserConfig
from agent_fabric.domain.dataclass import dataclass
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
        return PackWithBrowser(pack, self, run_id, sandbox, network_allowed=network_allowed, record=record)

    def proxy(self, run_id: RunId, limits: tuple[Allowlists, ...] = ()) -> EgressProxy:
        """Return the way out for the browser of a run; every request of a page goes through it."""
        heard = self.on_refused
        return EgressProxy(
            browser_policy(self.config, self.allow_hosts, limits),
            loopback=True,
            limits=EgressLimits(connections=256, max_bytes=self.config.max_bytes),
            on_refused=None if heard is None else lambda refusal: heard(run_id, refusal),
        )


class PackWithBrowser(WrappedPack):
    """Has the browser tools beside those of another pack.

    Without the network they are not offered; a call of one is answered with a refusal. The browser starts with the
    first page.
    """

    def __init__(
        self,
        inner: SpecialistPack,
        parts: BrowserParts,
        run_id: RunId,
        sandbox: Sandbox,
        *,
        network_allowed: bool,
        record: PageRecord | None = None,
    ) -> None:
        functions = browser_tools(self._open_browser, sandbox, record)
        super().__init__(inner, {spec.name: function for spec, function in functions})
        self.added = BROWSER_TOOLS if network_allowed else ()
        self._refused = () if network_allowed else BROWSER_TOOLS
        self._parts = parts
        self._run_id = run_id
        self._browser: ChromiumBrowser | None = None
        self._limits: tuple[Allowlists, ...] = ()
        """Allowlists of the agent that uses the browser; known before it starts."""

    @property
    def hidden_tools(self) -> Sequence[ToolSpec]:
        return (*super().hidden_tools, *self._refused)

    async def aclose(self) -> None:
        try:
            if self._browser is not None:
                await self._browser.aclose()
        finally:
            await super().aclose()

    async def execute_tool(self, name: str, args: Mapping[str, Any], context: ToolContext) -> ToolResult:
        if name in self._functions:
            self._limits = context.limits
        return await super().execute_tool(name, args, context)

    def _open_browser(self) -> "ChromiumBrowser":
        if self._browser is None:
            from agent_fabric.infrastructure.tools.browser.session import (  # noqa: PLC0415 - an optional part, slow to import
                ChromiumBrowser,
            )

            self._browser = ChromiumBrowser(self._parts.config, lambda: self._parts.proxy(self._run_id, self._limits))
        return self._browser
