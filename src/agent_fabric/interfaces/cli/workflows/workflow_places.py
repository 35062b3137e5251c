"""Workflows of a fabric folder, or of a server: the commands about them need not know which."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent_fabric.application.ports.workflows import WorkflowFile
from agent_fabric.bootstrap.workflows import open_workflows
from agent_fabric.domain.workflows.definition import definition_from
from agent_fabric.infrastructure.workflows.definition_files import definition_text, read_definition
from agent_fabric.interfaces.cli.options import configuration
from agent_fabric.interfaces.cli.place import Place, with_client
from agent_fabric.interfaces.cli.workflows.definition_problems import joined
from agent_fabric.interfaces.cli.workflows.workflow_options import find, is_file
from agent_fabric.interfaces.views.workflows.views import WORKFLOWS, checked_object, found_from
from agent_fabric.wire.definitions import WORKFLOW_PROBLEM
from agent_fabric.wire.shape import Json

if TYPE_CHECKING:
    from agent_fabric.client import FabricClient


def list_at(at: Place) -> Json:
    """Return every workflow, and which files are wrong."""
    url = at.url()
    if url is not None:
        return with_client(url, lambda client: client.workflows.everything())
    root = at.root()
    return WORKFLOWS.dump(open_workflows(root, configuration(root).config).files.list())


def check_at(at: Place, names: list[str]) -> Json:
    """Return what is wrong with some workflows, or with all of them; each is named, or is a file of this machine.

    Raises:
        DefinitionNotFound: there is none of a name.
    """
    url = at.url()
    if url is None:
        root = at.root()
        workflows = open_workflows(root, configuration(root).config)
        return checked_object([find(workflows, each) for each in names] if names else workflows.files.list())

    async def go(client: "FabricClient") -> Json:
        if not names:
            return await client.workflows.validate()
        return joined([await _checked(client, each) for each in names])

    return with_client(url, go)


def find_at(at: Place, name: str) -> WorkflowFile:
    """Return a workflow by its name or its file, sound or not.

    Raises:
        DefinitionNotFound: there is none.
    """
    url = at.url()
    if url is None:
        root = at.root()
        return find(open_workflows(root, configuration(root).config), name)
    return with_client(url, lambda client: _found(client, name))


async def _found(client: "FabricClient", name: str) -> WorkflowFile:
    if not is_file(name):
        return found_from(await client.workflows.show(name))
    here = read_definition(_path(name))
    checked = await _checked(client, name)
    if checked["valid"]:
        return replace(here, definition=definition_from(here.plain), problems=(), notes=tuple(checked["notes"]))
    problems = tuple(WORKFLOW_PROBLEM.load(each) for each in checked["problems"])
    return WorkflowFile(path=here.path, plain=here.plain, problems=problems)


async def _checked(client: "FabricClient", name: str) -> Json:
    """Let a server check one of its workflows, or a file of this machine beside its agents and workflows."""
    if not is_file(name):
        return await client.workflows.validate(name=name)
    path = _path(name)
    text = definition_text(path)
    if text is None:
        return checked_object([read_definition(path)])  # which says why it cannot be read
    return await client.workflows.validate(text, file=str(path))


def _path(name: str) -> Path:
    return Path(name).expanduser()
