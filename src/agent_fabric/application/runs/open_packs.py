"""The packs that a drive has opened."""

import asyncio
from dataclasses import field

from agent_fabric.application.ports.packs import SpecialistPack, SpecialistRegistry
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import FabricError, PackBroken
from agent_fabric.domain.ids import SpecialistId
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.tools.specs import ToolSpec


@dataclass(slots=True)
class OpenPacks:
    """The packs that a drive has opened; closed together, one failure never keeping the others open."""

    opened: dict[SpecialistId, SpecialistPack] = field(default_factory=dict)
    _started: list[SpecialistPack] = field(default_factory=list)
    _opening: "dict[SpecialistId, asyncio.Task[SpecialistPack]]" = field(default_factory=dict)

    async def open_once(
        self, specialist_id: SpecialistId, state: RunState, registry: SpecialistRegistry
    ) -> SpecialistPack:
        """Open a pack that several lanes share; a lane that comes while it is being opened waits for it.

        Raises:
            RecruitError: as `open`.
        """
        opening = self._opening.get(specialist_id)
        if opening is None:
            opening = self._opening[specialist_id] = asyncio.create_task(self.open(specialist_id, state, registry))
        return await asyncio.shield(opening)

    async def open(self, specialist_id: SpecialistId, state: RunState, registry: SpecialistRegistry) -> SpecialistPack:
        """Open a pack for the run.

        Raises:
            RecruitError: it cannot be built or opened.
        """
        assert state.task is not None
        pack = registry.get_pack(
            specialist_id,
            run_id=state.run_id,
            workspace=state.workspace,
            network_allowed=state.task.network_allowed,
            agent=state.task.agent,
        )
        self._started.append(pack)  # before opening, so that a pack that opened half way is closed as well
        try:
            await pack.aopen()
        except FabricError:
            raise
        except Exception as problem:
            raise PackBroken(
                f"The pack {specialist_id!r} could not start: {type(problem).__name__}: {problem}",
                hint="Look at what its `aopen` does, and at what it needs.",
            ) from problem
        _require_sound(specialist_id, pack)
        self.opened[specialist_id] = pack
        return pack

    async def close(self) -> None:
        """Close every pack that was started."""
        for opening in self._opening.values():
            opening.cancel()
        await asyncio.gather(*self._opening.values(), return_exceptions=True)
        self._opening.clear()
        await asyncio.gather(*(pack.aclose() for pack in self._started), return_exceptions=True)
        self._started.clear()
        self.opened.clear()


def _require_sound(specialist_id: SpecialistId, pack: SpecialistPack) -> None:
    """Make sure that a pack, which is anyone's code, gives what it must: what is recorded of it drives the run."""
    problems = [
        what
        for what, sound in (
            ("`system_prompt` is not text", isinstance(pack.system_prompt, str)),
            ("`finish` is not a FinishSpec", isinstance(pack.finish, FinishSpec)),
            ("`tool_definitions` are not ToolSpecs", all(isinstance(each, ToolSpec) for each in pack.tool_definitions)),
        )
        if not sound
    ]
    if problems:
        raise PackBroken(
            f"The pack {specialist_id!r} is not sound: {', '.join(problems)}",
            hint="See docs/guides/write-a-pack.md for what a pack must have.",
        )
