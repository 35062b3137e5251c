"""Workflows as JSON objects: the same for the command line and for HTTP."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from agent_fabric.application.ports.workflows import WorkflowFile
from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.workflows.definition import Execution, Trigger, WorkflowDefinition, definition_from
from agent_fabric.wire.definitions import WORKFLOW_PROBLEM, CheckedFiles, Noted
from agent_fabric.wire.shape import Json, Listing, Shape

_LINE = "name version=definition.version description steps=step_count triggers file=path usable=is_usable problems"
_EXECUTION = Shape(Execution, "mode parallel_limit continue_on_error fail_fast timeout=timeout_s dry_run")
_INPUT = Shape(Parameter, "type description required *limits")
_OUTPUT = Shape(Parameter, "type description *limits value", name="WorkflowOutput")
TRIGGER = Shape(Trigger, "kind when armed")
WORKFLOW_LINE = Shape(
    WorkflowFile,
    _LINE,
    name="WorkflowLine",
    about="A workflow, or a file that is meant to be one.",
    parts=[WORKFLOW_PROBLEM, TRIGGER],
)
WORKFLOWS = Listing("workflows", WORKFLOW_LINE, name="WorkflowList", about="Every workflow, by name.")
WORKFLOW = Shape(
    WorkflowFile,
    f"{_LINE} *definition",
    name="WorkflowDetails",
    about="Everything about a workflow.",
    parts=[WORKFLOW_PROBLEM, TRIGGER, Shape(WorkflowDefinition, "inputs execution", parts=[_EXECUTION, _INPUT])],
    also={
        "outputs?": dict[str, Any],
        "notes?": Annotated[list[str], "What is right but may surprise."],
        "definition?": Annotated[dict[str, Any], "As in the file."],
    },
)
CHECKED_WORKFLOWS = Shape(CheckedFiles, name="CheckedWorkflows", parts=[WORKFLOW_PROBLEM])


def workflow_object(found: WorkflowFile) -> dict[str, Any]:
    """Return everything about a workflow."""
    shown = WORKFLOW.dump(found)
    if found.definition is not None:
        shown["outputs"] = {name: _OUTPUT.dump(each) for name, each in found.definition.outputs.items()}
        shown |= {"notes": list(found.notes), "definition": found.plain}
    return shown


def checked_object(found: Sequence[WorkflowFile]) -> dict[str, Any]:
    """Return what is wrong with some files, and what may surprise in them."""
    noted = [Noted(each.path, note) for each in found for note in each.notes]
    checked = CheckedFiles(
        all(each.is_usable for each in found),
        [each.path for each in found],
        [problem for each in found if not each.is_usable for problem in each.problems],
        [each.note for each in noted],
        noted,
    )
    return CHECKED_WORKFLOWS.dump(checked)


def found_from(shown: Json) -> WorkflowFile:
    """Return the workflow that a server has shown with `workflow_object`."""
    problems = tuple(WORKFLOW_PROBLEM.load(each) for each in shown["problems"])
    if not shown["usable"]:
        return WorkflowFile(path=Path(shown["file"]), plain={"name": shown["name"]}, problems=problems)
    plain = shown["definition"]
    return WorkflowFile(
        path=Path(shown["file"]), plain=plain, definition=definition_from(plain), notes=tuple(shown["notes"])
    )
