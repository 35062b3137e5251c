"""Tells what is wrong with the expressions in a value, before anything is run."""

from collections.abc import Iterator, Mapping
from typing import Any

from agent_fabric.domain.definitions.expressions.errors import ExpressionError
from agent_fabric.domain.definitions.expressions.evaluation import bare_expression, has_braces, read_template
from agent_fabric.domain.definitions.expressions.limits import MAX_VALUE_DEPTH


def check_syntax(value: Any, *, bare: bool = False) -> list[str]:
    """Return what is wrong with each text of a value, in plain words with the place; empty if all can be read.

    With `bare`, the texts are expressions without braces around them.
    """
    return [f"{place}{problem}" for place, problem in _problems(value, "", bare=bare, depth=0)]


def _problems(value: Any, at: str, *, bare: bool, depth: int) -> Iterator[tuple[str, str]]:
    place = f"{at}: " if at else ""
    if isinstance(value, str):
        if problem := _problem(value, bare=bare):
            yield place, problem
    elif isinstance(value, Mapping | list | tuple):
        if depth >= MAX_VALUE_DEPTH:
            yield place, f"lists and mappings nest deeper than {MAX_VALUE_DEPTH} levels"
            return
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, each in pairs:
            if isinstance(key, str) and has_braces(key) and (problem := _problem(key, bare=False)):
                yield place, problem
            inside = f"{at}[{key}]" if isinstance(key, int) else f"{at}.{key}" if at else str(key)
            yield from _problems(each, inside, bare=bare, depth=depth + 1)


def _problem(text: str, *, bare: bool) -> str:
    try:
        if bare:
            bare_expression(text)
        elif has_braces(text):
            read_template(text)
    except ExpressionError as error:
        return f"{error.message}. {error.hint}" if error.hint else error.message
    except RecursionError:
        return "the expression nests too deep"
    return ""
