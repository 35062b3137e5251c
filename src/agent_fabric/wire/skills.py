"""Skills as JSON objects."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from agent_fabric.domain.tools.skills import SKILL_FILE, Skill
from agent_fabric.wire.shape import Listing, Shape


class SkillLine(NamedTuple):
    """A skill that runs may be offered."""

    name: str
    description: str
    source: Literal["user", "package", "project"]
    """Who has put it there."""
    state: Literal["ready", "needs_trust", "broken"]
    """`needs_trust`: it came with the project, and no one has agreed to its content yet."""
    folder: str
    problems: Sequence[str]
    """What is wrong with it, by the rules of the format."""

    @classmethod
    def of(cls, skill: Skill) -> "SkillLine":
        """Return the line of a skill."""
        state: Literal["ready", "needs_trust", "broken"] = (
            "broken" if skill.problems else "ready" if skill.trusted else "needs_trust"
        )
        return cls(skill.name, skill.description, skill.source.value, state, skill.folder, skill.problems)


class SkillText(NamedTuple):
    """A skill with what it says."""

    skill: SkillLine
    license: str
    compatibility: str
    metadata: Mapping[str, str]
    allowed_tools: Sequence[str]
    """The only tools that a run may use once it has read the skill; empty: it limits none."""
    files: Sequence[str]
    """Beside its instructions."""
    instructions: str
    digest: str
    """Identifies all of its content."""
    signals: Sequence[str]
    """Signs that it gives orders that do not fit instructions, such as `override`; empty: none was found."""

    @classmethod
    def of(cls, skill: Skill) -> "SkillText":
        """Return a skill with what it says."""
        from agent_fabric.domain.policy.injection.scan import signals_in  # noqa: PLC0415 - its words take their time

        return cls(
            skill=SkillLine.of(skill),
            license=skill.license,
            compatibility=skill.compatibility,
            metadata=skill.metadata,
            allowed_tools=skill.allowed_tools,
            files=[path for path in skill.files if path != SKILL_FILE],
            instructions=skill.body,
            digest=skill.digest,
            signals=signals_in(f"{skill.description}\n{skill.body}"),
        )


SKILLS = Listing("skills", Shape(SkillLine), name="SkillList", about="Every skill, also those that are not offered.")
SKILL_TEXT = Shape(SkillText)
