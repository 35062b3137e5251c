"""Joins what agents need: where their files are, and what there is for them to use."""

from collections.abc import Sequence
from pathlib import Path

from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.agents.check import KnownToAgents
from agent_fabric.infrastructure.agents.agent_files import AgentFolder
from agent_fabric.infrastructure.packs.registry import servers_of_all


def open_agents(root: Path, config: FabricConfig) -> AgentFolder:
    """Return the agents that can be used with a fabric folder."""
    return AgentFolder(definition_folders(root, config.agents.definitions), known_to_agents(config))


def definition_folders(root: Path, configured: Sequence[str]) -> list[Path]:
    """Return folders of definitions; one that is not absolute begins beside the fabric folder.

    Whoever stands in a folder below that one, such as an example's, has that folder's definitions too.
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
