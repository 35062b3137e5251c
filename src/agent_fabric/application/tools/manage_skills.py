"""Lets a person see, add, trust and remove skills."""

from collections.abc import Sequence
from pathlib import Path

from agent_fabric.application.ports.skills import SkillShelf
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, DefinitionNotFound
from agent_fabric.domain.tools.skills import Skill, SkillSource


@dataclass(frozen=True, slots=True)
class ManageSkills:
    """Use case: look after the skills that runs are offered."""

    shelf: SkillShelf

    def all(self) -> Sequence[Skill]:
        """Return every skill by name; of several with one name, the first that can be used is offered."""
        return self.shelf.all()

    def find(self, name: str) -> Skill:
        """Return the skill of a name: the one that runs are offered, else one that they are not.

        Raises:
            DefinitionNotFound: there is none.
        """
        found = sorted((each for each in self.shelf.all() if each.name == name), key=lambda each: not each.usable)
        if not found:
            known = ", ".join(dict.fromkeys(each.name for each in self.shelf.all()))
            raise DefinitionNotFound(
                f"There is no skill {name!r}",
                hint=f"There are: {known}." if known else "There are none; see docs/guides/skills.md.",
            )
        return found[0]

    def find_to_trust(self, name: str) -> Skill:
        """Return the skill of a name that a person has to look at; one that needs no trust is returned as it is.

        Raises:
            DefinitionNotFound: there is none.
        """
        waiting = [each for each in self.shelf.all() if each.name == name and not each.trusted]
        return waiting[0] if waiting else self.find(name)

    def trust(self, skill: Skill) -> Skill:
        """Let runs be offered a skill of the project, as it is now.

        Raises:
            ConfigError: it is broken.
        """
        if skill.problems:
            raise ConfigError(f"The skill {skill.name!r} is broken: {skill.problems[0]}", hint="Mend it first.")
        if not skill.trusted:
            self.shelf.set_trust(skill, trusted=True)
        return self.find(skill.name)

    def add(self, folder: Path, *, to_project: bool) -> Skill:
        """Copy a skill to the user's own, or into the project, where it is trusted as it is.

        Raises:
            ConfigError: it is broken, there is one of this name, or it cannot be written.
        """
        skill = self.shelf.look(folder)
        if skill.problems:
            raise ConfigError(f"{folder} is no skill: {'; '.join(skill.problems)}", hint="See docs/guides/skills.md.")
        added = self.shelf.add(skill, to_project=to_project)
        if to_project:
            self.shelf.set_trust(added, trusted=True)
        return added

    def remove(self, name: str) -> Skill:
        """Delete a skill of the user's own, or no longer trust one of the project; return which it was.

        Raises:
            DefinitionNotFound: there is none.
            ConfigError: a package brought it along, it lies in a folder of other agents, or it cannot be deleted.
        """
        skill = self.find(name)
        if skill.source is SkillSource.PROJECT:
            self.shelf.set_trust(skill, trusted=False)
        else:
            self.shelf.remove(skill)
        return skill
