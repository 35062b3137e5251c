"""What a workflow's run is given to keep, and what the runs of its steps are asked to do."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from agent_fabric.application.agents.agent_task import task_of_agent
from agent_fabric.application.agents.brief_agent import brief_for
from agent_fabric.application.ports.workflows import AgentBook, SoundWorkflow, WorkflowBook
from agent_fabric.domain.runs.task import FrozenWorkflow, Task
from agent_fabric.domain.secrets import defused
from agent_fabric.domain.workflows.definition import BuiltIn
from agent_fabric.domain.workflows.inputs import accept_inputs


@dataclass(frozen=True, slots=True)
class StepTasks:
    """Makes tasks of workflows and agents."""

    workflows: WorkflowBook
    agents: AgentBook

    def __call__(self, kind: Literal["agent", "workflow"], name: str, inputs: Mapping[str, Any], like: Task) -> Task:
        """Return what the run for a step is asked to do, with the limits of the task that it belongs to.

        Raises:
            FabricError: there is no such agent or workflow, it has problems, or the inputs do not fit.
        """
        if kind == "agent":
            brief = brief_for(self.agents.get(name), inputs)
            return replace(task_of_agent(brief, like), model_key=brief.model_key or like.model_key)
        return self.of_workflow(self.workflows.get(name), inputs, like)

    def of_workflow(self, workflow: SoundWorkflow, inputs: Mapping[str, Any], like: Task) -> Task:
        """Return the task to carry out a workflow; definition and inputs are frozen into it.

        Raises:
            InvalidInputs: the inputs do not fit.
        """
        definition = workflow.definition
        agents = {
            step.agent: self.agents.get(step.agent)
            for step in definition.all_steps()
            if step.action == BuiltIn.INVOKE_AGENT and "{{" not in step.agent
        }
        retries = {name: agent.constraints.retries for name, agent in agents.items() if agent.constraints.retries}
        frozen = FrozenWorkflow(
            definition=_with_retries(workflow.plain, retries) if retries else workflow.plain,
            inputs=defused(accept_inputs(definition, inputs)),
            source=workflow.source,
            exclusive=tuple(name for name, agent in agents.items() if not agent.constraints.parallel_allowed),
        )
        about = f": {definition.description}" if definition.description else ""
        return replace(
            like, prompt=f"workflow {definition.name}{about}", specialist_ids=(), agent=None, workflow=frozen
        )


def _with_retries(plain: Mapping[str, Any], retries: Mapping[str, int]) -> dict[str, Any]:
    """Return a definition in which steps try as often as their agents say, unless they say so themselves."""
    return {**plain, "steps": [_step_with_retries(each, retries) for each in plain["steps"]]}


def _step_with_retries(plain: Mapping[str, Any], retries: Mapping[str, int]) -> dict[str, Any]:
    step = dict(plain)
    for key in ("steps", "then", "else"):
        if step.get(key):
            step[key] = [_step_with_retries(each, retries) for each in step[key]]
    if step.get("action") == BuiltIn.INVOKE_AGENT and not step.get("retry") and step.get("agent") in retries:
        step["retry"] = {"max_attempts": 1 + retries[step["agent"]]}
    return step
