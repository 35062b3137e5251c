"""What a run is asked to do when an agent does it."""

from dataclasses import replace
from pathlib import Path

from agent_fabric.application.runs.new_task import task_from
from agent_fabric.config.schema.fabric import FabricConfig
from agent_fabric.domain.ids import SpecialistId
from agent_fabric.domain.runs.task import AgentBrief, Priority, Task, lower_of


def task_of_agent(brief: AgentBrief, like: Task) -> Task:
    """Return the task that an agent does; of its own limits and those of `like`, the tighter ones hold."""
    return replace(
        like,
        prompt=brief.prompt,
        specialist_ids=(SpecialistId(brief.name),),
        budget=replace(
            like.budget,
            max_tokens=lower_of(like.budget.max_tokens, brief.max_tokens),
            max_seconds=lower_of(like.budget.max_seconds, brief.timeout_s),
            max_cost=lower_of(like.budget.max_cost, brief.max_cost),
        ),
        agent=brief,
        workflow=None,
    )


def task_for_agent(
    config: FabricConfig,
    brief: AgentBrief,
    *,
    model_key: str | None = None,
    network_allowed: bool = True,
    priority: Priority = Priority.INTERACTIVE,
    project: Path | None = None,
) -> Task:
    """Make a task of an agent's brief; the tighter limit holds, the agent's or the configured one.

    Raises:
        ConfigError: there is no such model.
    """
    like = task_from(
        config,
        brief.prompt,
        model_key=model_key or brief.model_key or None,
        network_allowed=network_allowed,
        priority=priority,
        project=project,
    )
    return task_of_agent(brief, like)
