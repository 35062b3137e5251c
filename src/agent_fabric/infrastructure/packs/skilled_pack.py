"""Offers skills beside what a pack can do."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_fabric.application.ports.packs import SpecialistPack
from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.tools.specs import SKILL_TOOL
from agent_fabric.infrastructure.packs.wrapped_pack import WrappedPack

if TYPE_CHECKING:
    from agent_fabric.domain.tools.skills import Skill


class SkilledPack(WrappedPack):
    """Has the tool that reads skills, and one that copies their files if any lies outside of the workspace.

    The skills are as they were when the pack was made: one that changes meanwhile is not read.
    """

    def __init__(
        self,
        inner: SpecialistPack,
        skills: "Sequence[Skill]",
        untrusted: Sequence[str],
        workspace: str,
        sandbox: Sandbox,
    ) -> None:
        super().__init__(inner)
        self._offered = tuple(skills)
        self._untrusted = tuple(untrusted)
        self._workspace = workspace
        self._sandbox = sandbox

    @property
    def skills(self) -> "Sequence[Skill]":
        """The skills on offer."""
        return self._offered

    @property
    def notices(self) -> Sequence[str]:
        """Those of the pack, and which skills of the project no one has looked at yet."""
        names = ", ".join(self._untrusted)
        said = f"Skills of the project that are not trusted, so not offered: {names}. To look: fabric skills show NAME"
        return [*super().notices, said] if names else super().notices

    async def aopen(self) -> None:
        await super().aopen()
        taken = {spec.name for spec in (*self._inner.tool_definitions, *self.hidden_tools)}
        if not self._offered or SKILL_TOOL in taken:
            self._offered = ()
            return
        from agent_fabric.infrastructure.tools.skills.skill_tools import (  # noqa: PLC0415 - most runs have none
            COPY_SKILL,
            SKILL,
            CopySkill,
            ReadSkill,
            by_name,
        )

        skills = by_name(self._offered)
        self.added = (SKILL,)
        self._functions[SKILL.name] = ReadSkill(skills, self._workspace)
        if any(len(each.files) > 1 and not each.folder.startswith(f"{self._workspace}/") for each in self._offered):
            self.added = (SKILL, COPY_SKILL)
            self._functions[COPY_SKILL.name] = CopySkill(skills, self._sandbox)
