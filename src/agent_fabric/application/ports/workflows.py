"""Where definitions of workflows and agents are found."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Protocol

from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.agents.definition import AgentDefinition
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.definitions.problems import Problem, WorkflowInvalid
from agent_fabric.domain.workflows.definition import Trigger, WorkflowDefinition

WORKFLOW_SUFFIXES: Final = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True, kw_only=True)
class SoundWorkflow:
    """A workflow that has been checked."""

    plain: Mapping[str, Any]
    """As its file has it."""
    definition: WorkflowDefinition
    source: str
    """The file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFile:
    """A workflow's file: what it says, or why it cannot be used."""

    path: Path
    plain: Any = None
    """The definition as plain data, as a run keeps it; None: it could not be read."""
    definition: WorkflowDefinition | None = None
    """None: there are problems."""
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    """What is right but may surprise."""

    @property
    def name(self) -> str:
        """The workflow's name; of a file that tells none, the file's."""
        name = self.plain.get("name") if isinstance(self.plain, dict) else None
        return name if isinstance(name, str) and name else self.path.stem

    @property
    def is_usable(self) -> bool:
        """Whether it can be run."""
        return self.definition is not None

    @property
    def description(self) -> str:
        """What it is for."""
        return "" if self.definition is None else self.definition.description

    @property
    def step_count(self) -> int | None:
        """How many steps it has, however deep; None: the file is wrong."""
        return None if self.definition is None else sum(1 for _ in self.definition.all_steps())

    @property
    def triggers(self) -> Sequence[Trigger]:
        """What starts it."""
        return () if self.definition is None else self.definition.triggers.entries()

    def usable(self) -> WorkflowDefinition:
        """Return the workflow.

        Raises:
            WorkflowInvalid: there are problems.
        """
        if self.definition is None:
            raise WorkflowInvalid(self.problems, what=str(self.path))
        return self.definition


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
    """Why it cannot be used; empty if it can."""

    @property
    def is_usable(self) -> bool:
        """Whether it can be run."""
        return self.definition is not None

    @property
    def description(self) -> str:
        """What it is for."""
        return "" if self.definition is None else self.definition.description


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
