"""Skills that the server's runs are offered. They are added and trusted at the server's own terminal only."""

import asyncio
from collections.abc import Iterable
from typing import Annotated

from fastapi import Path

from agent_fabric.application.tools.manage_skills import ManageSkills
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.bootstrap.this_machine import open_skills
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.identity.principals import Scope
from agent_fabric.domain.tools.skills import MAX_NAME
from agent_fabric.interfaces.http.routing import Routes
from agent_fabric.interfaces.http.tools.tool_servers import add_tool_servers
from agent_fabric.wire.skills import SKILL_TEXT, SKILLS, SkillLine, SkillText

PATH = "/api/v1/skills"
NamePath = Annotated[str, Path(max_length=MAX_NAME, description="The name of a skill.")]


def add_tools(routes: Routes, config: FabricConfig, local: LocalFabric) -> None:
    """Add the routes about skills and tool servers."""
    add_skills(routes.with_tag("skills"), open_skills(local.records.layout.root))
    add_tool_servers(routes.with_tag("tool servers"), config, local)


def add_skills(routes: Routes, skills: ManageSkills) -> None:
    """Add the routes."""

    @routes.get(PATH, Scope.RUNS_READ, "List skills", SKILLS, fails=[503])
    async def list_skills() -> Iterable[SkillLine]:
        """Answer with those that are not offered, too, and why."""
        return [SkillLine.of(each) for each in await asyncio.to_thread(skills.all)]

    @routes.get(f"{PATH}/{{name}}", Scope.RUNS_READ, "Show a skill", SKILL_TEXT, fails=[404, 503])
    async def show(name: NamePath) -> SkillText:
        """Answer with what it says. Models are told of it only if its state is `ready`."""
        return SkillText.of(await asyncio.to_thread(skills.find, name))
