"""Eval files: read with the folders that their cases name, and checked with lines and hints.

A case can be added; comments and order stay.
"""

import io
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from agent_fabric.domain.definitions.problems import Problem
from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.evals.check import EvalInvalid, problems_in_eval
from agent_fabric.domain.evals.definition import (
    MAX_CASE_BYTES,
    MAX_FILES,
    CaseFile,
    EvalCase,
    EvalDefinition,
    definition_from,
    is_inside,
    plain_case,
    plain_file,
)
from agent_fabric.infrastructure.atomic_files import write_atomically
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


def add_case(path: Path, case: EvalCase, *, renames: bool = True) -> EvalCase:
    """Append a case to a file, which is made if there is none; return it with the id that it has there.

    An id that is taken gets a number, unless it must stay as it is.

    The new text is read again before it takes the place of the old one: either the file means what it meant, with this
    case at its end, or nothing is written.

    Raises:
        EvalInvalid: the file is wrong.
        ConfigError: it cannot be written, or only so that something could get lost; or the id is taken and must stay.
    """
    if not path.name.endswith(SUFFIXES):
        raise ConfigError(f"{path} does not show the format", hint="Use a name that ends in .yaml or .json.")
    known = read_eval(path).cases if path.exists() else ()
    taken = {each.case_id for each in known}
    if case.case_id in taken and not renames:
        raise ConfigError(f"{path} has a case {case.case_id!r} already", hint="Choose another one with --id ID.")
    case = replace(case, case_id=_free_id(case.case_id, taken))
    beside = path.with_name(f".{path.stem}.new{path.suffix}")
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        write_atomically(beside, _with_case(before, path.suffix, plain_case(case)).encode())
        if read_eval(beside).cases != (*known, case):
            raise ValueError("it is written in an unusual way")
        beside.replace(path)
    except ValueError as problem:
        raise ConfigError(
            f"{path} was left as it is, since adding the case could destroy something: {problem}",
            hint="Add it to another file with --to FILE, and copy it from there.",
        ) from None
    except OSError as problem:
        raise ConfigError(
            f"{path} cannot be written: {problem.strerror or problem}", hint="Choose another file with --to FILE."
        ) from None
    finally:
        beside.unlink(missing_ok=True)
    return case


def _free_id(wanted: str, taken: set[str]) -> str:
    found, number = wanted, 2
    while found in taken:
        found = f"{wanted[:60]}-{number}"
        number += 1
    return found


def _with_case(text: str, suffix: str, plain: Mapping[str, Any]) -> str:
    if suffix == ".json":
        document = json.loads(text) if text.strip() else {"cases": []}
        document["cases"].append(plain)
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return _in_yaml(text, plain)


def _in_yaml(text: str, plain: Mapping[str, Any]) -> str:
    from ruamel.yaml import YAML  # noqa: PLC0415 - only what changes a file needs it
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415 - as above
    from ruamel.yaml.util import load_yaml_guess_indent  # noqa: PLC0415 - as above

    editor = YAML()
    editor.preserve_quotes = True
    editor.width = 10_000
    out = io.StringIO()
    try:
        if text.strip():
            document, indent, dash = load_yaml_guess_indent(text, yaml=editor)
            editor.indent(mapping=2, sequence=indent or 2, offset=dash or 0)
        else:
            document = {"cases": []}
        document["cases"].append(_as_blocks(plain))
        editor.dump(document, out)
    except (YAMLError, AttributeError, TypeError) as problem:
        raise ValueError(str(problem)) from None
    after = out.getvalue()
    comments = (line.strip() for line in text.splitlines() if line.lstrip().startswith("#"))
    if any(comment not in after for comment in comments):
        raise ValueError("a comment stands where it would get lost")
    return after


def _as_blocks(value: Any) -> Any:
    """Return plain data whose texts are written so that people can read them, and YAML 1.1 means the same by them."""
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString  # noqa: PLC0415 - as above

    if isinstance(value, Mapping):
        return {_as_blocks(key): _as_blocks(each) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    lines = value.split("\n")
    if len(lines) > 1 and lines[0] and not lines[0][0].isspace() and all(line.isprintable() for line in lines):
        return LiteralScalarString(value)
    plain = value.replace("-", "").replace(".", "").replace("/", "").replace("_", "")
    return (
        value if plain.isidentifier() and plain.isascii() and plain[:1].islower() else DoubleQuotedScalarString(value)
    )
