"""The filters by name, and what may stand in their brackets."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from agent_fabric.domain.definitions.expressions import list_filters, value_filters
from agent_fabric.domain.definitions.expressions.errors import ExpressionError, did_you_mean, kind_of, shorten
from agent_fabric.domain.definitions.expressions.limits import Evaluation
from agent_fabric.domain.definitions.expressions.list_filters import by_attribute, items_of
from agent_fabric.domain.definitions.expressions.value_tests import CHECKS, DEFINED

_ABSENT = object()
_TAKES_MORE = 0x04
"""The flag of code that ends its parameters with `*more`."""


class Filter(NamedTuple):
    """One filter."""

    apply: Callable[..., Any]
    """Takes the evaluation, the value in front of `|`, and what stands in the brackets."""
    parameters: tuple[str, ...]
    required: int
    """How many of them must be given."""
    takes_more: bool


def problem_with(name: str, count: int, named: Sequence[str]) -> str:
    """Say what is wrong with a use of a filter: `count` arguments in order, then named ones. Nothing if it is fine."""
    found = FILTERS.get(name)
    if found is None:
        return f"there is no filter '{shorten(name)}'; " + (
            did_you_mean(name, FILTERS) or f"there are: {', '.join(FILTERS)}"
        )
    unknown = [each for each in named if each not in found.parameters]
    if unknown:
        known = ", ".join(found.parameters) or "nothing"
        return f"the filter '{name}' knows no '{unknown[0]}' (it knows: {known})"
    if (count > len(found.parameters) and not found.takes_more) or set(named) & set(found.parameters[:count]):
        return f"the filter '{name}' takes {_signature(name, found)}"
    needed = set(found.parameters[count : found.required]) - set(named)
    return f"the filter '{name}' needs {_signature(name, found)}" if needed else ""


def apply_filter(at: Evaluation, name: str, value: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Apply a filter whose use was found to be fine.

    Raises:
        ExpressionError: the value is nothing for this filter.
    """
    try:
        return FILTERS[name].apply(at, value, *given, **named)
    except ExpressionError as error:
        if error.missing is not None:
            raise
        raise ExpressionError(f"'{name}': {error.message}", hint=error.hint) from None
    except RecursionError:
        raise ExpressionError(f"'{name}': the value nests too deep") from None


def _signature(name: str, found: Filter) -> str:
    shown = [each if place < found.required else f"{each}?" for place, each in enumerate(found.parameters)]
    return f"{name}({', '.join(shown)})" if shown else "nothing in brackets"


def _map(
    at: Evaluation,
    value: Any,
    filter: Any = None,  # noqa: A002 - as it is written
    *more: Any,
    attribute: Any = None,
    default: Any = _ABSENT,
) -> Any:
    """Apply a filter to every item, or take a field of every item."""
    items = items_of(at, value)
    if attribute is not None:
        if default is _ABSENT:
            return by_attribute(at, items, attribute)
        return by_attribute(at, items, attribute, default, optional=True)
    if not isinstance(filter, str) or (problem := problem_with(filter, len(more), ())):
        raise ExpressionError(problem if isinstance(filter, str) else "name a filter or attribute='FIELD'")
    return [apply_filter(at, filter, each, more, {}) for each in items]


def _choose(at: Evaluation, value: Any, attribute: Any, test: Any, more: tuple[Any, ...], wanted: bool) -> list[Any]:
    if test is not None and (not isinstance(test, str) or test not in CHECKS):
        name = shorten(test) if isinstance(test, str) else kind_of(test)
        raise ExpressionError(f"there is no test '{name}' (there are: {', '.join(CHECKS)})")
    check = CHECKS[test or "true"]
    if len(more) != check.arguments:
        raise ExpressionError(f"the test '{test}' needs {check.arguments} value(s) to compare with, not {len(more)}")
    items = items_of(at, value)
    absent = _ABSENT if test in DEFINED else None
    subjects = items if attribute is None else by_attribute(at, items, attribute, absent, optional=True)
    if test in DEFINED:
        subjects = [(subject is not _ABSENT) is (test == "defined") for subject in subjects]
    if test is None or test in DEFINED:
        return [each for each, subject in zip(items, subjects, strict=True) if bool(subject) is wanted]
    return [each for each, subject in zip(items, subjects, strict=True) if check.holds(at, subject, *more) is wanted]


def _select(at: Evaluation, value: Any, test: Any = None, *more: Any) -> Any:
    return _choose(at, value, None, test, more, wanted=True)


def _reject(at: Evaluation, value: Any, test: Any = None, *more: Any) -> Any:
    return _choose(at, value, None, test, more, wanted=False)


def _selectattr(at: Evaluation, value: Any, attribute: Any, test: Any = None, *more: Any) -> Any:
    return _choose(at, value, attribute, test, more, wanted=True)


def _rejectattr(at: Evaluation, value: Any, attribute: Any, test: Any = None, *more: Any) -> Any:
    return _choose(at, value, attribute, test, more, wanted=False)


def _register(functions: Mapping[str, Callable[..., Any]]) -> dict[str, Filter]:
    """Read from each function what it takes."""
    filters = {}
    for name, function in functions.items():
        code = function.__code__
        named = code.co_varnames[2 : code.co_argcount + code.co_kwonlyargcount]
        required = code.co_argcount - 2 - len(function.__defaults__ or ())
        filters[name] = Filter(function, named, required, bool(code.co_flags & _TAKES_MORE))
    return filters


FILTERS: Mapping[str, Filter] = _register(
    {
        **value_filters.FUNCTIONS,
        **list_filters.FUNCTIONS,
        "map": _map,
        "select": _select,
        "reject": _reject,
        "selectattr": _selectattr,
        "rejectattr": _rejectattr,
    }
)
