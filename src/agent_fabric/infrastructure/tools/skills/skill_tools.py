"""The tools by which a model reads skills, and has their files copied."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agent_fabric.application.ports.sandbox import Sandbox
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.tools.skills import COPY_SKILL_TOOL, SKILL_FILE, Skill
from agent_fabric.domain.tools.specs import SKILL_TOOL, Effect, ToolContext, ToolResult, ToolSpec, Trust, object_schema
from agent_fabric.infrastructure.tools.skills.skill_folders import (
    MAX_TEXT_BYTES,
    BrokenSkill,
    read_bytes,
)
from agent_fabric.infrastructure.tools.trusted_content import digest_of

_MAX_NAMED: Final = 60
"""Files of a skill that a model is told of."""

SKILL: Final = ToolSpec(
    name=SKILL_TOOL,
    description="Read a skill: instructions for a certain kind of work. With `file`, read one of its files.",
    parameters=object_schema(
        {
            "name": {"type": "string", "description": "The skill; without it, all are listed"},
            "file": {"type": "string", "description": "A file of the skill, such as references/forms.md"},
        }
    ),
    effect=Effect.READS,
    trust=Trust.OWNER,
)
COPY_SKILL: Final = ToolSpec(
    name=COPY_SKILL_TOOL,
    description="Copy the files of a skill into the workspace, such as scripts that are to be run.",
    parameters=object_schema(
        {
            "name": {"type": "string", "description": "The skill"},
            "to": {"type": "string", "description": "Folder in the workspace"},
        },
        ["name", "to"],
    ),
    effect=Effect.IDEMPOTENT,
    path_arguments=("to",),
    trust=Trust.OWNER,
)


@dataclass(frozen=True, slots=True)
class ReadSkill:
    """Tool: return the instructions of a skill, or the text of one of its files."""

    skills: Mapping[str, Skill]
    workspace: str

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG002 - as every tool
        name, file = str(args.get("name") or ""), str(args.get("file") or "")
        if not name:
            return ToolResult(output={"skills": {each.name: each.description for each in self.skills.values()}})
        skill = _find(self.skills, name)
        if file and file != SKILL_FILE:
            return ToolResult(
                output={"skill": name, "file": file, "content": await asyncio.to_thread(_text, skill, file)}
            )
        await asyncio.to_thread(_read_checked, skill, SKILL_FILE)
        inside = skill.folder.startswith(f"{self.workspace}/")
        others = [path for path in skill.files if path != SKILL_FILE]
        output: dict[str, Any] = {"skill": name, "instructions": skill.body}
        if skill.allowed_tools:
            output["allowed_tools"] = " ".join(skill.allowed_tools)
        if others:
            more = f" and {len(others) - _MAX_NAMED} more" if len(others) > _MAX_NAMED else ""
            output["files"] = ", ".join(others[:_MAX_NAMED]) + more
            output["folder"] = (
                skill.folder.removeprefix(f"{self.workspace}/")
                if inside
                else f"outside the workspace: `{SKILL_TOOL}` with `file` reads a file, `{COPY_SKILL_TOOL}` copies all"
            )
        return ToolResult(output=output)


@dataclass(frozen=True, slots=True)
class CopySkill:
    """Tool: put the files of a skill into the workspace."""

    skills: Mapping[str, Skill]
    sandbox: Sandbox

    async def __call__(self, args: Mapping[str, Any], context: ToolContext) -> ToolResult:  # noqa: ARG002 - as every tool
        skill, to = _find(self.skills, str(args["name"])), str(args["to"]).rstrip("/") or "."
        wrote = []
        for path in skill.files:
            data = await asyncio.to_thread(_read_checked, skill, path)
            await self.sandbox.write_file(f"{to}/{path}", data)
            wrote.append(f"{to}/{path}")
        return ToolResult(output={"skill": skill.name, "to": to, "files": len(wrote)}, changed=True, wrote=tuple(wrote))


def _find(skills: Mapping[str, Skill], name: str) -> Skill:
    skill = skills.get(name)
    if skill is None:
        raise ValueError(f"there is no skill {name!r}; there are: {', '.join(skills)}")
    return skill


def _text(skill: Skill, path: str) -> str:
    data = _read_checked(skill, path)
    if len(data) > MAX_TEXT_BYTES:
        raise ValueError(f"{path} has {len(data):,} bytes, too many to be read; `{COPY_SKILL_TOOL}` copies it")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text") from None


def _read_checked(skill: Skill, path: str) -> bytes:
    """Return what a file of a skill holds, if that is still what it was when the skill was looked at."""
    if path not in skill.files:
        raise ValueError(
            f"the skill {skill.name!r} has no file {path!r}; it has: {', '.join(list(skill.files)[:_MAX_NAMED])}"
        )
    try:
        data = read_bytes(Path(skill.folder), path)
    except BrokenSkill as problem:
        raise ValueError(str(problem)) from None
    if digest_of(data) != skill.files[path]:
        raise PermissionError(
            f"{path} of the skill {skill.name!r} has changed meanwhile; a person has to look at it first"
        )
    return data


def by_name(skills: Sequence[Skill]) -> dict[str, Skill]:
    """Return skills by their names."""
    return {each.name: each for each in skills}
