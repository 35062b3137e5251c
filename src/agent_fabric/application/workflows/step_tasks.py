"""What a workflow's run is given to keep, and what the runs of its steps are asked to do."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from agent_fabric.application.agents.agent_task import task_of_agent
from agent_fabric.application.agents.brief_agent import brief_for
from agent_fabric.application.ports.workflows import AgentCatalogue, SoundWorkflow, WorkflowCatalogue
from agent_fabric.domain.agents.definition import agent_from
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.runs.task import FrozenWorkflow, Task
from agent_fabric.domain.secrets.references import defuse
from agent_fabric.domain.workflows.definition import BuiltIn, WorkflowDefinition, definition_from
from agent_fabric.domain.workflows.inputs import accept_inputs

_Called = tuple[Mapping[str, Mapping[str, Any]], Mapping[str, Mapping[str, Any]]]
"""Definitions of workflows and of agents, each by name."""


@dataclass(frozen=True, slots=True)
class StepTasks:
    """Makes tasks of workflows and agents."""

    workflows: WorkflowCatalogue
    agents: AgentCatalogue

    def __call__(
        self,
        kind: Literal["agent", "workflow"],
        name: str,
        inputs: Mapping[str, Any],
        like: Task,
        state: Mapping[str, Any],
    ) -> Task:
        """Return what the run for a step is asked to do, with the limits of the task that it belongs to.

        The prompts of an agent are filled in here, from its inputs and the workflow's `state`, and frozen into its run.

        Raises:
            FabricError: there is no such agent or workflow, it has problems, or the inputs do not fit.
        """
        kept = like.workflow
        if kind == "agent":
            known = kept.agents.get(name) if kept is not None else None
            brief = brief_for(agent_from(self.agents.plain(name) if known is None else known), inputs, state)
            return replace(task_of_agent(brief, like), model_key=brief.model_key or like.model_key)
        known = kept.workflows.get(name) if kept is not None else None
        if known is None:
            return self.of_workflow(self.workflows.get(name), inputs, like)
        return self.of_workflow(SoundWorkflow(plain=known, definition=definition_from(known), source=""), inputs, like)

    def of_workflow(self, workflow: SoundWorkflow, inputs: Mapping[str, Any], like: Task) -> Task:
        """Return the task to carry out a workflow; inputs and all definitions that it needs are frozen into it.

        A workflow that another one calls, which is `like`, is carried out as that one's run has kept it.

        Raises:
            InvalidInputs: the inputs do not fit.
            FabricError: an agent or a workflow that it calls is not there, or has problems.
        """
        definition = workflow.definition
        kept = like.workflow
        called = self._called_by(definition) if kept is None else (kept.workflows, kept.agents)
        agents = {
            step.agent: agent_from(called[1][step.agent])
            for step in definition.all_steps()
            if step.action == BuiltIn.INVOKE_AGENT and step.agent in called[1]
        }
        retries = {name: agent.constraints.retries for name, agent in agents.items() if agent.constraints.retries}
        frozen = FrozenWorkflow(
            definition=_with_retries(workflow.plain, retries) if retries else workflow.plain,
            inputs=defuse(accept_inputs(definition, inputs)),
            source=workflow.source,
            exclusive=tuple(name for name, agent in agents.items() if not agent.constraints.parallel_allowed),
            workflows=called[0],
            agents=called[1],
        )
        about = f": {definition.description}" if definition.description else ""
        return replace(
            like, prompt=f"workflow {definition.name}{about}", specialist_ids=(), agent=None, workflow=frozen
        )

    def _called_by(self, definition: WorkflowDefinition) -> _Called:
        """Return the definitions of everything that a workflow calls, however deep."""
        workflows: dict[str, Mapping[str, Any]] = {}
        agents: dict[str, Mapping[str, Any]] = {}
        steps = list(definition.all_steps())
        for step in steps:  # grows while it is walked
            if step.action == BuiltIn.INVOKE_AGENT and step.agent not in agents:
                agents[step.agent] = self.agents.plain(step.agent)
            elif step.action == BuiltIn.WORKFLOW and step.workflow not in workflows:
                found = self.workflows.get(step.workflow)
                workflows[step.workflow] = found.plain
                steps.extend(found.definition.all_steps())
        return workflows, agents


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
