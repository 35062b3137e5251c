"""Specialists, seen from the engine."""

from asyncio import CancelledError
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.runs.task import AgentBrief
from agent_fabric.domain.tools.specs import ToolSpec

if TYPE_CHECKING:  # most runs have none
    from agent_fabric.domain.tools.skills import Skill


class StillRunning(CancelledError):
    """A tool's call was cancelled, and what it has begun cannot be ended: a plain function on a thread."""


class SpecialistPack(Protocol):
    """A system prompt, tools and a finish schema, alive for one run.

    What executes the tools is deliberately not part of this: only `invoke_tool` can see it (see `ports.tools`).
    """

    @property
    def system_prompt(self) -> str:
        """How the specialist works."""
        ...

    @property
    def tool_definitions(self) -> Sequence[ToolSpec]:
        """The tools on offer, complete once the pack is open. `finish_task` is not among them."""
        ...

    @property
    def finish(self) -> FinishSpec:
        """How its tasks end."""
        ...

    @property
    def compact_prompt(self) -> str | None:
        """The system prompt for models that are small or slow; None: the same one."""
        ...

    @property
    def compact_tools(self) -> Sequence[ToolSpec] | None:
        """The tools for such models; None: all."""
        ...

    @property
    def hidden_tools(self) -> Sequence[ToolSpec]:
        """Tools that are not offered, but answer if a model calls them all the same."""
        ...

    @property
    def notices(self) -> Sequence[str]:
        """What a person should know about it; complete once the pack is open."""
        ...

    @property
    def sandbox_level(self) -> str:
        """Level of the sandbox that its commands run in, which policy judges by; empty: that of the run."""
        ...

    @property
    def skills(self) -> "Sequence[Skill]":
        """Skills that its model is told of; complete once the pack is open."""
        ...

    async def aopen(self) -> None:
        """Start what the tools need. `aclose` is called even when this fails half way."""
        ...

    async def aclose(self) -> None:
        """End everything that `aopen` started."""
        ...


class SpecialistRegistry(Protocol):
    """Knows the packs."""

    def names(self) -> Sequence[SpecialistId]:
        """Return the ids of all packs, in the order of the configuration."""
        ...

    def get_pack(
        self,
        specialist_id: SpecialistId,
        *,
        run_id: RunId,
        workspace: str,
        network_allowed: bool,
        agent: AgentBrief | None = None,
    ) -> SpecialistPack:
        """Return a fresh pack that works in `workspace`; with `agent`, that agent as a pack, whatever its file says.

        Raises:
            RecruitError: there is no such pack, or it cannot be built.
        """
        ...
