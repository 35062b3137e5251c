"""What is wrong with the files of agents and workflows."""

from agent_fabric.domain.definitions.problems import Problem
from agent_fabric.wire.shape import Shape

AGENT_PROBLEM = Shape(
    Problem, "file line? column? path message hint", name="DefinitionProblem", about="What is wrong with a file."
)
WORKFLOW_PROBLEM = Shape(
    Problem,
    "file line? column? other_line? step? path message hint",
    name="WorkflowProblem",
    about="What is wrong with a workflow's file.",
)
"""Also reads those of agents, which name no step."""
