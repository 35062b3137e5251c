"""Gives expressions their values: the entry point for other modules."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from agent_fabric.domain.definitions.expressions.errors import ExpressionError, unreadable
from agent_fabric.domain.definitions.expressions.limits import MAX_VALUE_DEPTH, Evaluation
from agent_fabric.domain.definitions.expressions.nodes import Expression
from agent_fabric.domain.definitions.expressions.parser import parse
from agent_fabric.domain.definitions.expressions.templates import Template, TemplateReader

_CACHED = 1024
_CACHED_CHARS = 2_000
"""Longer texts are read anew each time, so that what is kept stays small."""


def evaluate(text: str, scope: Mapping[str, Any]) -> Any:
    """Return the value of an expression: bare, as in a condition, or in `{{ }}`.

    Raises:
        ExpressionError: it cannot be read, has no value here, or would need too much.
    """
    try:
        expression = bare_expression(text)
        at = Evaluation(scope)
        return _weigh(at, expression.value(at))
    except RecursionError:
        raise _too_deep() from None


def resolve(value: Any, scope: Mapping[str, Any], *, checked: Callable[[str, Any], Any] | None = None) -> Any:
    """Return a value with every expression in its texts filled in, at any depth.

    A text that is exactly one `{{ expression }}` becomes its value, of whatever type; a line end behind it, as blocks
    in YAML have it, does not count. `checked` is given each text with braces and what it came to, and returns what is
    taken.

    Raises:
        ExpressionError: one cannot be read, has no value here, or all together would need too much.
    """
    try:
        if type(value) is str and not has_braces(value):
            return value
        return _resolve(value, Evaluation(scope, checked), 0)
    except RecursionError:
        raise _too_deep() from None


def render(template: str, scope: Mapping[str, Any]) -> str:
    """Return a template as text, with values, blocks and loops filled in.

    Raises:
        ExpressionError: it cannot be read, has no value here, or would need too much.
    """
    if "{" not in template:
        return template
    try:
        return read_template(template).text(Evaluation(scope))
    except RecursionError:
        raise _too_deep() from None


def has_braces(text: str) -> bool:
    """Tell whether `resolve` would look for expressions in a text."""
    return "{{" in text or "{%" in text


def read_template(text: str) -> Template:
    """Return the template that a text is; texts that come again are read once.

    Raises:
        ExpressionError: it cannot be read.
    """
    return _kept_template(text) if len(text) <= _CACHED_CHARS else TemplateReader(text).read()


def bare_expression(text: str) -> Expression:
    """Return the expression that a condition is, whether it stands in braces or not.

    Raises:
        ExpressionError: it cannot be read.
    """
    return _kept_expression(text) if len(text) <= _CACHED_CHARS else _bare_expression(text)


def only_expression(text: str) -> Expression | None:
    """Return the expression that a text with braces wholly is, if so.

    Raises:
        ExpressionError: the text cannot be read.
    """
    return read_template(text.removesuffix("\n")).only


def _bare_expression(text: str) -> Expression:
    if not text.lstrip().startswith(("{{", "{%")):
        return parse(text)
    only = TemplateReader(text.strip()).read().only
    if only is None:
        hint = "Write the whole condition in one {{ }}, or without braces."
        raise unreadable(text, 0, "there is text outside the braces, so this would only be text", hint)
    return only


_kept_template = lru_cache(_CACHED)(lambda text: TemplateReader(text).read())
_kept_expression = lru_cache(_CACHED)(_bare_expression)


def _resolve(value: Any, at: Evaluation, depth: int) -> Any:
    if type(value) is str:
        return _fill(value, at) if "{{" in value or "{%" in value else value
    if type(value) is dict or isinstance(value, Mapping):
        _check_depth(depth)
        return {_key(key, at): _resolve(each, at, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        _check_depth(depth)
        return [_resolve(each, at, depth + 1) for each in value]
    return value


def _fill(text: str, at: Evaluation) -> Any:
    only = only_expression(text)
    made = read_template(text).text(at) if only is None else _weigh(at, only.value(at))
    return made if at.checked is None else at.checked(text, made)


def _key(key: Any, at: Evaluation) -> Any:
    if type(key) is str and has_braces(key):
        made = read_template(key).text(at)
        return made if at.checked is None else at.checked(key, made)
    return key


def _weigh(at: Evaluation, value: Any) -> Any:
    at.weigh(value)
    return value


def _check_depth(depth: int) -> None:
    if depth >= MAX_VALUE_DEPTH:
        raise ExpressionError(f"lists and mappings nest deeper than {MAX_VALUE_DEPTH} levels")


def _too_deep() -> ExpressionError:
    return ExpressionError("the expression nests too deep")
