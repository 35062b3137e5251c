"""Where definitions of workflows and agents are found."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.workflows.definition import WorkflowDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class SoundWorkflow:
    """A workflow that has been checked."""

    plain: Mapping[str, Any]
    """As its file has it."""
    definition: WorkflowDefinition
    source: str
    """The file."""


class WorkflowCatalogue(Protocol):
    """Finds workflows by name. A file that was changed is read again."""

    def get(self, name: str) -> SoundWorkflow:
        """Return a workflow that can be run.

        Raises:
            DefinitionNotFound: none has this name.
            WorkflowInvalid: its file has problems; all are named.
        """
        ...


class AgentCatalogue(Protocol):
    """Finds agents by name. A file that was changed is read again."""

    def plain(self, name: str) -> Mapping[str, Any]:
        """Return the definition of an agent that can be used, as its file has it.

        Raises:
            DefinitionNotFound: none has this name.
            InvalidDefinition: its file has problems; all are named.
        """
        ...


class DefinitionCatalogue(WorkflowCatalogue, Protocol):
    """The workflows and agents of a fabric folder, with its configuration."""

    @property
    def config(self) -> FabricConfig:
        """What the folder says about models, packs and limits."""
        ...

    @property
    def agents(self) -> AgentCatalogue:
        """The agents."""
        ...
