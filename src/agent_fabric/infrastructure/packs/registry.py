"""Builds packs by name, and agents as packs.

Packs and what adds tools are imported when they are asked for: other runs would only pay for them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.application.ports.sources import Snapshots
from agent_fabric.application.ports.web import PageFetcher, WebSearch
from agent_fabric.config.defaults import PHASES
from agent_fabric.config.schema.specialists import SpecialistConfig
from agent_fabric.config.schema.tools import BROWSER, BrowserConfig, MCPServerConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, PackBroken, RecruitError
from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.domain.packs.contents import STEPS
from agent_fabric.domain.packs.recruitment import ASSISTANT
from agent_fabric.domain.packs.review import REVIEWER
from agent_fabric.domain.runs.task import AgentBrief
from agent_fabric.infrastructure.packs.imported_packs import build_imported
from agent_fabric.infrastructure.packs.project_notes import with_project_notes
from agent_fabric.infrastructure.packs.wrapped_pack import AdvisedPack, OneAtATime, PhasedPack, ProvenPack

if TYPE_CHECKING:
    from agent_fabric.application.fleet.fleet_policy import FleetDoor
    from agent_fabric.application.ports.leases import NamedLocks
    from agent_fabric.application.ports.mcp import ToolServers
    from agent_fabric.application.ports.memory import RunMemory
    from agent_fabric.application.ports.runs import RunCatalogue
    from agent_fabric.domain.tools.skills import Skill
    from agent_fabric.domain.tools.specs import ToolSpec
    from agent_fabric.infrastructure.packs.research import ResearchDesk
    from agent_fabric.infrastructure.tools.tool_objects import ToolFunction

    Tools = Sequence[tuple[ToolSpec, ToolFunction]]

_RESEARCHERS = frozenset({"research", "enterprise_research"})
_BUILT_IN = ("engineering", "research", "enterprise_research", "sysadmin", REVIEWER, ASSISTANT)


class SandboxFor(Protocol):
    """Gives the box for a run and its workspace."""

    def __call__(self, run_id: RunId, workspace: str, *, network_allowed: bool) -> Sandbox:
        """Return the box."""
        ...


ContainerFor = Callable[[RunId, str, str], Sandbox]
"""Gives the container for a run, its workspace and an image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackParts:
    """What the packs of all runs share."""

    specialists: Mapping[str, SpecialistConfig]
    sandbox_for: SandboxFor
    shell_timeout_s: float
    fetcher: PageFetcher
    search: WebSearch
    snapshots_for: Callable[[RunId], Snapshots]
    catalogue: "RunCatalogue"
    clock: Clock
    locks: "NamedLocks"
    """For agents of which only one run may be active at a time."""
    tool_servers: "ToolServers | None" = None
    container_for: ContainerFor | None = None
    browser: BrowserConfig = field(default_factory=BrowserConfig)
    web_allow_hosts: tuple[str, ...] = ()
    fleet: "FleetDoor | None" = None
    """Where node tools find the machines; None: there are none."""
    memory: "Callable[[], RunMemory] | None" = None
    """Makes what looks up documents and facts; None: there are none here."""
    skills: "Callable[[str, Sequence[str] | None], tuple[Sequence[Skill], Sequence[str]]] | None" = None
    """Finds the skills for a workspace, of these names or all, and the names of those that no one trusts yet."""
    steps: "Callable[[Sandbox, Tools], SpecialistPack] | None" = None
    """Builds the pack for the steps of workflows, with the tools that look up and propose."""


def servers_of_all(specialists: Iterable[SpecialistConfig]) -> dict[str, MCPServerConfig]:
    """Return every configured tool server by name; of two with one name, the first."""
    found: dict[str, MCPServerConfig] = {}
    for specialist in specialists:
        for server in specialist.mcp_servers:
            found.setdefault(server.name, server)
    return found


@dataclass(frozen=True, slots=True)
class PackRegistry:
    """SpecialistRegistry over the configuration: built-in packs, any function named by `builder`, and agents.

    Every pack gets the notes of the project that it works on.
    """

    parts: PackParts

    def names(self) -> Sequence[SpecialistId]:
        return [SpecialistId(name) for name in self.parts.specialists]

    def get_pack(
        self,
        specialist_id: SpecialistId,
        *,
        run_id: RunId,
        workspace: str,
        network_allowed: bool,
        agent: AgentBrief | None = None,
    ) -> SpecialistPack:
        build = _PackBuild(self.parts, run_id, workspace, network_allowed)
        pack = build.pack(specialist_id) if agent is None else build.agent(agent)
        if specialist_id == STEPS:  # no model sees what their tools give
            return pack
        pack = build.with_skills(AdvisedPack(pack, build.sandbox), specialist_id, agent)
        return with_project_notes(pack, workspace, build.sandbox)


