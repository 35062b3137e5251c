"""Workflows in files: `workflow-definitions/` in the project, or the folders that the configuration names.

A broken file is listed with its problems and hides no other.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_fabric.application.ports.workflows import WORKFLOW_SUFFIXES, WorkflowFile
from agent_fabric.domain.definitions.problems import Problem, did_you_mean
from agent_fabric.domain.errors import DefinitionNotFound
from agent_fabric.domain.workflows.checks.check import NOTHING_KNOWN, problems_in
from agent_fabric.domain.workflows.checks.output_types import KnownNames
from agent_fabric.domain.workflows.definition import definition_from
from agent_fabric.infrastructure.definitions.files import (
    DefinitionFile,
    DefinitionFiles,
    parse_text,
    read_content,
    read_file,
    unreadable,
)


def read_definition(path: Path, known: KnownNames = NOTHING_KNOWN) -> WorkflowFile:
    """Read and check one file. Whatever is wrong, with the file or with what it says, stands in `problems`."""
    return _check_file(_unknown_format(path) or read_file(path), known)


def check_definition(path: Path, text: str, known: KnownNames = NOTHING_KNOWN) -> WorkflowFile:
    """Check what would stand in a file, as `read_definition` does; nothing is read."""
    return _check_file(parse_text(path, text), known)


def definition_text(path: Path) -> str | None:
    """Return what stands in a file; None if it cannot be read as text, and `read_definition` says why."""
    text = _unknown_format(path) or read_content(path)
    return text if isinstance(text, str) else None


class DefinitionFolder:
    """The workflows of some folders, by name."""

    def __init__(self, folders: Sequence[Path], known: Callable[[], KnownNames] = KnownNames) -> None:
        """`known` is asked at each lookup: agents and actions may have changed too."""
        self._files = DefinitionFiles(
            folders, lambda name: name.endswith(WORKFLOW_SUFFIXES) and not name.startswith(".")
        )
        self._known = known
        self._checks: dict[Path, tuple[DefinitionFile, KnownNames, WorkflowFile]] = {}

    def list(self) -> list[WorkflowFile]:
        """Return every file, by name of its workflow; broken ones have problems, and so has a folder that is."""
        broken, files = self._files.look()
        self._checks = {path: self._checks[path] for path in files if path in self._checks}
        names = frozenset(file.name for file in files.values() if file.name)
        known = replace(self._known(), workflows=names)
        found = [_check_file(each, known) for each in broken]
        found += _without_doubles([self._check(file, known) for file in files.values()])
        return sorted(found, key=lambda each: (each.name, str(each.path)))

    def find(self, name: str) -> WorkflowFile:
        """Return the workflow of a name, which can be run.

        Raises:
            DefinitionNotFound: there is none.
            WorkflowInvalid: its file is broken, or two files have the name.
        """
        every = self.list()
        for each in every:
            if each.name == name:
                each.usable()
                return each
        here = ", ".join(f"{folder}{'' if folder.is_dir() else ' (does not exist)'}" for folder in self._files.folders)
        known = [each.name for each in every]
        hint = did_you_mean(name, known, otherwise=f"Workflows: {', '.join(known) or 'none'}. Looked in {here}.")
        raise DefinitionNotFound(f"There is no workflow {name!r}", hint=hint)

    def _check(self, file: DefinitionFile, known: KnownNames) -> WorkflowFile:
        before = self._checks.get(file.path)
        if before is not None and before[0] is file and before[1] == known:
            return before[2]
        found = _check_file(file, known)
        self._checks[file.path] = file, known, found
        return found


def _unknown_format(path: Path) -> DefinitionFile | None:
    if path.name.endswith(WORKFLOW_SUFFIXES):
        return None
    return unreadable(path, "the name does not show the format", "Use a name that ends in .yaml or .json.")


def _check_file(file: DefinitionFile, known: KnownNames) -> WorkflowFile:
    if file.parsed is None:
        return WorkflowFile(path=file.path, problems=file.problems)
    problems = problems_in(file.plain, known)
    if problems:
        return WorkflowFile(path=file.path, plain=file.plain, problems=file.locate(problems))
    definition = definition_from(file.plain)
    return WorkflowFile(path=file.path, plain=file.plain, definition=definition)


def _name_in(plain: Any) -> str:
    name = plain.get("name") if isinstance(plain, dict) else None
    return name if isinstance(name, str) else ""


def _without_doubles(every: list[WorkflowFile]) -> list[WorkflowFile]:
    """Return the files, so that none of those that share a name can be used: which one is meant would be a guess."""
    by_name: dict[str, list[WorkflowFile]] = {}
    for each in every:
        if name := _name_in(each.plain):
            by_name.setdefault(name, []).append(each)
    doubles = {id(each): others for others in by_name.values() if len(others) > 1 for each in others}
    return [each if id(each) not in doubles else _mark_double(each, doubles[id(each)]) for each in every]


def _mark_double(found: WorkflowFile, others: list[WorkflowFile]) -> WorkflowFile:
    names = ", ".join(str(each.path) for each in others if each is not found)
    problem = Problem(
        path=("name",),
        message=f"the name {found.name!r} is used by another file too: {names}",
        hint="Rename one of them, or take one away.",
        file=str(found.path),
    )
    return replace(found, definition=None, problems=(problem, *found.problems))
