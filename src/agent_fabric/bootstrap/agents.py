"""Joins what agents need: where their files are, and what these may name."""

from collections.abc import Sequence
from pathlib import Path

from agent_fabric.application.ports.workflows import FoundAgent
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.agents.check import KnownToAgents
from agent_fabric.domain.agents.definition import AgentDefinition
from agent_fabric.infrastructure.agents.agent_files import AgentFolder
from agent_fabric.infrastructure.packs.registry import servers_of_all
from agent_fabric.infrastructure.threads import on_own_thread


def open_agents(root: Path, config: FabricConfig) -> AgentFolder:
    """Return the agents that can be used with a fabric folder."""
    return AgentFolder(definition_folders(root, config.agents.definitions), known_to_agents(config))


class ServedAgents:
    """The agents of a server. Files are looked at with every question, so that a change counts at once."""

    def __init__(self, files: AgentFolder) -> None:
        self.folders = files.folders
        self._files = files

    async def list(self) -> Sequence[FoundAgent]:
        """Return all files, also those that are wrong."""
        return await on_own_thread(self._files.all)

    async def find(self, name: str) -> FoundAgent:
        """Return the file of an agent, also if it is wrong.

        Raises:
            DefinitionNotFound: there is none.
        """
        return await on_own_thread(lambda: self._files.find(name))

    async def get(self, name: str) -> AgentDefinition:
        """Return an agent that can be used.

        Raises:
            DefinitionNotFound, AgentInvalid: there is none.
        """
        return await on_own_thread(lambda: self._files.get(name))

    async def check_text(self, path: Path, text: str) -> FoundAgent:
        """Check what would stand in a file."""
        return await on_own_thread(lambda: self._files.check_text(path, text))


def definition_folders(root: Path, configured: Sequence[str]) -> list[Path]:
    """Return folders of definitions; one that is not absolute begins beside the fabric folder.

    In a folder below that one, such as an example's, that folder's definitions count too.
    """
    home, here = root.absolute().parent, Path.cwd()
    places = (here, home) if here != home and here.is_relative_to(home) else (home,)
    return [place / Path(each).expanduser() for each in configured for place in places]


def known_to_agents(config: FabricConfig) -> KnownToAgents:
    """Return what the configuration has for agents."""
    return KnownToAgents(
        packs=frozenset(config.specialists),
        models=frozenset(config.models),
        servers=frozenset(servers_of_all(config.specialists.values())),
    )
