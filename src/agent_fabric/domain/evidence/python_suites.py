"""What tests in Python check, told by their syntax: what is never reached, or always holds, checks nothing."""

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from agent_fabric.domain.policy.command_lines.names import names

_CHECKING = re.compile(r"assert|expect|should|raises|warns|verify|fail|check", re.IGNORECASE)
_FORGIVING = frozenset({"AssertionError", "Exception", "BaseException"})
_NEVER = re.compile(r"(?:False|0|None|TYPE_CHECKING|typing\.TYPE_CHECKING|__name__ == '__main__')")
_SAME = frozenset(
    {"assertEqual", "assertEquals", "assertIs", "assertListEqual", "assertDictEqual", "assertAlmostEqual"}
)
_TRUE = frozenset({"assertTrue", "assert_", "failUnless"})
_END = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINING = (*_FUNCTIONS, ast.ClassDef)
_SKIPS = re.compile(r"skip|xfail|expectedFailure|parametrize\([^)]*\[\]\)", re.IGNORECASE)
_ABOUT_WHAT_FOLLOWS = re.compile(r"(?:assert_?)?(?:raises|warns|logs|fail)", re.IGNORECASE)
"""Checks of what happens beside them, not of what they are given."""


class PythonTests(NamedTuple):
    """What a file of tests has."""

    tests: int
    """Functions that a runner calls."""
    checks: int
    """Checks that are reached and can fail."""
    in_cases: int
    """Those of the tests that are methods of a class with a base: unittest executes no others."""
    may_skip: int = 0
    """Those of the tests that say themselves when they are skipped."""

    @property
    def is_script(self) -> bool:
        """Whether it has checks and no function that a runner would call, so that it is run as a program."""
        return not self.tests and self.checks > 0


