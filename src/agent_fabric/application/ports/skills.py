"""Where skills lie."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from agent_fabric.domain.tools.skills import Skill


class SkillShelf(Protocol):
    """The skills of a project, of the user and of installed packages, and which of the project's a person trusts."""

    def all(self, project: Path | None = None) -> Sequence[Skill]:
        """Return every skill by name, the sound and the others.

        Raises:
            StoreUnavailable: no one knows what is trusted.
        """
        ...

    def look(self, folder: Path) -> Skill:
        """Return the skill in any folder, with what is wrong with it."""
        ...

    def add(self, skill: Skill, *, to_project: bool) -> Skill:
        """Copy a skill to the user's own, or into the project.

        Raises:
            ConfigError: there is one of this name, or it cannot be written.
        """
        ...

    def set_trust(self, skill: Skill, *, trusted: bool) -> None:
        """Remember that a person has agreed to exactly this content, or forget it."""
        ...

    def remove(self, skill: Skill) -> None:
        """Delete a skill of the user's own.

        Raises:
            ConfigError: it lies elsewhere, or cannot be deleted.
        """
        ...
