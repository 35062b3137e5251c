"""Builds packs by name.

The research packs and what adds tools are imported when they are asked for: other runs would only pay for them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.runs import RunCatalogue
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.application.ports.sources import Snapshots
from agent_fabric.application.ports.web import PageFetcher, WebSearch
from agent_fabric.config.schema.specialists import SpecialistConfig
from agent_fabric.domain.errors import RecruitError
from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.infrastructure.packs.engineering import build_engineering_pack
from agent_fabric.infrastructure.packs.imported import build_imported

if TYPE_CHECKING:
    from agent_fabric.infrastructure.packs.research import ResearchDesk

SandboxFor = Callable[[RunId, str], Sandbox]
"""Gives the box for a run and its workspace."""


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

    def __init__(
        self,
        specialists: Mapping[str, SpecialistConfig],
        sandbox_for: SandboxFor,
        *,
        shell_timeout_s: float,
        research: ResearchParts,
    ) -> None:
        self._specialists = specialists
        self._sandbox_for = sandbox_for
        self._research = research
        self._built_in: Mapping[str, Callable[[RunId, Sandbox, bool], SpecialistPack]] = {
            "engineering": lambda _, sandbox, __: build_engineering_pack(sandbox, shell_timeout_s=shell_timeout_s),
            "research": self._researcher,
            "enterprise_research": self._enterprise_researcher,
        }

    def names(self) -> Sequence[SpecialistId]:
        return [SpecialistId(name) for name in self._specialists]

    def get_pack(
        self, specialist_id: SpecialistId, *, run_id: RunId, workspace: str, network_allowed: bool
    ) -> SpecialistPack:
        config = self._specialists.get(specialist_id)
        if config is None:
            raise RecruitError(
                f"There is no pack {specialist_id!r}", hint=f"Known packs: {', '.join(self._specialists)}."
            )
        if config.mcp_servers or config.container_image:
            raise RecruitError(
                f"The pack {specialist_id!r} asks for mcp_servers or container_image, which this version cannot give",
                hint="Remove them from the configuration.",
            )
        sandbox = self._sandbox_for(run_id, workspace)
        if config.builder is not None:
            pack = build_imported(
                specialist_id, config.builder, workspace, network_allowed, sandbox=sandbox, run_id=run_id
            )
        else:
            pack = self._builder_of(specialist_id)(run_id, sandbox, network_allowed)
        if not config.tools:
            return pack
        from agent_fabric.infrastructure.packs.added_tools import with_tools  # noqa: PLC0415 - see above

        return with_tools(pack, specialist_id, config.tools, sandbox)

    def _builder_of(self, specialist_id: SpecialistId) -> Callable[[RunId, Sandbox, bool], SpecialistPack]:
        builder = self._built_in.get(specialist_id)
        if builder is None:
            raise RecruitError(
                f"The pack {specialist_id!r} has no `builder` and is not built in",
                hint=f'Set builder: "module:function". Built in: {", ".join(self._built_in)}.',
            )
        return builder

    def _researcher(self, run_id: RunId, sandbox: Sandbox, network_allowed: bool) -> SpecialistPack:
        from agent_fabric.infrastructure.packs.research import build_research_pack  # noqa: PLC0415 - see above

        return build_research_pack(self._research.desk(run_id, sandbox, network_allowed))

    def _enterprise_researcher(self, run_id: RunId, sandbox: Sandbox, network_allowed: bool) -> SpecialistPack:
        from agent_fabric.infrastructure.packs.enterprise_research import (  # noqa: PLC0415 - see above
            build_enterprise_research_pack,
        )

        desk = self._research.desk(run_id, sandbox, network_allowed)
        return build_enterprise_research_pack(desk, self._research.catalogue)
