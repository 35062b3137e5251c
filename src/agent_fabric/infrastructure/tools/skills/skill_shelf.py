"""Finds the skills of a project, of the user and of installed packages."""

import logging
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Final

from agent_fabric.config.files import user_folder
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.tools.skills import Skill, SkillSource
from agent_fabric.infrastructure.tools.skills.skill_folders import read_skill, skills_in
from agent_fabric.infrastructure.tools.trusted_content import TrustedContent, trusted_content

PACKAGES: Final = "agent_fabric.skills"
"""The entry point group under which installed packages bring skills along: a folder, or a package that has them."""
IN_PROJECT: Final = (".agents/skills", ".fabric/skills")
"""Where they lie in a project; the first is shared with other agents."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SkillShelf:
    """All skills that runs of a fabric folder may be offered."""

    project: Path
    """The folder that has the fabric folder in it."""
    environ: Mapping[str, str]
    trust: TrustedContent

    @property
    def own_folder(self) -> Path | None:
        """The user's folder for skills of this program, to which they are added; None for a user without a home."""
        folder = user_folder(self.environ)
        return None if folder is None else folder / "skills"

    def all(self, project: Path | None = None) -> list[Skill]:
        """Return every skill for a project folder, the sound and the others; reads all of their files.

        Raises:
            StoreUnavailable: no one knows what is trusted.
        """
        found: dict[str, Skill] = {}
        for skill in self._read(project):
            found.setdefault(os.path.realpath(skill.folder), skill)
        return sorted(found.values(), key=lambda each: (each.name, _RANKS[each.source]))

    def look(self, folder: Path) -> Skill:
        """Return the skill in any folder, with what is wrong with it."""
        return read_skill(folder.absolute(), SkillSource.USER)

    def add(self, skill: Skill, *, to_project: bool) -> Skill:
        """Copy a skill to the user's own, or into the project.

        Raises:
            ConfigError: there is one of this name, or it cannot be written.
        """
        place = self.project / IN_PROJECT[0] if to_project else self.own_folder
        if place is None:
            raise ConfigError("You have no home folder for skills", hint="Add it to the project: --project")
        target = place / skill.name
        if target.exists():
            raise ConfigError(f"{target} is there already", hint=f"First: fabric skills remove {skill.name}")
        try:
            shutil.copytree(skill.folder, target, symlinks=True)
        except (OSError, shutil.Error) as problem:
            raise ConfigError(f"{target} cannot be written: {problem}") from None
        return read_skill(target, SkillSource.PROJECT if to_project else SkillSource.USER)

    def set_trust(self, skill: Skill, *, trusted: bool) -> None:
        """Remember that a person has agreed to exactly this content, or forget it."""
        if trusted:
            self.trust.add(skill.digest, what=f"skill {skill.folder}")
        else:
            self.trust.remove(skill.digest)

    def remove(self, skill: Skill) -> None:
        """Delete a skill of the user's own.

        Raises:
            ConfigError: it lies elsewhere, or cannot be deleted.
        """
        if self.own_folder is None or Path(skill.folder).parent != self.own_folder:
            raise ConfigError(
                f"The skill {skill.name!r} lies in {skill.folder}, where others have put it", hint="Delete it there."
            )
        try:
            shutil.rmtree(skill.folder)
        except OSError as problem:
            raise ConfigError(f"{skill.folder} cannot be deleted: {problem.strerror or problem}") from None

    def usable(self, project: Path | None = None, wanted: Sequence[str] | None = None) -> tuple[list[Skill], list[str]]:
        """Return the skills that models are told of, one for each name, and the names of those that no one trusts yet.

        What came with the project counts more than the user's own, and that more than a package's; `wanted` names the
        only ones that count, None: all.
        """
        if not self._may_have_any(project):
            return [], []
        found = [each for each in self.all(project) if wanted is None or each.name in wanted]
        chosen: dict[str, Skill] = {}
        for skill in sorted(found, key=lambda each: _RANKS[each.source]):
            if skill.usable:
                chosen.setdefault(skill.name, skill)
        return list(chosen.values()), [each.name for each in found if not each.trusted and not each.problems]

    def _may_have_any(self, project: Path | None) -> bool:
        """Tell at the price of a few looks whether there are any; most runs have none."""
        return any(folder.is_dir() for folder, _ in self._folders(project)) or bool(_entry_points())

    def _read(self, project: Path | None) -> Iterator[Skill]:
        for folder, source in (*self._folders(project), *_of_packages()):
            for skill in skills_in(folder, source):
                known = source is not SkillSource.PROJECT or self.trust.has(skill.digest)
                yield skill if known else replace(skill, trusted=False)

    def _folders(self, project: Path | None) -> Iterator[tuple[Path, SkillSource]]:
        if self.own_folder is not None:
            yield self.own_folder, SkillSource.USER
        home = Path(self.environ.get("HOME", ""))
        if home.is_absolute():
            yield home / ".agents/skills", SkillSource.USER
        for place in dict.fromkeys((project or self.project, self.project)):
            for name in IN_PROJECT:
                yield place / name, SkillSource.PROJECT


_RANKS: Final = {SkillSource.PROJECT: 0, SkillSource.USER: 1, SkillSource.PACKAGE: 2}


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    """Return what installed packages offer; looking takes milliseconds, and nothing is installed meanwhile."""
    return tuple(sorted(entry_points(group=PACKAGES), key=lambda each: each.name))


def _of_packages() -> Iterator[tuple[Path, SkillSource]]:
    for entry in _entry_points():
        try:
            with redirect_stdout(sys.stderr):  # what a package prints must not end up in a command's output
                value = entry.load()
            place = Path(value.__path__[0], "skills") if isinstance(value, ModuleType) else Path(value)
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - third-party code, in a run that may not need it at all
            _log.warning("The skills of the package entry %s cannot be loaded: %r", entry.name, problem)
            continue
        yield place, SkillSource.PACKAGE


def open_shelf(root: Path, environ: Mapping[str, str]) -> SkillShelf:
    """Return the skills for the runs of a fabric folder."""
    return SkillShelf(root.absolute().parent, environ, trusted_content(environ))