def read_tests(text: str) -> PythonTests | None:
    """Return what a file of tests has; None: it is no Python."""
    try:
        module = ast.parse(text)
        tests = dict(_tests_in(module.body))
        checks = sum(1 for _ in _checks_in(module.body, inert_in_module(module.body)))
        return PythonTests(len(tests), checks, sum(tests.values()), min(len(tests), _may_skip(module.body)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def read_checks(text: str) -> list[str] | None:
    """Return the checks of a file of tests that are reached and can fail, as code; None: it is no Python."""
    try:
        module = ast.parse(text)
        return [ast.unparse(each) for each in _checks_in(module.body, inert_in_module(module.body))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _may_skip(body: Sequence[ast.stmt]) -> int:
    """Count the tests that are skipped under some condition; one that stands above others counts for all of them."""
    if any(_SKIPS.search(ast.unparse(each)) for each in body if not isinstance(each, _DEFINING)):
        return len(dict(_tests_in(body)))
    count = 0
    for each in body:
        marked = isinstance(each, _DEFINING) and any(_SKIPS.search(ast.unparse(mark)) for mark in each.decorator_list)
        if isinstance(each, _FUNCTIONS) and each.name.startswith("test"):
            count += marked or _SKIPS.search(ast.unparse(each)) is not None
        elif isinstance(each, ast.ClassDef):
            sets_up = (
                inner for inner in each.body if isinstance(inner, _FUNCTIONS) and inner.name.lower().startswith("setup")
            )
            whole = marked or any(_SKIPS.search(ast.unparse(inner)) for inner in sets_up)
            count += len(dict(_tests_in([each]))) if whole else _may_skip(each.body)
    return count


def _tests_in(body: Sequence[ast.stmt], within: str = "", *, in_case: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield the names of tests, and whether they stand in a class with a base.

    One that stands inside of a condition may not be there when it runs.
    """
    gone = {
        name.id for each in body if isinstance(each, ast.Delete) for name in each.targets if isinstance(name, ast.Name)
    }
    for each in body:
        if isinstance(each, _FUNCTIONS) and each.name.startswith("test") and each.name not in gone:
            if not any("fixture" in ast.unparse(mark) for mark in each.decorator_list):
                yield f"{within}.{each.name}", in_case
        elif isinstance(each, ast.ClassDef) and each.name not in gone and _is_collected(each):
            yield from _tests_in(each.body, f"{within}.{each.name}", in_case=bool(each.bases))


def _is_collected(case: ast.ClassDef) -> bool:
    hidden = any(isinstance(each, ast.Assign) and ast.unparse(each) == "__test__ = False" for each in case.body)
    return not hidden and (bool(case.bases) or case.name.startswith("Test"))


def _checks_in(body: Sequence[ast.stmt], inert: frozenset[str]) -> Iterator[ast.AST]:
    """Yield the checks that are reached, can fail, and are not about inert names alone."""
    for each in body:
        match each:
            case ast.If(test=test) | ast.While(test=test) if _NEVER.fullmatch(ast.unparse(test)):
                yield from _checks_in(each.orelse, inert)
            case ast.Try() | ast.TryStar() if any(map(_forgives, each.handlers)):
                yield from _checks_in([*each.orelse, *each.finalbody], inert)
            case ast.With() | ast.AsyncWith() if any(_expects_failure(item.context_expr) for item in each.items):
                # A check in there has to fail, or may. Anything else has to raise something, which is checked.
                yield from () if any(_checks_in(each.body, inert)) else _checks_below(each, inert)
            case ast.Assert(test=test):
                if not _always_holds(test) and not is_inert(test, inert):
                    yield each
            case _:
                yield from _checks_below(each, inert_in_function(each, inert))
        if isinstance(each, _END):
            return


def _checks_below(statement: ast.stmt, inert: frozenset[str]) -> Iterator[ast.AST]:
    for _, value in ast.iter_fields(statement):
        parts = value if isinstance(value, list) else [value]
        statements = [part for part in parts if isinstance(part, ast.stmt)]
        yield from _checks_in(statements, inert)
        for part in parts:
            if isinstance(part, ast.ExceptHandler | ast.match_case):
                yield from _checks_in(part.body, inert)
            elif isinstance(part, ast.AST) and not isinstance(part, ast.stmt):
                calls = (call for call in ast.walk(part) if isinstance(call, ast.Call) and _is_check(call))
                yield from (call for call in calls if not _is_inert_call(call, inert))


def _is_inert_call(call: ast.Call, inert: frozenset[str]) -> bool:
    """Tell whether a check is given nothing of a program: `self.assertEqual(1 + 2, 3)`."""
    if _ABOUT_WHAT_FOLLOWS.match(_name(call)):
        return False
    given = (*call.args, *(each.value for each in call.keywords))
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    about_self = isinstance(owner, ast.Name) and owner.id in {"self", "cls", "case", "tc", "testcase"}
    return all(is_inert(each, inert) for each in given) and (about_self or is_inert(call.func, inert))


def _forgives(handler: ast.ExceptHandler) -> bool:
    """Tell whether a failed check goes unnoticed."""
    caught = (
        set() if handler.type is None else {name.id for name in ast.walk(handler.type) if isinstance(name, ast.Name)}
    )
    told = any(
        isinstance(each, ast.Raise | ast.Assert) or (isinstance(each, ast.Call) and _is_check(each))
        for each in ast.walk(handler)
    )
    return (handler.type is None or bool(caught & _FORGIVING)) and not told


def _expects_failure(context: ast.expr) -> bool:
    """Tell whether a block has to fail, or may: `raises(AssertionError)`, `suppress(Exception)`."""
    if not isinstance(context, ast.Call):
        return False
    caught = {ast.unparse(each) for each in context.args}
    return _name(context) in {"suppress", "raises", "assertRaises"} and bool(caught & _FORGIVING)


def _is_check(call: ast.Call) -> bool:
    name = _name(call)
    if not any(map(_CHECKING.match, ast.unparse(call.func).split("."))):
        return False
    if name in _SAME and len(call.args) >= 2:
        return not _same(*call.args[:2])
    return not (name in _TRUE and call.args and _always_holds(call.args[0]))


def _name(call: ast.Call) -> str:
    called = call.func
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def _always_holds(test: ast.expr) -> bool:
    match test:
        case ast.Constant(value=value):
            return bool(value)
        case ast.Tuple(elts=elements):
            return bool(elements)
        case ast.UnaryOp(op=ast.Not(), operand=ast.Constant(value=value)):
            return not value
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(map(_always_holds, values))
        case ast.BoolOp(op=ast.And(), values=values):
            return all(map(_always_holds, values))
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[right]):
            return _same(left, right)
        case _:
            return False


def _same(one: ast.expr, other: ast.expr) -> bool:
    return ast.dump(one) == ast.dump(other)


_OPENING = frozenset({"open", "exec", "eval", "compile", "input", "globals", "locals", "vars", "__import__"})
"""Built-in functions through which a program may come in."""
_BUILTIN = frozenset(dir(builtins)) - _OPENING
_INERT_MODULES = names(
    "__future__ abc collections copy dataclasses datetime decimal enum fractions functools itertools json math mock "
    "operator pytest random re statistics string textwrap time typing unittest"
)
"""Modules that know nothing of the workspace."""
_MAKING_NAMES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_CALLABLES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


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
    return _grow_inert(body, frozenset(inert), imported.keys() - inert)


def inert_in_function(function: ast.AST, inert: frozenset[str]) -> frozenset[str]:
    """Return the same for what stands in a function: what it is given may be anything."""
    if not isinstance(function, _CALLABLES):
        return inert
    given = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    body: Sequence[ast.AST] = [function.body] if isinstance(function, ast.Lambda) else function.body
    return _grow_inert(body, inert - given, given)


def is_inert(value: ast.AST, inert: frozenset[str]) -> bool:
    """Tell whether an expression is made of such names, and of constants, alone."""
    bound = {name for part in ast.walk(value) if isinstance(part, ast.comprehension) for name in _names(part.target)}
    return all(name in inert or name in bound for name in _names(value))


def _grow_inert(body: Iterable[ast.AST], inert: frozenset[str], live: Iterable[str]) -> frozenset[str]:
    """Add the names that are only ever made of inert ones, and that no program is given."""
    nodes = [node for each in body for node in _walk(each)]
    values = list(_assignments(nodes))
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


def _assignments(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.AST]]:
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
