"""Reads agents from files: JSON, YAML, or Markdown whose front matter is YAML and whose text is the system prompt."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from agent_fabric.application.ports.workflows import FoundAgent
from agent_fabric.config.formats.syntax import SyntaxProblem
from agent_fabric.domain.agents.check import KnownToAgents, problems_in_agent
from agent_fabric.domain.agents.definition import AgentDefinition, agent_from
from agent_fabric.domain.definitions.problems import AgentInvalid, Problem, did_you_mean
from agent_fabric.domain.errors import DefinitionNotFound
from agent_fabric.infrastructure.definitions.files import DefinitionFile, DefinitionFiles, parse_text, read_file
from agent_fabric.infrastructure.definitions.positions import Parsed, Spot, Spots, parse_with_spots

SUFFIXES: Final = (".json", ".yaml", ".yml", ".md")
_NOT_AGENTS: Final = frozenset({"README.MD", "AGENTS.MD"})
_FENCE: Final = "---"


class AgentFolder:
    """The agents of some folders. Files are looked at with every question, and read again when they have changed.

    A file that is wrong is reported, and hides no other.
    """

    def __init__(self, folders: Sequence[Path], known: KnownToAgents) -> None:
        self._files = DefinitionFiles([folder.absolute() for folder in folders], _is_meant, _parse)
        self._known = known

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where agents are looked for."""
        return self._files.folders

    def all(self) -> list[FoundAgent]:
        """Return every file that is meant to be an agent, those that are wrong too, sorted by name."""
        files = self._look()
        return sorted((self._check_file(each, files) for each in files.values()), key=lambda each: each.name)

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
        files = self._look()
        for path, each in files.items():
            if each.name == name or (not each.name and path.stem == name):
                return self._check_file(each, files)
        known = sorted({each.name for each in files.values() if each.name})
        where = ", ".join(map(str, self.folders)) or "no folder"
        hint = did_you_mean(name, known, otherwise=f"Agents: {', '.join(known) or 'none'}. Looked in {where}.")
        raise DefinitionNotFound(f"There is no agent {name!r}", hint=hint)

    def check(self, path: Path) -> FoundAgent:
        """Check one file, wherever it lies, beside the agents of the folders."""
        path = path.absolute()
        files = self._look()
        file = files.get(path) or read_file(path, _parse)
        return self._check_file(file, {**files, path: file})

    def check_text(self, path: Path, text: str) -> FoundAgent:
        """Check what would stand in a file, beside the agents of the folders, whose place it may take."""
        file = parse_text(path, text, _parse)
        return self._check_file(file, {**self._look(), path: file}, replaces=True)

    def _look(self) -> dict[Path, DefinitionFile]:
        files = self._files.look()[1]
        return {path: each for path, each in files.items() if each.parsed is not None or path.exists()}

    def _check_file(
        self, file: DefinitionFile, files: Mapping[Path, DefinitionFile], *, replaces: bool = False
    ) -> FoundAgent:
        path, name = file.path, file.name or file.path.stem
        if file.parsed is None:
            return FoundAgent(path=path, name=name, definition=None, problems=file.problems)
        names = frozenset(each.name for each in files.values() if each.name)
        problems = problems_in_agent(file.plain, replace(self._known, agents=names))
        others = [str(other) for other, each in files.items() if other != path and each.name == file.name]
        if file.name and others and not replaces:
            message = f"more than one agent is named {file.name!r}: also in {', '.join(others)}"
            problems.append(Problem(path=("name",), message=message, hint="Rename or remove one of them."))
        if problems:
            return FoundAgent(path=path, name=name, definition=None, problems=file.locate(problems))
        return FoundAgent(path=path, name=name, definition=agent_from(file.plain), plain=file.plain)


def _is_meant(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(".") and name.upper() not in _NOT_AGENTS


def _parse(text: str, suffix: str) -> Parsed:
    """Return a definition; of Markdown, front matter and text as one.

    Raises:
        SyntaxProblem: there is no front matter, or it is no YAML.
    """
    if suffix != ".md":
        return parse_with_spots(text, suffix)
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
