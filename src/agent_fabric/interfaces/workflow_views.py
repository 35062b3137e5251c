"""Workflows as JSON objects: the same for the command line and for HTTP."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_fabric.domain.definitions.parameter import Parameter
from agent_fabric.domain.workflows.definition import Triggers, WorkflowDefinition, definition_from
from agent_fabric.infrastructure.workflows.definition_files import WorkflowFile
from agent_fabric.wire.definitions import WORKFLOW_PROBLEM


def workflow_line(found: WorkflowFile) -> dict[str, Any]:
    """Return what a list shows of a workflow, or of a file that is meant to be one."""
    definition = found.definition
    return {
        "name": found.name,
        "version": definition.version if definition else None,
        "description": definition.description if definition else "",
        "steps": sum(1 for _ in definition.all_steps()) if definition else None,
        "triggers": triggers_of(definition.triggers) if definition else [],
        "file": str(found.path),
        "usable": definition is not None,
        "problems": [WORKFLOW_PROBLEM.dump(each) for each in found.problems],
    }


def workflow_object(found: WorkflowFile) -> dict[str, Any]:
    """Return everything about a workflow."""
    definition = found.definition
    return workflow_line(found) if definition is None else {**workflow_line(found), **_details(found, definition)}


def checked_object(found: Sequence[WorkflowFile]) -> dict[str, Any]:
    """Return what is wrong with some files, and what may surprise in them."""
    wrong = [each for each in found if each.definition is None]
    noted = [{"file": str(each.path), "note": note} for each in found for note in each.notes]
    return {
        "valid": not wrong,
        "files": [str(each.path) for each in found],
        "problems": [WORKFLOW_PROBLEM.dump(problem) for each in wrong for problem in each.problems],
        "notes": [each["note"] for each in noted],
        "noted": noted,
    }


def found_from(shown: Mapping[str, Any]) -> WorkflowFile:
    """Return the workflow that a server has shown, with `workflow_object`."""
    problems = tuple(WORKFLOW_PROBLEM.load(each) for each in shown["problems"])
    if not shown["usable"]:
        return WorkflowFile(path=Path(shown["file"]), plain={"name": shown["name"]}, problems=problems)
    plain = shown["definition"]
    return WorkflowFile(
        path=Path(shown["file"]), plain=plain, definition=definition_from(plain), notes=tuple(shown["notes"])
    )


def triggers_of(triggers: Triggers) -> list[dict[str, Any]]:
    """Return what starts a workflow, and whether anything watches for it."""
    listed: list[tuple[str, str]] = [("manual", "")] if triggers.manual else []
    listed += [("schedule", triggers.schedule)] if triggers.schedule else []
    listed += [("on_change", pattern) for pattern in triggers.on_change]
    listed += [("on_event", name) for name in triggers.on_event]
    return [{"kind": kind, "when": when, "armed": kind == "manual"} for kind, when in listed]


def _details(found: WorkflowFile, definition: WorkflowDefinition) -> dict[str, Any]:
    execution = definition.execution
    return {
        "inputs": _parameters(definition.inputs),
        "outputs": _parameters(definition.outputs, values=True),
        "execution": {
            "mode": execution.mode.value,
            "parallel_limit": execution.parallel_limit,
            "continue_on_error": execution.continue_on_error,
            "fail_fast": execution.fail_fast,
            "timeout": execution.timeout_s,
            "dry_run": execution.dry_run,
        },
        "notes": list(found.notes),
        "definition": found.plain,
    }


def _parameters(declared: Mapping[str, Parameter], *, values: bool = False) -> dict[str, Any]:
    return {
        name: {
            "type": each.type,
            "description": each.description,
            **({} if values else {"required": each.required}),
            **({"default": each.default} if each.has_default else {}),
            **({"enum": list(each.choices)} if each.choices else {}),
            **({"value": each.value} if values else {}),
        }
        for name, each in declared.items()
    }
