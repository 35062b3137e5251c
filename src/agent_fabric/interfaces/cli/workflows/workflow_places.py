"""Workflows of a fabric folder, or of a server: the commands about them need not know which."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_fabric.application.ports.workflows import WORKFLOW_SUFFIXES, WorkflowFile
from agent_fabric.bootstrap.workflows import Workflows, open_workflows
from agent_fabric.domain.errors import InvalidInputs
from agent_fabric.domain.tools.json_schema import too_deep
from agent_fabric.domain.workflows.definition import definition_from
from agent_fabric.infrastructure.workflows.definition_files import definition_text, read_definition
from agent_fabric.interfaces.cli.options import configuration
from agent_fabric.interfaces.cli.place import Noun, Place, here
from agent_fabric.interfaces.cli.workflows.definition_problems import join_checks
from agent_fabric.interfaces.cli.workflows.inputs import MAX_BYTES
from agent_fabric.interfaces.views.workflows.views import WORKFLOWS, checked_object, found_from
from agent_fabric.wire.definitions import WORKFLOW_PROBLEM
from agent_fabric.wire.shape import Json

if TYPE_CHECKING:
    from agent_fabric.client import FabricClient


class LocalWorkflows:
    """The workflows of a fabric folder."""

    def __init__(self, at: Place) -> None:
        root = at.root()
        self._workflows = open_workflows(root, configuration(root).config)

    async def everything(self) -> Json:
        return WORKFLOWS.dump(self._workflows.files.list())

    async def check(self, names: Sequence[str]) -> Json:
        """Return what is wrong with some, or with all of them; each is named, or is a file of this machine."""
        found = [find(self._workflows, each) for each in names] if names else self._workflows.files.list()
        return checked_object(found)

    async def find(self, name: str) -> WorkflowFile:
        """Return a workflow by its name or its file, sound or not."""
        return find(self._workflows, name)


class ServerWorkflows:
    """The workflows of a server; files of this machine are checked beside its agents and workflows."""

    def __init__(self, client: "FabricClient") -> None:
        self._workflows = client.workflows
        self.everything = client.workflows.everything

    async def check(self, names: Sequence[str]) -> Json:
        return join_checks([await self._check(each) for each in names]) if names else await self._workflows.validate()

    async def find(self, name: str) -> WorkflowFile:
        if not is_file(name):
            return found_from(await self._workflows.show(name))
        own = read_definition(_path(name))
        checked = await self._check(name)
        if checked["valid"]:
            return replace(own, definition=definition_from(own.plain), problems=(), notes=tuple(checked["notes"]))
        problems = tuple(WORKFLOW_PROBLEM.load(each) for each in checked["problems"])
        return WorkflowFile(path=own.path, plain=own.plain, problems=problems)

    async def _check(self, name: str) -> Json:
        if not is_file(name):
            return await self._workflows.validate(name=name)
        path = _path(name)
        text = definition_text(path)
        if text is None:
            return checked_object([read_definition(path)])  # which says why it cannot be read
        return await self._workflows.validate(text, file=str(path))


WORKFLOWS_AT = Noun(here(LocalWorkflows), ServerWorkflows)


def _path(name: str) -> Path:
    return Path(name).expanduser()


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
    """Return the JSON object that a person has typed."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InvalidInputs(f"{what} is not JSON: {problem}", hint=f"For example: {example}") from None
    if not isinstance(value, dict) or too_deep(value, text):
        raise InvalidInputs(f"{what} must be a JSON object", hint=f"For example: {example}")
    return value


def inputs_from(source: str) -> Mapping[str, Any]:
    """Return the inputs that a file holds as one JSON object; `-` is standard input."""
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
