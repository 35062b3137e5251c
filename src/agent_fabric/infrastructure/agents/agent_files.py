"""Reads agents from files: JSON, YAML, or Markdown whose front matter is YAML and whose text is the system prompt."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from agent_fabric.config.files import read_text
from agent_fabric.config.formats.syntax import SyntaxProblem
from agent_fabric.config.problems import ConfigProblem
from agent_fabric.domain.agents.check import KnownToAgents, problems_in_agent
from agent_fabric.domain.agents.definition import AgentDefinition, agent_from
from agent_fabric.domain.definitions.problems import AgentInvalid, Problem, did_you_mean, located
from agent_fabric.domain.errors import DefinitionNotFound
from agent_fabric.infrastructure.definitions.links import LEADS_OUT, WHAT_TO_DO, leads_out
from agent_fabric.infrastructure.definitions.positions import Parsed, hint_for, parse_with_spots
from agent_fabric.infrastructure.definitions.spots import Spot, Spots

SUFFIXES: Final = (".json", ".yaml", ".yml", ".md")
MAX_FILES: Final = 1_000
_FENCE: Final = "---"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAgent:
    """A file that is meant to be an agent."""

    path: Path
    name: str
    """As the file says, or after the file if it says nothing that can be used."""
    definition: AgentDefinition | None
    """None: it cannot be used; `problems` say why."""
    plain: Mapping[str, Any] = field(default_factory=dict)
    """What the file says, if it can be used."""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class _Read:
    """What a file holds, checked or not."""

    stamp: tuple[int, ...]
    parsed: Parsed | None
    problem: Problem | None = None

    @property
    def name(self) -> str | None:
        value = self.parsed.value if self.parsed is not None else None
        name = value.get("name") if isinstance(value, Mapping) else None
        return name if isinstance(name, str) else None


class AgentFolder:
    """The agents of some folders. Files are looked at with every question, and read again when they have changed.

    A file that is wrong is reported, and hides no other.
    """

    def __init__(self, folders: Sequence[Path], known: KnownToAgents) -> None:
        self.folders = tuple(dict.fromkeys(folders))
        self._known = known
        self._files: dict[Path, _Read] = {}

    def all(self) -> list[FoundAgent]:
        """Return every file that is meant to be an agent, those that are wrong too, sorted by name."""
        read = self._look()
        return sorted((self._checked(path, each, read) for path, each in read.items()), key=lambda each: each.name)

    def names(self) -> list[str]:
        """Return the names of all agents, sound or not."""
        return sorted({each.name for each in self._look().values() if each.name is not None})

    def get(self, name: str) -> AgentDefinition:
        """Return an agent.

        Raises:
            DefinitionNotFound: there is none of this name.
            AgentInvalid: its file is wrong, or more than one has this name.
        """
        return agent_from(self.plain(name))

    def plain(self, name: str) -> Mapping[str, Any]:
        """Return an agent as its file has it.

        Raises:
            DefinitionNotFound, AgentInvalid: as `get`.
        """
        found = self.find(name)
        if found.definition is None:
            raise AgentInvalid(found.problems, what=f"The agent {found.name!r}")
        return found.plain

    def find(self, name: str) -> FoundAgent:
        """Return the file of an agent, sound or not.

        Raises:
            DefinitionNotFound: there is none of this name.
        """
        read = self._look()
        for path, each in read.items():
            if each.name == name or (each.name is None and path.stem == name):
                return self._checked(path, each, read)
        known = sorted({each.name for each in read.values() if each.name is not None})
        where = ", ".join(map(str, self.folders)) or "no folder"
        hint = did_you_mean(name, known, otherwise=f"Agents: {', '.join(known) or 'none'}. Looked in {where}.")
        raise DefinitionNotFound(f"There is no agent {name!r}", hint=hint)

    def check(self, path: Path) -> FoundAgent:
        """Check one file, wherever it lies, beside the agents of the folders."""
        read = self._look()
        path = path.absolute()
        if path not in read:
            read = {**read, path: _read(path, ())}
        return self._checked(path, read[path], read)

    def check_text(self, path: Path, text: str) -> FoundAgent:
        """Check what would stand in a file, beside the agents of the folders, whose place it may take."""
        read = _parsed(path, text, ())
        return self._checked(path, read, {**self._look(), path: read}, replaces=True)

    def _look(self) -> dict[Path, _Read]:
        """Bring what is known up to date."""
        before, now = self._files, dict[Path, _Read]()
        for folder in self.folders:
            for path, stamp in _files_in(folder) if not leads_out(folder) else ():
                known = before.get(path)
                if leads_out(path):
                    wrong = Problem(path=(), message=LEADS_OUT, hint=WHAT_TO_DO, file=str(path))
                    now[path] = _Read(stamp, None, wrong)
                else:
                    now[path] = known if known is not None and known.stamp == stamp else _read(path, stamp)
        self._files = now
        return now

    def _checked(
        self, path: Path, read: _Read, everything: Mapping[Path, _Read], *, replaces: bool = False
    ) -> FoundAgent:
        name = read.name or path.stem
        if read.parsed is None:
            assert read.problem is not None
            return FoundAgent(path=path, name=name, definition=None, problems=(read.problem,))
        names = frozenset(each.name for each in everything.values() if each.name is not None)
        problems = problems_in_agent(read.parsed.value, replace(self._known, agents=names))
        others = [str(other) for other, each in everything.items() if other != path and each.name == read.name]
        if read.name is not None and others and not replaces:
            message = f"more than one agent is named {read.name!r}: also in {', '.join(others)}"
            problems.append(Problem(path=("name",), message=message, hint="Rename or remove one of them."))
        if problems:
            return FoundAgent(path=path, name=name, definition=None, problems=_placed(problems, read.parsed, path))
        plain = read.parsed.value
        return FoundAgent(path=path, name=name, definition=agent_from(plain), plain=plain)


def _placed(problems: Sequence[Problem], parsed: Parsed, path: Path) -> tuple[Problem, ...]:
    spots = parsed.spots()
    found = [(spots.find(problem.path), problem) for problem in problems]
    return tuple(located(each, file=str(path), line=spot.line, column=spot.column) for spot, each in found)


def _files_in(folder: Path) -> list[tuple[Path, tuple[int, ...]]]:
    try:
        names = sorted(name for name in os.listdir(folder) if _is_meant(name))[:MAX_FILES]  # noqa: PTH208 - only names
    except OSError:
        return []  # a folder that is not there has no agents
    found: list[tuple[Path, tuple[int, ...]]] = []
    for name in names:
        path = (folder / name).absolute()
        try:
            stat = path.stat()
        except OSError:
            continue  # gone in this moment, or a link to nowhere
        found.append((path, (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino)))
    return found


def _is_meant(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(".") and name.upper() not in {"README.MD", "AGENTS.MD"}


def _read(path: Path, stamp: tuple[int, ...]) -> _Read:
    try:
        text = read_text(path)
    except ConfigProblem as problem:
        return _Read(stamp, None, Problem(path=(), message=problem.message, hint=problem.hint, file=str(path)))
    return _parsed(path, text, stamp)


def _parsed(path: Path, text: str, stamp: tuple[int, ...]) -> _Read:
    suffix = path.suffix
    try:
        return _Read(stamp, _parse_markdown(text) if suffix == ".md" else parse_with_spots(text, suffix))
    except SyntaxProblem as problem:
        hint = hint_for(problem, text, suffix)
        wrong = Problem(path=(), message=problem.message, hint=hint)
        return _Read(stamp, None, located(wrong, file=str(path), line=problem.line, column=problem.column))


def _parse_markdown(text: str) -> Parsed:
    """Return front matter and text as one definition.

    Raises:
        SyntaxProblem: there is no front matter, or it is no YAML.
    """
    lines = text.splitlines()
    end = next((nth for nth, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), 0)
    if not lines or lines[0].rstrip() != _FENCE or not end:
        raise SyntaxProblem(
            "it does not begin with front matter: `---`, `name: my-agent`, `---`, then the prompt", line=1
        )
    # A line in the place of the fence, so that lines keep their numbers.
    front = parse_with_spots("\n".join(["#", *lines[1:end]]), ".yaml")
    body = "\n".join(lines[end + 1 :]).strip()
    if not body or not isinstance(front.value, Mapping):
        return front
    prompts = front.value.get("prompts") or {}
    if not isinstance(prompts, Mapping):
        return front
    if prompts.get("system"):
        raise SyntaxProblem("the system prompt is there twice: under `prompts.system`, and as text", line=end + 2)
    value: dict[str, Any] = {**front.value, "prompts": {**prompts, "system": body}}
    return Parsed(value, lambda: _with_body(front.spots(), end + 2))


def _with_body(spots: Spots, line: int) -> Spots:
    prompts = spots.inside.setdefault("prompts", Spots(Spot(line, 1)))
    prompts.inside["system"] = Spots(Spot(line, 1))
    return spots
