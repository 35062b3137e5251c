"""What is wrong with the files of agents and workflows."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from agent_fabric.domain.definitions.problems import Problem
from agent_fabric.wire.shape import Shape


class Noted(NamedTuple):
    """What is right but may surprise."""

    file: Path
    note: str


class CheckedFiles(NamedTuple):
    """What is wrong with files of agents or workflows."""

    valid: bool
    files: Sequence[Path]
    problems: Sequence[Problem]
    notes: Sequence[str] = ()
    noted: Sequence[Noted] = ()


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
