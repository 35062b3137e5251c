"""Names in a file of tests behind which no program stands: what is made of them alone checks nothing. Pure.

`assert 1 + 2 == 3`, a copy of the tested function in the file itself, a `Mock` that answers what it was told.
"""

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence

from agent_fabric.domain.policy.command_lines.names import names

_OPENING = frozenset({"open", "exec", "eval", "compile", "input", "globals", "locals", "vars", "__import__"})
"""Built-in functions through which a program may come in."""
_BUILTIN = frozenset(dir(builtins)) - _OPENING
_INERT_MODULES = names(
    "__future__ abc collections copy dataclasses datetime decimal enum fractions functools itertools json math mock "
    "operator pytest random re statistics string textwrap time typing unittest"
)
"""Modules that know nothing of the workspace."""
_MAKING_NAMES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def inert_in_module(body: Sequence[ast.stmt]) -> frozenset[str]:
    """Return the names of a module of tests behind which no program stands."""
    inert = set(_BUILTIN)
    imported = {
        (alias.asname or alias.name).partition(".")[0]: _module_of(node, alias)
        for each in body
        for node in ast.walk(each)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    inert -= imported.keys()
    inert |= {name for name, module in imported.items() if module in _INERT_MODULES}
    return _grown(body, frozenset(inert), imported.keys() - inert)


def inert_in_function(function: ast.AST, inert: frozenset[str]) -> frozenset[str]:
    """Return the same for what stands in a function: what it is given may be anything."""
    if not isinstance(function, _FUNCTIONS):
        return inert
    given = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    body: Sequence[ast.AST] = [function.body] if isinstance(function, ast.Lambda) else function.body
    return _grown(body, inert - given, given)


def is_inert(value: ast.AST, inert: frozenset[str]) -> bool:
    """Tell whether an expression is made of such names, and of constants, alone."""
    bound = {name for part in ast.walk(value) if isinstance(part, ast.comprehension) for name in _names(part.target)}
    return all(name in inert or name in bound for name in _names(value))


def _grown(body: Iterable[ast.AST], inert: frozenset[str], live: Iterable[str]) -> frozenset[str]:
    """Add the names that are only ever made of inert ones, and that no program is given."""
    nodes = [node for each in body for node in _walk(each)]
    values = list(_assigned(nodes))
    made = {each.name: each for each in nodes if isinstance(each, _MAKING_NAMES)}
    own = frozenset(name for name, _ in values) | made.keys()
    found, living = inert | own, frozenset(live)
    while True:
        found -= living
        alive = {name for name, value in values if not is_inert(value, found)}
        alive |= {name for name, each in made.items() if not _is_inert_definition(each, found)}
        # What meets a program in a call, or is used by a function that does, may have got something from it.
        calls = (node for node in nodes if isinstance(node, ast.Call) and not is_inert(node, found))
        meeting = (*calls, *(made[name] for name in living if name in made))
        alive |= {name for each in meeting for name in _names(each)} & own
        if alive <= living:
            return found
        living |= alive


def _is_inert_definition(made: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, inert: frozenset[str]) -> bool:
    bound = {node.id for node in ast.walk(made) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(made) if isinstance(node, ast.arg)}
    bound |= {node.name for node in ast.walk(made) if isinstance(node, _MAKING_NAMES)}
    imports = any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(made))
    return not imports and all(name in inert or name in bound for name in _names(made))


def _assigned(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((name, value) for target in targets for name in _names(target))
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from ((name, value) for name in _names(target))
            case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
                yield from ((name, value) for name in _names(target))
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                yield from ((name, value) for name in _names(target))
            case _:
                pass


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in a statement, apart from the bodies of functions and classes in it."""
    yield node
    if not isinstance(node, _MAKING_NAMES):
        for child in ast.iter_child_nodes(node):
            yield from _walk(child)


def _names(node: ast.AST) -> list[str]:
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


def _module_of(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    if isinstance(statement, ast.ImportFrom):
        return "" if statement.level else (statement.module or "").partition(".")[0]
    return alias.name.partition(".")[0]