@dataclass(frozen=True)
class _PackBuild:
    """Builds the packs of one run."""

    parts: PackParts
    run_id: RunId
    workspace: str
    network_allowed: bool

    @cached_property
    def sandbox(self) -> Sandbox:
        return self.parts.sandbox_for(self.run_id, self.workspace, network_allowed=self.network_allowed)

    def pack(self, name: SpecialistId) -> SpecialistPack:
        if name == STEPS and self.parts.steps is not None:
            return self.parts.steps(self.sandbox, (*self._memory_tools(), *self._ingest_tools()))
        config = self.parts.specialists.get(name)
        if config is None:
            raise RecruitError(f"There is no pack {name!r}", hint=f"Known packs: {', '.join(self.parts.specialists)}.")
        if config.builder is None:
            pack = self._built_in(name)
        else:
            pack = build_imported(
                name, config.builder, self.workspace, self.network_allowed, sandbox=self.sandbox, run_id=self.run_id
            )
        if config.workflow and config.workflow != PHASES.get(name):
            pack = PhasedPack(pack, config.workflow)
        tools = [reference for reference in config.tools if reference != BROWSER]
        if tools:
            from agent_fabric.infrastructure.packs.configured_tools import with_tools  # noqa: PLC0415 - see above

            pack = with_tools(pack, name, tools, self.sandbox)
        pack = self._with_servers(pack, name, config.mcp_servers)
        if config.container_image:
            pack = self._in_container(pack, name, config.container_image)
        if config.require_proof:
            pack = ProvenPack(pack)
        researches = config.builder is None and name in _RESEARCHERS
        return self._with_browser(pack, name, required=BROWSER in config.tools, recorded=researches)

    def agent(self, agent: AgentBrief) -> SpecialistPack:
        from agent_fabric.infrastructure.packs.agent import AgentOnPack, build_agent_pack  # noqa: PLC0415 - see above

        if agent.pack:
            pack: SpecialistPack = AgentOnPack(self.pack(SpecialistId(agent.pack)), agent)
        else:
            pack = build_agent_pack(
                agent,
                self.sandbox,
                self._desk,
                shell_timeout_s=self.parts.shell_timeout_s,
                network_allowed=self.network_allowed,
            )
            pack = self._with_servers(pack, SpecialistId(agent.name), self._servers_of(agent))
            if BROWSER in agent.capabilities:
                recorded = "evidence" in agent.capabilities
                pack = self._with_browser(pack, SpecialistId(agent.name), required=True, recorded=recorded)
        return pack if agent.parallel_allowed else OneAtATime(pack, agent.name, self.parts.locks)

    def with_skills(
        self, pack: SpecialistPack, specialist_id: SpecialistId, agent: AgentBrief | None
    ) -> SpecialistPack:
        """Return the pack with the skills that it, or the agent, offers; the same one if there are none."""
        if self.parts.skills is None:
            return pack
        if agent is None:
            config = self.parts.specialists.get(specialist_id)
            wanted = None if config is None else config.skills
        else:
            wanted = agent.skills  # an agent has what its file names
        if wanted == ():
            return pack
        skills, untrusted = self.parts.skills(self.workspace, wanted)
        if not skills and not untrusted:
            return pack
        from agent_fabric.infrastructure.packs.skilled_pack import SkilledPack  # noqa: PLC0415 - see above

        return SkilledPack(pack, skills, untrusted, self.workspace, self.sandbox)

    def _built_in(self, name: SpecialistId) -> SpecialistPack:
        if name == "engineering":
            from agent_fabric.infrastructure.packs.engineering import (  # noqa: PLC0415 - see above
                build_engineering_pack,
            )

            return build_engineering_pack(self.sandbox, shell_timeout_s=self.parts.shell_timeout_s)
        if name == ASSISTANT:
            from agent_fabric.infrastructure.packs.assistant import build_assistant_pack  # noqa: PLC0415 - see above

            return build_assistant_pack(self._desk(), shell_timeout_s=self.parts.shell_timeout_s)
        if name == REVIEWER:
            from agent_fabric.infrastructure.packs.review import build_review_pack  # noqa: PLC0415 - see above

            return build_review_pack(self.sandbox)
        if name == "sysadmin" and self.parts.fleet is not None:
            from agent_fabric.infrastructure.packs.sysadmin import build_sysadmin_pack  # noqa: PLC0415 - see above

            return build_sysadmin_pack(self.parts.fleet, self._memory_tools()[:1])
        if name in _RESEARCHERS:
            return self._desk().enterprise_pack() if name == "enterprise_research" else self._desk().pack()
        raise RecruitError(
            f"The pack {name!r} has no `builder` and is not built in",
            hint=f'Set builder: "module:function". Built in: {", ".join(_BUILT_IN)}.',
        )

    def _desk(self) -> "ResearchDesk":
        from agent_fabric.infrastructure.packs.research import ResearchDesk  # noqa: PLC0415 - see above

        return ResearchDesk(
            sandbox=self.sandbox,
            fetcher=self.parts.fetcher,
            search=self.parts.search,
            snapshots=self.parts.snapshots_for(self.run_id),
            catalogue=self.parts.catalogue,
            clock=self.parts.clock,
            network_allowed=self.network_allowed,
            memory=self.parts.memory,
        )

    def _memory_tools(self) -> "Tools":
        """Return the tools that look up documents and facts, and that propose facts; none where nothing is kept."""
        if self.parts.memory is None:
            return ()
        from agent_fabric.infrastructure.tools.memory_search import MEMORY_SEARCH, REMEMBER, MemorySearch, Remember  # noqa: PLC0415 - see above

        snapshots = self.parts.snapshots_for(self.run_id)
        search = MemorySearch(self.parts.memory, self.parts.catalogue, snapshots, self.parts.clock)
        return (MEMORY_SEARCH, search), (REMEMBER, Remember(self.parts.memory))

    def _ingest_tools(self) -> "Tools":
        """Return the tools with which a run adds documents; no file of a workflow can name them."""
        if self.parts.memory is None:
            return ()
        from agent_fabric.infrastructure.tools.ingest import AddDocuments, ingest_tools  # noqa: PLC0415 - see above

        return ingest_tools(AddDocuments(self.parts.memory, self.parts.catalogue, self.parts.fetcher))

    def _servers_of(self, agent: AgentBrief) -> Sequence[MCPServerConfig]:
        from agent_fabric.domain.tools.capabilities import servers_of  # noqa: PLC0415 - see above

        names, known = servers_of(agent.capabilities), servers_of_all(self.parts.specialists.values())
        if missing := [name for name in names if name not in known]:
            raise PackBroken(
                f"The agent {agent.name!r} needs the tool server {', '.join(map(repr, missing))}, which is not there",
                hint=f"Configured: {', '.join(known) or 'none'}. See docs/guides/mcp.md.",
            )
        return [known[name] for name in names]

    def _with_servers(
        self, pack: SpecialistPack, name: SpecialistId, servers: Sequence[MCPServerConfig]
    ) -> SpecialistPack:
        if not servers:
            return pack
        from agent_fabric.infrastructure.packs.mcp_augmented import (  # noqa: PLC0415 - see above
            McpAugmentedPack,
            ServersOfPack,
        )

        if self.parts.tool_servers is None:
            raise RecruitError(f"{name!r} asks for tool servers, which are not available here")
        return McpAugmentedPack(
            pack,
            ServersOfPack(
                servers=servers,
                tool_servers=self.parts.tool_servers,
                workspace=self.workspace,
                network_allowed=self.network_allowed,
                sandbox=self.sandbox,
            ),
        )

    def _in_container(self, pack: SpecialistPack, name: SpecialistId, image: str) -> SpecialistPack:
        from agent_fabric.infrastructure.packs.container_pack import ContainerisedPack  # noqa: PLC0415 - see above

        if self.parts.container_for is None:
            raise RecruitError(f"The pack {name!r} asks for container_image, which cannot be started here")
        try:
            return ContainerisedPack(pack, self.parts.container_for(self.run_id, self.workspace, image))
        except ConfigError as error:
            raise PackBroken(f"The pack {name!r} cannot be used: {error.message}", hint=error.hint) from error

    def _with_browser(
        self, pack: SpecialistPack, name: SpecialistId, *, required: bool, recorded: bool
    ) -> SpecialistPack:
        """Return the pack with a browser if it requires one, or records pages and one is installed."""
        if not required and not (recorded and self.parts.browser.enabled):
            return pack
        from agent_fabric.infrastructure.packs.browser_pack import BrowserParts  # noqa: PLC0415 - see above

        browsers = BrowserParts(config=self.parts.browser, allow_hosts=self.parts.web_allow_hosts)
        if required:
            browsers.require(name)
        elif not browsers.offered:
            return pack
        record = self._desk().page_record() if recorded else None
        return browsers.added_to(
            pack, run_id=self.run_id, sandbox=self.sandbox, network_allowed=self.network_allowed, record=record
        )
