"""Builds packs by name.

Packs and what adds tools are imported when they are asked for: other runs would only pay for them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.runs import RunCatalogue
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.application.ports.sources import Snapshots
from agent_fabric.application.ports.web import PageFetcher, WebSearch
from agent_fabric.config.schema.browser import BROWSER, BrowserConfig
from agent_fabric.config.schema.specialists import SpecialistConfig
from agent_fabric.domain.errors import ConfigError, PackBroken, RecruitError
from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.domain.packs import STEPS
from agent_fabric.infrastructure.packs.imported import build_imported

if TYPE_CHECKING:
    from agent_fabric.application.ports.mcp import ToolServers
    from agent_fabric.infrastructure.packs.research import ResearchDesk
    from agent_fabric.infrastructure.packs.steps import StepParts


_RESEARCHERS = frozenset({"research", "enterprise_research"})


class SandboxFor(Protocol):
    """Gives the box for a run and its workspace."""

    def __call__(self, run_id: RunId, workspace: str, *, network_allowed: bool) -> Sandbox:
        """Return the box."""
        ...


ContainerFor = Callable[[RunId, str, str], Sandbox]
"""Gives the container for a run, its workspace and an image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResearchParts:
    """What the research packs of all runs share."""

    fetcher: PageFetcher
    search: WebSearch
    snapshots_for: Callable[[RunId], Snapshots]
    catalogue: RunCatalogue
    clock: Clock

    def desk(self, run_id: RunId, sandbox: Sandbox, network_allowed: bool) -> "ResearchDesk":
        """Return what a researcher works with in one run."""
        from agent_fabric.infrastructure.packs.research import ResearchDesk  # noqa: PLC0415 - see above

        return ResearchDesk(
            sandbox=sandbox,
            fetcher=self.fetcher,
            search=self.search,
            snapshots=self.snapshots_for(run_id),
            clock=self.clock,
            network_allowed=network_allowed,
        )


