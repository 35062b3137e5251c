"""Finds files that a change has left broken, so that a model mends them now and not after its last step."""

import json
import shlex
import tomllib
from collections.abc import Iterable

from agent_fabric.application.ports.sandbox import Sandbox

MAX_CHECKED_BYTES = 256 * 1024
_MAX_FILES = 5
_LOOK_S = 10.0
_PYTHON = """\
import ast, sys
try:
    body = ast.parse(open(sys.argv[1], "rb").read()).body
    values = [each.value for each in body if isinstance(each, ast.Expr)]
    plain = [each for each in values if isinstance(each, (ast.Constant, ast.Tuple, ast.List, ast.Dict))]
    if len(plain) == len(body) and any(not isinstance(getattr(each, "value", 0), (str, type(...))) for each in plain):
        print("a program, it only lists values, and does nothing with them")
except SyntaxError as problem:
    print(f"valid Python, line {problem.lineno}: {problem.msg}: {(problem.text or '').strip()[:100]}")
"""
"""Runs in the box: what a model wrote may be more than our own parser can take."""


async def broken_files(sandbox: Sandbox, paths: Iterable[str]) -> dict[str, str]:
    """Return which of the files are not what their names say, and where they go wrong."""
    found = {path: await _problem_with(sandbox, path) for path in list(paths)[:_MAX_FILES]}
    return {path: problem for path, problem in found.items() if problem}


async def _problem_with(sandbox: Sandbox, path: str) -> str:
    match path.casefold().rpartition(".")[2]:
        case "py":
            looked = await sandbox.run_command(
                f"python3 -c {shlex.quote(_PYTHON)} {shlex.quote(path)}", timeout_s=_LOOK_S
            )
            said = looked.stdout.decode(errors="replace").strip()
            return f"not {said}" if looked.exit_code == 0 and said else ""
        case "json":
            return await _refused(sandbox, path, json.loads, "JSON")
        case "toml":
            return await _refused(sandbox, path, tomllib.loads, "TOML")
        case _:
            return ""


async def _refused(sandbox: Sandbox, path: str, read: object, kind: str) -> str:
    assert callable(read)
    try:
        data, size = await sandbox.read_file(path, max_bytes=MAX_CHECKED_BYTES)
        if size <= len(data) and data.strip():
            read(data.decode())
    except OSError:
        return ""  # gone again
    except RecursionError:
        return ""  # nested more deeply than anybody would have to mend
    except ValueError as problem:
        several = ": it must be one value; put several into one list, [ … , … ]" if "Extra data" in str(problem) else ""
        return f"not valid {kind}, {problem}{several}"
    return ""
