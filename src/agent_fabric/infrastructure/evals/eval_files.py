"""Eval files: read with the folders that their cases name, and checked with lines and hints."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from agent_fabric.domain.definitions.problems import Problem
from agent_fabric.domain.evals.check import EvalInvalid, problems_in_eval
from agent_fabric.domain.evals.definition import (
    MAX_CASE_BYTES,
    MAX_FILES,
    CaseFile,
    EvalDefinition,
    definition_from,
    is_inside,
    plain_file,
)
from agent_fabric.infrastructure.definitions.files import DefinitionFile, read_file, unreadable
from agent_fabric.infrastructure.tree_walk import walk_tree

SUFFIXES: Final = (".yaml", ".yml", ".json")
_X: Final = stat.S_IXUSR


def read_eval(path: Path) -> EvalDefinition:
    """Read and check an eval file; it is called like the file unless it says otherwise.

    Raises:
        EvalInvalid: it cannot be read, or something in it is wrong; all problems are named, each with its line.
    """
    file = _readable(path)
    problems = problems_in_eval(file.plain)
    if problems:
        raise EvalInvalid(file.locate(problems), what=str(path))
    plain, problems = _with_folders(file.plain, path.absolute().parent)
    problems = problems or problems_in_eval(plain, with_folders=False)
    if problems:
        raise EvalInvalid(file.locate(problems), what=str(path))
    return definition_from({**plain, "name": plain.get("name") or path.stem})


def _readable(path: Path) -> DefinitionFile:
    named = path.name.endswith(SUFFIXES)
    hint = "Use a name that ends in .yaml or .json."
    file = read_file(path) if named else unreadable(path, "the name does not show the format", hint)
    if file.parsed is None:
        raise EvalInvalid(file.problems, what=str(path))
    return file


def _with_folders(plain: Mapping[str, Any], beside: Path) -> tuple[dict[str, Any], list[Problem]]:
    """Return a definition in which the content of folders stands under `files`; what is there by name counts more."""
    cases, problems = [], list[Problem]()
    for index, case in enumerate(plain["cases"]):
        if case.get("folder") is None:
            cases.append(case)
            continue
        try:
            found = _files_in(beside, case["folder"])
        except ValueError as problem:
            message = f"cases[{index}].folder: {problem}"
            problems.append(Problem(path=("cases", index, "folder"), message=message))
            continue
        files = {name: plain_file(each) for name, each in found.items()}
        rest = {key: value for key, value in case.items() if key != "folder"}
        cases.append({**rest, "files": {**files, **(case.get("files") or {})}})
    return {**plain, "cases": cases}, problems


def _files_in(beside: Path, name: str) -> dict[str, CaseFile]:
    """Return the files of a folder.

    Raises:
        ValueError: it lies elsewhere, has links or other things in it, or too much.
    """
    if not is_inside(name.removesuffix("/")):
        raise ValueError("the folder must lie beside the file or below; write it like: fixtures/shop")
    folder = beside / name
    if not folder.is_dir():
        raise ValueError(f"there is no folder {str(folder)!r}")
    if not folder.resolve().is_relative_to(beside.resolve()):
        raise ValueError("it leads out of the folder that the file lies in")
    files: dict[str, CaseFile] = {}
    size = 0
    for entry in walk_tree(folder):
        if entry.problem is not None:
            raise ValueError(f"{entry.path!r} cannot be read: {entry.problem.strerror}")
        mode = entry.status.st_mode
        if stat.S_ISDIR(mode):
            continue
        if not stat.S_ISREG(mode):
            raise ValueError(f"{entry.path!r} is neither a file nor a folder; a case takes no links")
        size += entry.status.st_size
        if len(files) >= MAX_FILES or size > MAX_CASE_BYTES:
            raise ValueError(f"it has more than {MAX_FILES:,} files or {MAX_CASE_BYTES:,} bytes")
        opened = os.open(entry.name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=entry.folder)
        with os.fdopen(opened, "rb") as file:
            files[entry.path] = CaseFile(data=file.read(), executable=bool(mode & _X))
    return dict(sorted(files.items()))
