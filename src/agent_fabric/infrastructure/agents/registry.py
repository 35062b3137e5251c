"""Builds agents as packs, beside the packs that the configuration knows.

What agents need is imported when one is asked for: other runs would only pay for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.config.schema.browser import BrowserConfig
from agent_fabric.config.schema.mcp import MCPServerConfig
from agent_fabric.config.schema.specialists import SpecialistConfig
from agent_fabric.domain.agents.brief import AgentBrief
from agent_fabric.domain.errors import PackBroken, RecruitError
from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.infrastructure.packs.project_context import with_project_context
from agent_fabric.infrastructure.packs.registry import ConfigSpecialistRegistry, ResearchParts, SandboxFor

if TYPE_CHECKING:
    from agent_fabric.application.ports.leases import NamedLocks
    from agent_fabric.application.ports.mcp import ToolServers
    from agent_fabric.infrastructure.packs.agent import Workbench
    from agent_fabric.infrastructure.packs.research import ResearchDesk


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """What the agents of all runs share."""

    sandbox_for: SandboxFor
    shell_timeout_s: float
    research: ResearchParts
    specialists: Mapping[str, SpecialistConfig]
    """Whose tool servers agents may name."""
    tool_servers: "ToolServers | None"
    browser: BrowserConfig | None
    web_allow_hosts: tuple[str, ...]
    locks: "NamedLocks"
    """Of agents of which only one may be at work at a time."""


def servers_of_all(specialists: Iterable[SpecialistConfig]) -> dict[str, MCPServerConfig]:
    """Return every configured tool server by name; of two with one name, the first."""
    found: dict[str, MCPServerConfig] = {}
    for specialist in specialists:
        for server in specialist.mcp_servers:
            found.setdefault(server.name, server)
    return found


@dataclass(frozen=True, slots=True)
class RegistryWithAgents:
    """SpecialistRegistry that knows agents too, and gives every pack the notes of the project that it works on."""

    packs: ConfigSpecialistRegistry
    parts: AgentParts

    def names(self) -> Sequence[SpecialistId]:
        return self.packs.names()

    def get_pack(
        self,
        specialist_id: SpecialistId,
        *,
        run_id: RunId,
        workspace: str,
        network_allowed: bool,
        agent: AgentBrief | None = None,
    ) -> SpecialistPack:
        site = _Site(run_id, workspace, network_allowed)
        pack = self._pack(specialist_id, site) if agent is None else self._agent(agent, site)
        sandbox = self.parts.sandbox_for(run_id, workspace, network_allowed=network_allowed)
        return with_project_context(pack, workspace, sandbox)

    def _pack(self, specialist_id: SpecialistId, site: "_Site") -> SpecialistPack:
        return self.packs.get_pack(
            specialist_id, run_id=site.run_id, workspace=site.workspace, network_allowed=site.network_allowed
        )

    def _agent(self, agent: AgentBrief, site: "_Site") -> SpecialistPack:
        from agent_fabric.infrastructure.packs.agent import AgentOnPack, build_agent_pack  # noqa: PLC0415 - see above

        if agent.pack:
            pack: SpecialistPack = AgentOnPack(self._pack(SpecialistId(agent.pack), site), agent)
        else:
            sandbox = self.parts.sandbox_for(site.run_id, site.workspace, network_allowed=site.network_allowed)
            pack = build_agent_pack(agent, self._bench(site, sandbox))
            pack = self._with_servers(pack, agent, site, sandbox)
            pack = self._with_browser(pack, agent, site, sandbox)
        if agent.parallel_allowed:
            return pack
        from agent_fabric.infrastructure.agents.one_at_a_time import OneAtATime  # noqa: PLC0415 - see above

        return OneAtATime(pack, agent.name, self.parts.locks)

    def _bench(self, site: "_Site", sandbox: Sandbox) -> "Workbench":
        from agent_fabric.infrastructure.packs.agent import Tools, Workbench  # noqa: PLC0415 - see above

        def recall() -> Tools:
            from agent_fabric.infrastructure.tools.recall import (  # noqa: PLC0415 - see above
                CROSS_RUN_SEARCH,
                CrossRunSearch,
            )

            desk = self._desk(site, sandbox)
            return ((CROSS_RUN_SEARCH, CrossRunSearch(self.parts.research.catalogue, desk.snapshots, desk.clock)),)

        return Workbench(
            sandbox=sandbox,
            shell_timeout_s=self.parts.shell_timeout_s,
            network_allowed=site.network_allowed,
            web_tools=lambda: self._desk(site, sandbox).web_tools(),
            recall_tools=recall,
        )

    def _desk(self, site: "_Site", sandbox: Sandbox) -> "ResearchDesk":
        return self.parts.research.desk(site.run_id, sandbox, site.network_allowed)

    def _with_servers(self, pack: SpecialistPack, agent: AgentBrief, site: "_Site", sandbox: Sandbox) -> SpecialistPack:
        from agent_fabric.domain.agents.capabilities import servers_of  # noqa: PLC0415 - see above

        names = servers_of(agent.capabilities)
        if not names:
            return pack
        from agent_fabric.infrastructure.packs.mcp_augmented import (  # noqa: PLC0415 - see above
            McpAugmentedPack,
            ServersOfPack,
        )

        known = servers_of_all(self.parts.specialists.values())
        missing = [name for name in names if name not in known]
        if missing or self.parts.tool_servers is None:
            raise PackBroken(
                f"The agent {agent.name!r} needs the tool server {', '.join(map(repr, missing))}, which is not there",
                hint=f"Configured: {', '.join(known) or 'none'}. See docs/guides/mcp.md.",
            )
        return McpAugmentedPack(
            pack,
            ServersOfPack(
                servers=[known[name] for name in names],
                tool_servers=self.parts.tool_servers,
                workspace=site.workspace,
                network_allowed=site.network_allowed,
                sandbox=sandbox,
            ),
        )

    def _with_browser(self, pack: SpecialistPack, agent: AgentBrief, site: "_Site", sandbox: Sandbox) -> SpecialistPack:
        if "browser" not in agent.capabilities:
            return pack
        from agent_fabric.infrastructure.packs.browsing import BrowserParts  # noqa: PLC0415 - see above

        if self.parts.browser is None:
            raise RecruitError(f"The agent {agent.name!r} asks for a browser, which nobody can start here")
        parts = BrowserParts(config=self.parts.browser, allow_hosts=self.parts.web_allow_hosts)
        parts.require(SpecialistId(agent.name))
        record = self._desk(site, sandbox).page_record() if "evidence" in agent.capabilities else None
        return parts.added_to(
            pack, run_id=site.run_id, sandbox=sandbox, network_allowed=site.network_allowed, record=record
        )


@dataclass(frozen=True, slots=True)
class _Site:
    """The run that a pack is built for."""

    run_id: RunId
    workspace: str
    network_allowed: bool
