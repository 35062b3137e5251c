"""Adds a case to an eval file; comments and order stay."""

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_fabric.domain.errors import ConfigError
from agent_fabric.domain.evals.definition import EvalCase, plain_case
from agent_fabric.infrastructure.atomic_files import write_atomically
from agent_fabric.infrastructure.evals.eval_files import SUFFIXES, read_eval


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
