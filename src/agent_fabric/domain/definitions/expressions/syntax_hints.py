"""Hints for syntax that the expression language does not have."""

from agent_fabric.domain.definitions.expressions.errors import shorten
from agent_fabric.domain.definitions.expressions.lexer import END, NAME, SYMBOL, VALUE, Token

_FILTER_FOR = {
    "len": "length",
    "size": "length",
    "str": "string",
    "sorted": "sort",
    "reversed": "reverse",
    "splitlines": "lines",
    "dumps": "json",
    "loads": "from_json",
    "toString": "string",
    "toUpperCase": "upper",
    "toLowerCase": "lower",
    "toJSON": "json",
    "fromJSON": "from_json",
    "get": "default",
    "lstrip": "trim",
    "rstrip": "trim",
}
_WORDS = {
    "for": "Take fields of all items with | map(attribute='FIELD'), choose items with | selectattr('FIELD').",
    "lambda": "There are no functions here.",
    "undefined": "Write none, or test with 'is defined'.",
    "import": "There are no functions here.",
}
_TESTS_OF_TEXT = {"startswith": "matches('TEXT*')", "endswith": "matches('*TEXT')"}


def call_hint(subject: Token, callee: Token) -> tuple[str, str]:
    """Return the message and the hint for something that is called like a function."""
    name = str(callee.value)
    if name in _TESTS_OF_TEXT:
        return f"'{shorten(name)}' cannot be called", f"Write VALUE | {_TESTS_OF_TEXT[name]}."
    if name == "range":
        return "there is no 'range'", "Give the list that is meant, or use for-each over a list."
    kind = "method" if callee.at != subject.at else "function"
    written = _FILTER_FOR.get(name, shorten(name))
    return f"'{shorten(name)}' cannot be called: there are no {kind}s", f"Use a filter: VALUE | {written}."


def after_value(token: Token, before: Token | None) -> tuple[str, str]:
    """Return the message and the hint for a token that stands where an expression should have ended or gone on."""
    if token.kind == END:
        return "the expression ends too early", ""
    if token.kind == SYMBOL and token.value == "=":
        return "'=' is not known here: write == to compare", ""
    if token.kind == VALUE and before is not None and before.kind == NAME and token.at == before.at + len(before.value):
        return f"there is no text of the kind {shorten(before.value)}'…'", "Join values with ~: 'Hello ' ~ inputs.name."
    if token.kind == SYMBOL and token.value == "(":
        return "nothing can be called here", "Use a filter: VALUE | NAME(…)."
    what = "a text or number" if token.kind == VALUE else f"'{shorten(str(token.value))}'"
    hint = _WORDS.get(str(token.value), "")
    return f"{what} is not expected here: an operator such as ==, and, | or ~ is missing before it", hint


def in_place_of_value(token: Token) -> tuple[str, str]:
    """Return the message and the hint for a token that stands where a value should stand."""
    if token.kind == END:
        return "a value is expected here, but the expression ends", ""
    if token.kind == SYMBOL and token.value == ".":
        hint = "Begin with a name: inputs.name. To keep '{{' as text, write {% raw %}…{% endraw %} around it."
        return "a field of what? a name is missing before the dot", hint
    if token.kind == SYMBOL and token.value == "%":
        return "a value is expected here, not '%'", "Blocks are written {% … %}, values {{ … }}."
    return f"a value is expected here, not '{shorten(str(token.value))}'", _WORDS.get(str(token.value), "")
