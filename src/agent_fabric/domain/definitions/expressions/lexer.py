"""Splits an expression into its tokens, and finds where it ends in a template."""

import re
from typing import Any, NamedTuple

from agent_fabric.domain.definitions.expressions.errors import ExpressionError, shorten, unreadable
from agent_fabric.domain.definitions.expressions.limits import MAX_EXPRESSION_CHARS, MAX_INTEGER

NAME, VALUE, SYMBOL, END = "name", "value", "symbol", "end"

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<number>\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)
  | (?P<name>[^\W\d]\w*)
  | (?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
  | (?P<symbol>===|!==|\?\?|\?\.|\*\*|//|==|!=|<=|>=|<>|=>|->|&&|\|\||:=|[-+*/%~<>|.,:()\[\]{}=!&?;$@`^\\#'"])
    """,
    re.VERBOSE | re.DOTALL,
)
_INDEX = re.compile(r"\d+")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\n": "", "\\": "\\", "'": "'", '"': '"'}

_INSTEAD = {
    "===": "write ==",
    "!==": "write !=",
    "<>": "write !=",
    "=": "write == to compare",
    ":=": "values cannot be named in an expression",
    "&&": "write and",
    "&": "write and",
    "||": "write or",
    "!": "write not, or != for 'is different'",
    "?": "write A if CONDITION else B",
    "??": "write VALUE | default(OTHER)",
    "?.": "write VALUE | default(OTHER)",
    "=>": "write >= for 'at least'",
    "->": "write a dot between a name and its field",
    ";": "write one expression",
    "$": "write names without $: inputs.name",
    "@": "write names without @: inputs.name",
    "`": "write texts in 'single' or \"double\" quotes",
    "^": "write ** for powers",
    "\\": "a backslash can only stand in a text",
    "#": "comments are written {# like this #}, outside of expressions",
}


class Token(NamedTuple):
    """One word, value or symbol of an expression."""

    kind: str
    value: Any
    """The name, the symbol, or the number or text itself."""
    at: int
    """Where it stands in the whole text."""


class Tokens(NamedTuple):
    """An expression in its parts."""

    parts: list[Token]
    end: int
    """Where the text goes on behind the closing mark."""
    trimmed: bool
    """The closing mark asks for white space behind it to be left out."""


def tokens(text: str, start: int = 0, closing: str = "") -> Tokens:
    """Return the tokens from `start` up to the closing mark, `}}` or `%}`; without one, up to the end of the text.

    Raises:
        ExpressionError: it holds something that no expression can hold, or is never closed.
    """
    parts: list[Token] = []
    open_brackets: list[str] = []
    at = start
    while at < len(text):
        if closing and not open_brackets:
            trimmed = text.startswith("-" + closing, at)
            if trimmed or text.startswith(closing, at):
                end = at + len(closing) + trimmed
                return Tokens([*parts, Token(END, closing, at)], end, trimmed)
        if parts and parts[-1].value == "." and parts[-1].kind == SYMBOL and (index := _INDEX.match(text, at)):
            # `rows.0.1` is two indexes and no number with a fraction.
            parts.append(Token(NAME, index.group(), at))
            at = index.end()
            continue
        found = _TOKEN.match(text, at)
        if found is None:
            raise unreadable(text, at, f"'{text[at]}' means nothing here")
        if found.lastgroup != "space":
            parts.append(_token(text, found))
            _balance(text, parts[-1], open_brackets, closing)
        at = found.end()
        if at - start > MAX_EXPRESSION_CHARS:
            raise unreadable(text, start, f"the expression has more than {MAX_EXPRESSION_CHARS:,} characters")
    if closing:
        opening = "{{" if closing == "}}" else "{%"
        raise unreadable(text, max(start - 2, 0), f"'{opening}' is never closed", f"Write {closing} behind it.")
    return Tokens([*parts, Token(END, "", at)], at, trimmed=False)


def _token(text: str, found: re.Match[str]) -> Token:
    at, written = found.start(), found.group()
    match found.lastgroup:
        case "name":
            return Token(NAME, written, at)
        case "number":
            return Token(VALUE, _number(text, at, written), at)
        case "text":
            return Token(VALUE, _unescape(text, at, written[1:-1]), at)
        case _:
            if written in "'\"":
                raise unreadable(text, at, "the text that begins here is never closed", f"Write {written} behind it.")
            if written in _INSTEAD and not _names_an_argument(written, text, at):
                raise unreadable(text, at, f"'{written}' is not known here: {_INSTEAD[written]}")
            return Token(SYMBOL, written, at)


def _names_an_argument(written: str, text: str, at: int) -> bool:
    # `join(attribute='x')`: whether it may stand here, the parser knows.
    return written == "=" and re.search(r"[(,]\s*\w+\s*\Z", text[max(at - 60, 0) : at]) is not None


def _balance(text: str, token: Token, open_brackets: list[str], closing: str) -> None:
    if token.kind != SYMBOL:
        return
    if token.value in ("(", "[", "{"):
        open_brackets.append(token.value)
    elif token.value in (")", "]", "}"):
        opening = open_brackets.pop() if open_brackets else ""
        if opening and "([{".index(opening) != ")]}".index(token.value):
            raise unreadable(text, token.at, f"'{opening}' is still open when '{token.value}' comes")
        if not opening:
            if token.value == "}" and closing == "}}":
                raise unreadable(text, token.at, "'{{' is closed with a single '}'", "Write '}}'.")
            raise unreadable(text, token.at, f"'{token.value}' closes nothing")


def _number(text: str, at: int, written: str) -> int | float:
    try:
        number = int(written) if written.replace("_", "").isdigit() else float(written)
    except ValueError:
        raise unreadable(text, at, f"'{shorten(written)}' is not a number") from None
    if abs(number) > MAX_INTEGER and (isinstance(number, int) or number == float("inf")):
        raise unreadable(text, at, "the number is too large")
    return number


def _unescape(text: str, at: int, written: str) -> str:
    if "\\" not in written:
        return written

    def one(found: re.Match[str]) -> str:
        code = found.group(1) or found.group(2) or found.group(3)
        if code is None:
            return _ESCAPED.get(found.group(4), found.group())
        point = int(code, 16)
        if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
            raise ExpressionError(f"there is no character {found.group()}")
        return chr(point)

    try:
        return _ESCAPE.sub(one, written)
    except ExpressionError as error:
        raise unreadable(text, at, error.message) from None
