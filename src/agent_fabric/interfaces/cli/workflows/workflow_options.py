"""What the commands about workflows share: which one is meant, and what it is given."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_fabric.application.ports.workflows import WORKFLOW_SUFFIXES, WorkflowFile
from agent_fabric.bootstrap.workflows import Workflows
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.tools.json_schema import too_deep
from agent_fabric.interfaces.cli.workflows.inputs import MAX_BYTES

NameOrFile = Annotated[str, typer.Argument(metavar="NAME|FILE", help="The workflow, or its file.")]


def is_file(name: str) -> bool:
    """Return whether a file is meant, and not the name of a workflow."""
    return name.endswith(WORKFLOW_SUFFIXES) or "/" in name


def find(workflows: Workflows, name: str) -> WorkflowFile:
    """Return a workflow by its name or its file, sound or not.

    Raises:
        DefinitionNotFound: there is none.
    """
    if is_file(name):
        return workflows.read(Path(name).expanduser())
    for each in workflows.files.list():
        if each.name == name:
            return each
    return workflows.files.find(name)  # which says what there is


def json_object(text: str, what: str, example: str) -> Mapping[str, Any]:
    """Return the JSON object that a person has typed.

    Raises:
        InvalidInputs: it is none.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InvalidInputs(f"{what} is not JSON: {problem}", hint=f"For example: {example}") from None
    if not isinstance(value, dict) or too_deep(value, text):
        raise InvalidInputs(f"{what} must be a JSON object", hint=f"For example: {example}")
    return value


def inputs_from(source: str) -> Mapping[str, Any]:
    """Return the inputs that a file holds as one JSON object; `-` is standard input.

    Raises:
        InvalidInputs: it cannot be read, or is no such object.
    """
    try:
        if source == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1) if sys.stdin is not None else b""
        else:
            with Path(source).expanduser().open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInputs(f"--inputs is not UTF-8 text: {source}", hint="Save it as UTF-8.") from None
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise InvalidInputs(f"--inputs cannot be read: {reason}: {source}", hint="Name a file, or - .") from None
    if len(data) > MAX_BYTES:
        raise InvalidInputs(f"--inputs is larger than 10 MiB: {source}", hint="Give long material as files.")
    return json_object(text, "--inputs", """a file with {"name": "value"}""")
