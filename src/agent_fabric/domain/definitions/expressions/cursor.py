"""Where the reading of an expression has come to."""

from collections.abc import Callable
from typing import TypeVar

from agent_fabric.domain.definitions.expressions.errors import ExpressionError, unreadable
from agent_fabric.domain.definitions.expressions.lexer import END, NAME, SYMBOL, Token
from agent_fabric.domain.definitions.expressions.limits import MAX_DEPTH
from agent_fabric.domain.definitions.expressions.syntax_hints import after_value

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
