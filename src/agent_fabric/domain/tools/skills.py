"""Skills: folders of instructions for certain kinds of work, in the open Agent Skills format."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.tools.allowlists import Allowlists
from agent_fabric.domain.tools.specs import SKILL_TOOL

SKILL_FILE: Final = "SKILL.md"
COPY_SKILL_TOOL: Final = "copy_skill"
"""The tool by which files of one come into the workspace."""
MAX_NAME: Final = 64
MAX_DESCRIPTION: Final = 1024
MAX_COMPATIBILITY: Final = 500
FIELDS: Final = frozenset({"name", "description", "license", "compatibility", "metadata", "allowed-tools"})
"""What may stand in the front matter."""

WINDOW_SHARE: Final = 0.02
"""Of a model's window, for names and descriptions."""
_CHARS_PER_TOKEN: Final = 4
_USUAL_WINDOW: Final = 8_192
"""Tokens, where the window is not known."""
_INTRODUCTION: Final = "Skills. When one fits the task, call `skill` with its name before anything else, and follow it:"


class SkillSource(StrEnum):
    """Who has put a skill there."""

    USER = "user"
    """The person: in a folder of their own."""
    PACKAGE = "package"
    """An installed package."""
    PROJECT = "project"
    """It came with the project, so it counts once a person has trusted its content."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """A skill as it lies in its folder."""

    name: str
    description: str
    folder: str
    source: SkillSource
    body: str = ""
    license: str = ""
    compatibility: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    allowed_tools: tuple[str, ...] = ()
    """The only tools that may be used once it was read; empty: it limits none."""
    files: Mapping[str, str] = field(default_factory=dict)
    """All its files, with what identifies the content of each."""
    digest: str = ""
    """Identifies all of its content."""
    problems: tuple[str, ...] = ()
    """What is wrong with it, by the rules of the format; it is offered only without any."""
    trusted: bool = True
    """Whether a person has put it there, or has agreed to exactly this content."""

    @property
    def usable(self) -> bool:
        """Whether models are told of it."""
        return self.trusted and not self.problems


def problems_of(fields: Mapping[Any, Any], folder: str) -> list[str]:
    """Return what is wrong with the front matter of a skill, by the rules of the format's own validator."""
    problems = []
    if unknown := sorted(str(each) for each in fields.keys() - FIELDS):
        problems.append(f"unknown fields: {', '.join(unknown)}; there are {', '.join(sorted(FIELDS))}")
    problems += _name_problems(fields.get("name"), folder)
    problems += _text_problems("description", fields.get("description"), MAX_DESCRIPTION)
    if "compatibility" in fields:
        problems += _text_problems("compatibility", fields["compatibility"], MAX_COMPATIBILITY)
    if "license" in fields and not isinstance(fields["license"], str):
        problems.append("license must be text")
    metadata = fields.get("metadata", {})
    if not isinstance(metadata, Mapping):
        problems.append("metadata must be a mapping")
    allowed = fields.get("allowed-tools", "")
    entries = allowed if isinstance(allowed, list) else [allowed]
    if not all(isinstance(each, str) for each in entries):
        problems.append("allowed-tools must be text, or a list of texts")
    return problems


def _name_problems(name: Any, folder: str) -> list[str]:
    if not isinstance(name, str) or not name.strip():
        return ["name is missing" if name is None else "name must be text that is not empty"]
    plain = unicodedata.normalize("NFKC", name.strip())
    checks = (
        (len(plain) > MAX_NAME, f"name has {len(plain)} characters; at most {MAX_NAME} are allowed"),
        (plain != plain.lower(), "name must be in lower case"),
        (plain.startswith("-") or plain.endswith("-"), "name must not begin or end with a hyphen"),
        ("--" in plain, "name must not have two hyphens in a row"),
        (not all(char.isalnum() or char == "-" for char in plain), "name may have letters, digits and hyphens only"),
        (unicodedata.normalize("NFKC", folder) != plain, f"name is {plain!r}, but its folder is {folder!r}"),
    )
    return [problem for is_wrong, problem in checks if is_wrong]


def _text_problems(what: str, text: Any, most: int) -> list[str]:
    if not isinstance(text, str) or not text.strip():
        return [f"{what} is missing" if text is None else f"{what} must be text that is not empty"]
    return [f"{what} has {len(text)} characters; at most {most} are allowed"] if len(text) > most else []


def catalogue(skills: Sequence[Skill], window: int | None) -> str:
    """Return what a model is told of skills at the start: names and descriptions, in 2 % of its window."""
    if not skills:
        return ""
    most = int((window or _USUAL_WINDOW) * _CHARS_PER_TOKEN * WINDOW_SHARE) - len(_INTRODUCTION)
    for chars in (MAX_DESCRIPTION, 240, 120, 60):
        lines = [f"- {each.name}: {_cut(' '.join(each.description.split()), chars)}" for each in skills]
        if sum(len(line) + 1 for line in lines) <= most:
            return "\n".join((_INTRODUCTION, *lines))
    kept, left = [], most
    for name in (each.name for each in skills):
        left -= len(name) + 2
        if left < len(_MORE):
            break
        kept.append(name)
    more = [_MORE] if len(kept) < len(skills) else []
    return f"{_INTRODUCTION} {', '.join((*kept, *more))}"


_MORE: Final = "and others, which `skill` without a name lists"


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[: chars - 1].rstrip()}…"


_OURS: Final[Mapping[str, tuple[str, ...]]] = {
    "bash": ("shell",),
    "read": ("read_file", "look"),
    "write": ("write_file", "write"),
    "edit": ("edit_file", "fix_line"),
    "multiedit": ("edit_file", "fix_line"),
    "glob": ("list_files", "look"),
    "ls": ("list_files", "look"),
    "grep": ("search_files",),
    "webfetch": ("fetch_url",),
    "websearch": ("web_search",),
}
"""How skills that were written for other agents call our tools."""
_ALWAYS: Final = (SKILL_TOOL, "finish_task")


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedTools:
    """What may be used once a skill was read; it narrows what the run may do anyway, and never widens it."""

    skill: str
    tools: frozenset[str]
    commands: tuple[str, ...] = ()
    """Programs that commands may start; empty: any."""

    @property
    def limits(self) -> tuple[Allowlists, ...]:
        """The same for commands, as the policy knows it."""
        return (Allowlists(commands=self.commands, owner=f"the skill {self.skill}"),) if self.commands else ()


_ENTRY: Final = re.compile(r"[^\s,()]+(?:\([^)]*\))?")
"""Blanks and commas part them, but not within `Bash(git status)`."""


def split_allowed(text: str) -> tuple[str, ...]:
    """Return the entries of `allowed-tools`."""
    return tuple(_ENTRY.findall(text))


def allowed_by(skill: str, allowed: Sequence[str]) -> AllowedTools | None:
    """Return what `allowed-tools` of a skill leaves; None: it says nothing."""
    if not allowed:
        return None
    tools, commands, any_command = set(_ALWAYS), [], False
    for each in allowed:
        name, _, pattern = each.rstrip(")").partition("(")
        ours = _OURS.get(name.casefold(), (name,))
        tools.update(ours)
        if "shell" in ours:
            program = pattern.split(":")[0].split(" ")[0].strip()
            any_command = any_command or program in {"", "*"}
            commands.append(program)
    return AllowedTools(skill=skill, tools=frozenset(tools), commands=() if any_command else tuple(commands))
