"""What tests in Python check, told by their syntax: what is never reached, or always holds, checks nothing."""

import ast
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agent_fabric.domain.evidence.inert_names import inert_in_function, inert_in_module, is_inert

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
