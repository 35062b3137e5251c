"""Reads skills from their folders. Nothing outside of a skill's folder is read, and links are not followed."""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from agent_fabric.config.files import read_beginning
from agent_fabric.config.formats.syntax import SyntaxProblem
from agent_fabric.domain.tools.skills import SKILL_FILE, Skill, SkillSource, problems_of, split_allowed
from agent_fabric.infrastructure.definitions.front_matter import FrontMatter, split_front_matter
from agent_fabric.infrastructure.tools.trusted_content import digest_of

MAX_SKILLS: Final = 200
"""In one folder of skills; others are left out."""
MAX_FILES: Final = 200
"""Of one skill."""
MAX_SKILL_BYTES: Final = 10_000_000
"""Of all files of one skill."""
MAX_TEXT_BYTES: Final = 256 * 1024
"""Of SKILL.md, and of a file that a model reads."""


class BrokenSkill(Exception):
    """What lies there cannot be read as a skill."""


def skills_in(folder: Path, source: SkillSource) -> Iterator[Skill]:
    """Yield the skills below a folder, by name; broken ones say what is wrong."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(each.name for each in entries if each.is_dir(follow_symlinks=False))
    except OSError:
        return
    for name in names[:MAX_SKILLS]:
        if os.path.lexists(folder / name / SKILL_FILE):
            yield read_skill(folder / name, source)


def read_skill(folder: Path, source: SkillSource) -> Skill:
    """Return the skill in a folder; what is wrong with it stands in its `problems`."""
    try:
        files = _files_of(folder)
        text = read_text(folder, SKILL_FILE)
        fields, body = _parse(text)
    except BrokenSkill as problem:
        return Skill(name=folder.name, description="", folder=str(folder), source=source, problems=(str(problem),))
    allowed = fields.get("allowed-tools", "")
    metadata = fields.get("metadata", {})
    return Skill(
        name=_plain(fields.get("name")) or folder.name,
        description=_plain(fields.get("description")),
        folder=str(folder),
        source=source,
        body=body.strip(),
        license=_plain(fields.get("license")),
        compatibility=_plain(fields.get("compatibility")),
        metadata={str(key): str(value) for key, value in metadata.items()} if isinstance(metadata, Mapping) else {},
        allowed_tools=_split(allowed),
        files=files,
        digest=_digest(files),
        problems=tuple(problems_of(fields, folder.name)),
    )


def read_text(folder: Path, path: str) -> str:
    """Return the text of a file of a skill.

    Raises:
        BrokenSkill: it is no plain text file, or too long.
    """
    data = _read(folder, path, MAX_TEXT_BYTES)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BrokenSkill(f"{path} is not UTF-8 text") from None


def read_bytes(folder: Path, path: str) -> bytes:
    """Return what a file of a skill holds.

    Raises:
        BrokenSkill: it is no plain file.
    """
    return _read(folder, path, MAX_SKILL_BYTES)


def _read(folder: Path, path: str, most: int) -> bytes:
    at = folder
    for part in Path(path).parts:
        at /= part
        if at.is_symlink() or part == "..":
            raise BrokenSkill(f"{path} is a link, or leads out of the skill")
    try:
        data = read_beginning(at, most)
    except (OSError, ValueError) as problem:
        raise BrokenSkill(f"{path} cannot be read: {getattr(problem, 'strerror', None) or problem}") from None
    if data is None:
        raise BrokenSkill(f"{path} is not a file")
    if len(data) > most:
        raise BrokenSkill(f"{path} is longer than {most:,} bytes")
    return data


def _files_of(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    size = 0
    for at, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted((*names, *(each for each in folders if Path(at, each).is_symlink()))):
            path = Path(at, name)
            status = path.lstat()
            shown = path.relative_to(folder).as_posix()
            if not stat.S_ISREG(status.st_mode):
                raise BrokenSkill(f"{shown} is a link, or no plain file")
            size += status.st_size
            if len(found) >= MAX_FILES or size > MAX_SKILL_BYTES:
                raise BrokenSkill(f"it has more than {MAX_FILES} files, or more than {MAX_SKILL_BYTES:,} bytes")
            found[shown] = digest_of(read_bytes(folder, shown))
    return found


def _digest(files: Mapping[str, str]) -> str:
    return digest_of("\n".join(f"{digest} {path}" for path, digest in sorted(files.items())).encode())


def _parse(text: str) -> FrontMatter:
    try:
        return split_front_matter(text)
    except SyntaxProblem as problem:
        raise BrokenSkill(f"{SKILL_FILE}: {problem.message}") from None


def _plain(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""


def _split(value: Any) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(str(each).strip() for each in value)
    return split_allowed(value) if isinstance(value, str) else ()
