"""Joins what workflows need: where their files are, who does their steps, and what starts them."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agent_fabric.application.ports.workflows import SoundWorkflow, WorkflowFile
from agent_fabric.bootstrap.agents import definition_folders, open_agents
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ConfigError, InvalidInputs
from agent_fabric.domain.runs.task import FrozenWorkflow, Priority, Task
from agent_fabric.domain.workflows.checks.output_types import AgentShape, KnownNames
from agent_fabric.domain.workflows.definition import WorkflowDefinition
from agent_fabric.infrastructure.agents.agent_files import AgentFolder
from agent_fabric.infrastructure.packs.plugins import installed_actions
from agent_fabric.infrastructure.workflows.definition_files import DefinitionFolder, check_definition, read_definition

if TYPE_CHECKING:  # what only reads definitions needs no engine
    from agent_fabric.application.ports.runs import RunRepository
    from agent_fabric.application.workflows.fork_workflow import ForkWorkflow
    from agent_fabric.application.workflows.perform_step import PerformStep
    from agent_fabric.application.workflows.signal_workflow import SignalWorkflow
    from agent_fabric.application.workflows.step_tasks import StepTasks
    from agent_fabric.bootstrap.local import LocalFabric
    from agent_fabric.bootstrap.records import Records

T = TypeVar("T")


MoreInputs = Callable[[WorkflowDefinition], Mapping[str, Any]]
"""Gives inputs to a workflow that the earlier run of it was not given."""


@dataclass(frozen=True, slots=True)
class Workflows:
    """The workflows that can be run with a fabric folder. WorkflowCatalogue."""

    config: FabricConfig
    files: DefinitionFolder
    agents: AgentFolder
    known: Callable[[], KnownNames]
    """What definitions may refer to."""

    def get(self, name: str) -> SoundWorkflow:
        return sound(self.files.find(name))

    def read(self, path: Path) -> WorkflowFile:
        """Read and check a file, wherever it lies; what is wrong stands in its problems."""
        return read_definition(path, self._known_now())

    def check_text(self, path: Path, text: str) -> WorkflowFile:
        """Check what would stand in a file, as `read` does."""
        return check_definition(path, text, self._known_now())

    def _known_now(self) -> KnownNames:
        return replace(self.known(), workflows=frozenset(each.name for each in self.files.list()))

    def renew(self, frozen: FrozenWorkflow, like: Task, more: MoreInputs = lambda _: {}) -> Task:
        """Return the task to carry out a workflow as its file is now, with the same inputs and those that are new.

        Raises:
            DefinitionNotFound, WorkflowInvalid, InvalidInputs: it cannot be carried out so.
        """
        file = Path(frozen.source)
        found = self.read(file) if frozen.source and file.is_file() else self.files.find(str(frozen.definition["name"]))
        workflow = sound(found)
        kept = {name: value for name, value in frozen.inputs.items() if name in workflow.definition.inputs}
        new = more(workflow.definition)
        if other := [name for name, value in new.items() if name in kept and kept[name] != value]:
            raise InvalidInputs(
                f"The earlier run was given another value for {', '.join(other)}, and what it did was done with that",
                hint="Start a new run with other inputs: fabric workflow run.",
            )
        return self.tasks.of_workflow(workflow, {**kept, **new}, replace(like, workflow=None))

    @property
    def tasks(self) -> "StepTasks":
        """Makes tasks of workflows and of their steps."""
        from agent_fabric.application.workflows.step_tasks import StepTasks  # noqa: PLC0415 - see above

        return StepTasks(self, self.agents)

    def task(
        self,
        workflow: SoundWorkflow,
        inputs: Mapping[str, Any],
        *,
        model_key: str | None = None,
        network_allowed: bool = True,
        priority: Priority = Priority.INTERACTIVE,
        project: Path | None = None,
        encrypted: bool = False,
    ) -> Task:
        """Return the task to carry out a workflow; `ExecuteTask` does it.

        Raises:
            InvalidInputs: the inputs do not fit.
            ConfigError: there is no such model, or the workflow is not to be started by hand.
        """
        from agent_fabric.application.runs.new_task import task_from  # noqa: PLC0415 - see above

        require_by_hand(workflow.definition)
        like = task_from(
            self.config,
            "",
            model_key=model_key,
            network_allowed=network_allowed,
            priority=priority,
            project=project,
            encrypted=encrypted,
        )
        return self.tasks.of_workflow(workflow, inputs, like)


class ServedWorkflows:
    """The workflows of a server, looked at on a thread, and by one at a time: they remember what they have read."""

    def __init__(self, workflows: Workflows) -> None:
        self._workflows = workflows
        self._lock = asyncio.Lock()

    async def ask(self, question: Callable[[Workflows], T]) -> T:
        """Return what the workflows answer."""
        async with self._lock:
            return await asyncio.to_thread(question, self._workflows)


def open_workflows(root: Path, config: FabricConfig) -> Workflows:
    """Return the workflows of a fabric folder; no store is needed for that."""
    agents = open_agents(root, config)
    folders = definition_folders(root, config.workflows.definitions)

    @cache
    def actions() -> frozenset[str]:
        # Packages do not come and go while a process lives, and looking for them takes milliseconds.
        return frozenset(offer.name for offer in installed_actions() if not offer.problem)

    def find_known() -> KnownNames:
        return KnownNames(
            agents={
                each.name: AgentShape(inputs=each.definition.inputs, outputs=each.definition.outputs)
                for each in agents.all()
                if each.definition is not None
            },
            actions=actions(),
        )

    return Workflows(config, DefinitionFolder(folders, find_known), agents, find_known)


def require_by_hand(definition: WorkflowDefinition) -> None:
    """Check that people may start a workflow.

    Raises:
        ConfigError: they may not.
    """
    if not definition.triggers.manual:
        raise ConfigError(
            f"The workflow {definition.name!r} cannot be started by hand: triggers.manual is false",
            hint="Its other triggers start it, under `fabric serve`. Set triggers.manual to true, or leave it out.",
        )


def sound(found: WorkflowFile) -> SoundWorkflow:
    """Return a workflow that can be run.

    Raises:
        WorkflowInvalid: it has problems.
    """
    return SoundWorkflow(plain=found.plain, definition=found.usable(), source=str(found.path))


def fork_workflow(
    records: "Records", current: Workflows | None = None, more: MoreInputs = lambda _: {}
) -> "ForkWorkflow":
    """Return the use case that begins a workflow anew with what it has done already.

    With `current`, the files count as they are now, and not what the earlier run was given; `more` are inputs that
    they have since.
    """
    from agent_fabric.application.workflows.fork_workflow import ForkWorkflow  # noqa: PLC0415 - see above

    return ForkWorkflow(records.runs, records.layout, None if current is None else partial(current.renew, more=more))


def signal_workflow(records: "Records") -> "SignalWorkflow":
    """Return the use case that tells workflows what has happened."""
    from agent_fabric.application.workflows.signal_workflow import SignalWorkflow  # noqa: PLC0415 - see above

    return SignalWorkflow(records.runs)


def performing_steps(fabric: "LocalFabric", config: FabricConfig, runs: "RunRepository") -> "PerformStep":
    """Return what carries out steps."""
    from agent_fabric.application.workflows.child_runs import ChildRuns  # noqa: PLC0415 - see above
    from agent_fabric.application.workflows.perform_step import PerformStep  # noqa: PLC0415 - see above

    perform = fabric.execute_task.drive.perform
    workflows = open_workflows(fabric.records.layout.root, config)
    return PerformStep(
        registry=perform.registry,
        invoke_tool=perform.invoke_tool,
        children=ChildRuns(
            runs=runs,
            workspaces=fabric.records.layout,
            task_for=workflows.tasks,
            first_event=fabric.execute_task.first_event,
            take=fabric.resume_run.take,
            drive=lambda taken: fabric.execute_task.drive(*taken),
            cancel_run=fabric.cancel_run,
        ),
    )
