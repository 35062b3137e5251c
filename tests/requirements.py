"""Which tests prove which requirement.

    python tests/requirements.py                 how much is proven
    python tests/requirements.py --missing       and what is not
    python tests/requirements.py --id AF-056     the tests that prove one requirement

A test says it with `@pytest.mark.proves("AF-056")`, on itself, its class or, as `pytestmark`, its module. The tests
are read, not run. A mark with an unknown id is an error.
"""

import argparse
import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parent


class Proof(NamedTuple):
    """One test that claims to prove one requirement."""

    requirement: str
    test: str
    """As pytest names it: `tests/unit/test_x.py::TestY::test_z`; a whole class or file if that is what is marked."""
    line: int


def requirements() -> Mapping[str, Mapping[str, str]]:
    """Return every requirement: part → id → one line about it."""
    parts: dict[str, dict[str, str]] = tomllib.loads((TESTS / "requirements.toml").read_text(encoding="utf-8"))
    return parts


def proofs(folder: Path = TESTS) -> list[Proof]:
    """Return what the marks under a folder claim, by file and line."""
    return [
        proof
        for file in sorted(folder.rglob("*.py"))
        for proof in proofs_in(file.read_text(encoding="utf-8"), file.relative_to(folder.parent).as_posix())
    ]


def proofs_in(source: str, name: str) -> list[Proof]:
    """Return what the marks in one source text claim.

    Raises:
        ValueError: a mark that names no id, or hides it in a variable.
    """
    return list(_claims(ast.parse(source, name).body, name))


def unknown(claimed: Sequence[Proof]) -> list[Proof]:
    """Return the claims about a requirement that does not exist."""
    known = {requirement for part in requirements().values() for requirement in part}
    return [proof for proof in claimed if proof.requirement not in known]


def _claims(body: Sequence[ast.stmt], owner: str) -> Iterator[Proof]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _marks(node.decorator_list, f"{owner}::{node.name}")
            case ast.ClassDef():
                yield from _marks(node.decorator_list, f"{owner}::{node.name}")
                yield from _claims(node.body, f"{owner}::{node.name}")
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
                yield from _marks([value], owner)
            case _:
                pass


def _marks(expressions: Sequence[ast.expr], test: str) -> Iterator[Proof]:
    for node in (node for expression in expressions for node in ast.walk(expression)):
        match node:
            case ast.Call(func=ast.Attribute(attr="proves", value=ast.Attribute(attr="mark")), args=ids):
                names = [name.value for name in ids if isinstance(name, ast.Constant) and isinstance(name.value, str)]
                if not names or len(names) < len(ids):
                    raise ValueError(f"{test}: line {node.lineno}: proves() takes ids, each written out as a string")
                yield from (Proof(name, test, node.lineno) for name in names)
            case _:
                pass


def _print_coverage(proven: set[str], *, missing: bool) -> None:
    parts = requirements()
    for part, ids in parts.items():
        print(f"{part:<16}{len(proven & ids.keys()):>5} of {len(ids):>3} proven")
    print(f"{'all':<16}{len(proven):>5} of {sum(map(len, parts.values())):>3} proven")
    for part, ids in parts.items() if missing else ():
        print(f"\n{part}, not proven:")
        for requirement, summary in ids.items():
            if requirement not in proven:
                print(f"  {requirement:<8}{summary}")


def _print_tests(requirement: str, claimed: Sequence[Proof]) -> int:
    for ids in requirements().values():
        if requirement in ids:
            print(f"{requirement}  {ids[requirement]}")
            tests = [proof.test for proof in claimed if proof.requirement == requirement]
            print("\n".join(f"  {test}" for test in tests or ["no test proves it"]))
            return 0
    print(f"There is no requirement {requirement}.", file=sys.stderr)
    return 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(description="Which tests prove which requirement.")
    parser.add_argument("--missing", action="store_true", help="list what no test proves")
    parser.add_argument("--id", metavar="ID", help="list the tests that prove one requirement")
    options = parser.parse_args(arguments)
    try:
        claimed = proofs()
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if wrong := unknown(claimed):
        for proof in wrong:
            print(f"{proof.test}: line {proof.line}: there is no requirement {proof.requirement}", file=sys.stderr)
        return 1
    if options.id:
        return _print_tests(options.id, claimed)
    _print_coverage({proof.requirement for proof in claimed}, missing=options.missing)
    return 0


if __name__ == "__main__":
    sys.exit(main())
