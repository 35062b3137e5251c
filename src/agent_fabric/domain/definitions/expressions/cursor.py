"""Where the reading of an expression has come to, and hints for syntax that the language does not have."""

from collections.abc import Callable
from typing import TypeVar

from agent_fabric.domain.definitions.expressions.errors import ExpressionError, shorten, unreadable
from agent_fabric.domain.definitions.expressions.lexer import END, NAME, SYMBOL, VALUE, Token
from agent_fabric.domain.definitions.expressions.limits import MAX_DEPTH

T = TypeVar("T")

CONSTANTS = {"true": True, "True": True, "false": False, "False": False, "none": None, "None": None, "null": None}
KEYWORDS = frozenset({"and", "or", "not", "in", "is", "if", "else", *CONSTANTS})


class Cursor:
    """Goes through the tokens of a text, and counts what it found."""

    def __init__(self, text: str, parts: list[Token]) -> None:
        self.text = text
        self.cost = 0
        """How many parts an expression has so far."""
        self._parts = parts
        self._at = 0
        self._depth = 0

    @property
    def now(self) -> Token:
        """The token that comes next; at the end, the end."""
        return self._parts[self._at]

    @property
    def before(self) -> Token | None:
        """The token that was taken last."""
        return self._parts[self._at - 1] if self._at else None

    @property
    def after(self) -> Token:
        """The token behind the next one."""
        return self._parts[min(self._at + 1, len(self._parts) - 1)]

    def take(self) -> Token:
        """Return the next token and go on; the end stays the end."""
        token = self._parts[self._at]
        if token.kind != END:
            self._at += 1
        return token

    def sees(self, *symbols: str) -> bool:
        """Tell whether one of these symbols comes next."""
        return self.now.kind == SYMBOL and self.now.value in symbols

    def symbol(self, symbol: str) -> bool:
        """Take a symbol if it comes next."""
        found = self.sees(symbol)
        self._at += found
        return found

    def keyword(self, word: str) -> bool:
        """Take a word if it comes next."""
        found = self.now.kind == NAME and bool(self.now.value == word)
        self._at += found
        return found

    def name(self, what: str) -> str:
        """Take a name that is no word of the language."""
        token = self.take()
        if token.kind != NAME or token.value in KEYWORDS:
            raise self.wrong(token, f"{what} is expected here")
        return str(token.value)

    def expect(self, closing: str, opening: Token) -> None:
        """Take what closes a bracket."""
        if not self.symbol(closing):
            message, hint = after_value(self.now, self.before)
            if self.now.kind == END:
                raise self.wrong(opening, f"'{opening.value}' is never closed", f"Write '{closing}'.")
            raise self.wrong(self.now, message, hint)

    def until(self, closing: str, opening: Token, read: Callable[[], T]) -> tuple[T, ...]:
        """Take everything between brackets, with commas between."""
        found: list[T] = []
        while not self.symbol(closing):
            found.append(read())
            if not self.symbol(","):
                self.expect(closing, opening)
                break
        return tuple(found)

    def end(self) -> None:
        """Make sure that nothing is left."""
        if self.now.kind != END:
            raise self.wrong(self.now, *after_value(self.now, self.before))

    def deeper(self, read: Callable[[], T]) -> T:
        """Read something that lies inside of something else."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self.wrong(self.now, f"the expression nests deeper than {MAX_DEPTH} levels", "Split it over steps.")
        found = read()
        self._depth -= 1
        return found

    def wrong(self, token: Token, message: str, hint: str = "") -> ExpressionError:
        """Return the error for a mistake at a token."""
        return unreadable(self.text, token.at, message, hint)


# Hints for syntax that the expression language does not have.
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