class ConfigSpecialistRegistry:
    """SpecialistRegistry over the configuration: built-in packs, and any function named by `builder`."""

    def __init__(  # noqa: PLR0913 - what packs of all kinds need
        self,
        specialists: Mapping[str, SpecialistConfig],
        sandbox_for: SandboxFor,
        *,
        shell_timeout_s: float,
        research: ResearchParts,
        tool_servers: "ToolServers | None" = None,
        container_for: ContainerFor | None = None,
        browser: BrowserConfig | None = None,
        web_allow_hosts: tuple[str, ...] = (),
        steps: "Callable[[], StepParts] | None" = None,
    ) -> None:
        """Join what packs need; `steps` gives what workflows need, and is asked only by those."""
        self._steps = steps
        self._browser = browser
        self._web_allow_hosts = web_allow_hosts
        self._specialists = specialists
        self._container_for = container_for
        self._tool_servers = tool_servers
        self._sandbox_for = sandbox_for
        self._shell_timeout_s = shell_timeout_s
        self._research = research
        self._built_in: Mapping[str, Callable[[RunId, Sandbox, bool], SpecialistPack]] = {
            "engineering": self._engineer,
            "research": self._researcher,
            "enterprise_research": self._enterprise_researcher,
        }

    def names(self) -> Sequence[SpecialistId]:
        return [SpecialistId(name) for name in self._specialists]

    def get_pack(
        self, specialist_id: SpecialistId, *, run_id: RunId, workspace: str, network_allowed: bool
    ) -> SpecialistPack:
        config = self._specialists.get(specialist_id)
        if specialist_id == STEPS and self._steps is not None:
            return self._steps().pack(self._sandbox_for(run_id, workspace, network_allowed=network_allowed))
        if config is None:
            raise RecruitError(
                f"There is no pack {specialist_id!r}", hint=f"Known packs: {', '.join(self._specialists)}."
            )
        sandbox = self._sandbox_for(run_id, workspace, network_allowed=network_allowed)
        if config.builder is not None:
            pack = build_imported(
                specialist_id, config.builder, workspace, network_allowed, sandbox=sandbox, run_id=run_id
            )
        else:
            pack = self._builder_of(specialist_id)(run_id, sandbox, network_allowed)
        tools = [name for name in config.tools if name != BROWSER]
        if tools:
            from agent_fabric.infrastructure.packs.added_tools import with_tools  # noqa: PLC0415 - see above

            pack = with_tools(pack, specialist_id, tools, sandbox)
        if config.mcp_servers:
            pack = self._with_servers(pack, specialist_id, workspace, network_allowed, sandbox)
        if config.container_image:
            pack = self._in_container(pack, specialist_id, run_id, workspace, config.container_image)
        if self._browser is not None and (self._browser.enabled or BROWSER in config.tools):
            pack = self._with_browser(pack, specialist_id, run_id, sandbox, network_allowed)
        return pack

    def _with_browser(
        self,
        pack: SpecialistPack,
        specialist_id: SpecialistId,
        run_id: RunId,
        sandbox: Sandbox,
        network_allowed: bool,
    ) -> SpecialistPack:
        """Return the pack with a browser, if it asks for one or is a researcher's."""
        from agent_fabric.infrastructure.packs.browsing import BrowserParts  # noqa: PLC0415 - see above

        assert self._browser is not None
        config = self._specialists[specialist_id]
        parts = BrowserParts(config=self._browser, allow_hosts=self._web_allow_hosts)
        researches = config.builder is None and specialist_id in _RESEARCHERS
        if BROWSER in config.tools:
            parts.require(specialist_id)
        elif not (researches and parts.offered):
            return pack
        record = self._research.desk(run_id, sandbox, network_allowed).page_record() if researches else None
        return parts.added_to(pack, run_id=run_id, sandbox=sandbox, network_allowed=network_allowed, record=record)

    def _in_container(
        self, pack: SpecialistPack, specialist_id: SpecialistId, run_id: RunId, workspace: str, image: str
    ) -> SpecialistPack:
        from agent_fabric.infrastructure.packs.containerised import ContainerisedPack  # noqa: PLC0415 - see above

        if self._container_for is None:
            raise RecruitError(f"The pack {specialist_id!r} asks for container_image, which nobody can start here")
        try:
            return ContainerisedPack(pack, self._container_for(run_id, workspace, image))
        except ConfigError as error:
            raise PackBroken(f"The pack {specialist_id!r} cannot be used: {error.message}", hint=error.hint) from error

    def _with_servers(
        self,
        pack: SpecialistPack,
        specialist_id: SpecialistId,
        workspace: str,
        network_allowed: bool,
        sandbox: Sandbox,
    ) -> SpecialistPack:
        from agent_fabric.infrastructure.packs.mcp_augmented import (  # noqa: PLC0415 - see above
            McpAugmentedPack,
            ServersOfPack,
        )

        if self._tool_servers is None:
            raise RecruitError(f"The pack {specialist_id!r} asks for mcp_servers, which nobody can reach here")
        return McpAugmentedPack(
            pack,
            ServersOfPack(
                servers=self._specialists[specialist_id].mcp_servers,
                tool_servers=self._tool_servers,
                workspace=workspace,
                network_allowed=network_allowed,
                sandbox=sandbox,
            ),
        )

    def _builder_of(self, specialist_id: SpecialistId) -> Callable[[RunId, Sandbox, bool], SpecialistPack]:
        builder = self._built_in.get(specialist_id)
        if builder is None:
            raise RecruitError(
                f"The pack {specialist_id!r} has no `builder` and is not built in",
                hint=f'Set builder: "module:function". Built in: {", ".join(self._built_in)}.',
            )
        return builder

    def _engineer(self, _run_id: RunId, sandbox: Sandbox, _network_allowed: bool) -> SpecialistPack:
        from agent_fabric.infrastructure.packs.engineering import build_engineering_pack  # noqa: PLC0415 - see above

        return build_engineering_pack(sandbox, shell_timeout_s=self._shell_timeout_s)

    def _researcher(self, run_id: RunId, sandbox: Sandbox, network_allowed: bool) -> SpecialistPack:
        from agent_fabric.infrastructure.packs.research import build_research_pack  # noqa: PLC0415 - see above

        return build_research_pack(self._research.desk(run_id, sandbox, network_allowed))

    def _enterprise_researcher(self, run_id: RunId, sandbox: Sandbox, network_allowed: bool) -> SpecialistPack:
        from agent_fabric.infrastructure.packs.enterprise_research import (  # noqa: PLC0415 - see above
            build_enterprise_research_pack,
        )

        desk = self._research.desk(run_id, sandbox, network_allowed)
        return build_enterprise_research_pack(desk, self._research.catalogue)
