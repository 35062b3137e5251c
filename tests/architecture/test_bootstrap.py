"""Bootstrap joins parts, and its modules form no circle, not even through imports inside functions."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import agent_fabric.bootstrap

FOLDER = Path(agent_fabric.bootstrap.__file__).parent
PREFIX = "agent_fabric.bootstrap."


def imports_in(node: ast.AST) -> Iterator[str]:
    """Return the modules that are imported when the code runs, at once or later."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom) and child.module:
            yield child.module
        yield from imports_in(child)


def test_no_module_of_bootstrap_needs_itself_in_the_end() -> None:
    needs = {
        path.stem: {
            name.removeprefix(PREFIX) for name in imports_in(ast.parse(path.read_text())) if name.startswith(PREFIX)
        }
        for path in FOLDER.glob("*.py")
    }
    assert needs["server"], "the imports are found"
    TopologicalSorter(needs).prepare()  # raises CycleError, which names the circle
