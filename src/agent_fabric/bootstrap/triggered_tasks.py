"""Tasks of workflows that something outside has started."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_fabric.application.runs.new_task import task_from
from agent_fabric.bootstrap.workflows import Workflows
from agent_fabric.domain.identity.principals import Kind, Principal, Scope, widen
from agent_fabric.domain.runs.limits import RunCaps
from agent_fabric.domain.runs.task import Priority, Task


@dataclass(frozen=True, slots=True)
class TriggeredTasks:
    """Makes tasks of workflows for deliveries and happenings.

    Nobody here vouches for their text, and the world must not have it unless the configuration says so.
    """

    workflows: Workflows
    home: Path
    """The project beside the fabric folder."""
    caps: RunCaps | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def _public(self) -> frozenset[str]:
        """The senders whose deliveries the world may have."""
        configured = self.workflows.config.webhooks.items()
        return frozenset(f"webhook {name}" for name, each in configured if not each.private)

    async def __call__(self, source: str, workflow: str, offered: Mapping[str, Any]) -> Task:
        """Return the task to carry out a workflow with those of the offered inputs that it takes.

        Raises:
            FabricError: there is no such workflow, it has problems, or it needs other inputs.
        """
        async with self._lock:  # files are looked at by one at a time: they remember what they have read
            return await asyncio.to_thread(self._task, source, workflow, offered)

    def _task(self, source: str, name: str, offered: Mapping[str, Any]) -> Task:
        workflow = self.workflows.get(name)
        taken = {each: offered[each] for each in offered if each in workflow.definition.inputs}
        project = self.home if workflow.definition.triggers.here else None
        like = task_from(self.workflows.config, "", priority=Priority.SCHEDULED, project=project)
        task = self.workflows.tasks.of_workflow(workflow, taken, like)
        assert task.workflow is not None
        sender = Principal(source, Kind.EXTERNAL, widen((Scope.WORKFLOWS,)))
        private = () if source in self._public else (source,)
        frozen = replace(task.workflow, untrusted=(source,), private=private)
        task = replace(task.asked_by(sender), workflow=frozen)
        return task if self.caps is None else replace(task, budget=self.caps.lowered(task.budget))
