r"""Regular expressions in plain Python whose time grows only with the text: a subset, documented and complete.

Nodes judge calls without RE2. What they know: literals, `.`, classes such as `[a-z_]` and `[^/]`, `\d \w \s \D \W
\S`, escaped signs, groups `(…)` and `(?:…)`, `|`, the quantifiers `* + ? {m} {m,} {m,n}` with counts up to 64, and the
anchors `^` and `$`. Everything else is refused: look-around, back references, flags, word boundaries. An expression
becomes an automaton that holds all its states at once, so that no text can make it go back.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Final

from agent_fabric.domain.dataclass import dataclass

MAX_EXPRESSION_CHARS: Final = 1_000
MAX_COUNT: Final = 64
MAX_STATES: Final = 4_000
"""Time is at most this many steps for each character."""

Test = Callable[[str], bool]
_SPECIAL: Final = frozenset("\\.[](){}*+?|^$")
_KINDS: Final[dict[str, Test]] = {
    "d": lambda c: "0" <= c <= "9",
    "w": lambda c: c == "_" or (c.isascii() and c.isalnum()),
    "s": lambda c: c in " \t\n\r\f\v",
}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}


class UnknownExpression(ValueError):
    """It lies outside of the subset; the message says what."""


@dataclass(slots=True)
class _State:
    """A state: one character leads on if `test` holds; without a test, or at an anchor, nothing is taken."""

    test: Test | None = None
    anchor: str = ""
    following: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LinearExpression:
    """An expression that is ready."""

    text: str
    _states: tuple[_State, ...]
    _start: int
    _end: int

    def search(self, text: str) -> bool:
        """Tell whether any part of a text fits."""
        return self._run(text, anywhere=True)

    def fullmatch(self, text: str) -> bool:
        """Tell whether a text fits as a whole."""
        return self._run(text, anywhere=False)

    def _run(self, text: str, *, anywhere: bool) -> bool:
        last = len(text)
        current = self._closure({self._start}, 0, last)
        for at, character in enumerate(text):
            if anywhere and self._end in current:
                return True
            reached = set[int]()
            for number in current:
                state = self._states[number]
                if state.test is not None and state.test(character):
                    reached.update(state.following)
            if anywhere:
                reached.add(self._start)
            if not reached:
                return False
            current = self._closure(reached, at + 1, last)
        return self._end in current

    def _closure(self, numbers: set[int], at: int, last: int) -> set[int]:
        found, waiting = set(numbers), list(numbers)
        while waiting:
            state = self._states[waiting.pop()]
            if state.test is not None:
                continue
            if (state.anchor == "^" and at != 0) or (state.anchor == "$" and at != last):
                continue
            for number in state.following:
                if number not in found:
                    found.add(number)
                    waiting.append(number)
        return found


def linear_expression(text: str) -> LinearExpression:
    """Make an expression ready.

    Raises:
        UnknownExpression: it is none of the subset.
    """
    if len(text) > MAX_EXPRESSION_CHARS:
        raise UnknownExpression(f"it has more than {MAX_EXPRESSION_CHARS} characters")
    return _Parser(text).parse()


_Piece = tuple[int, int]
"""The first and the last state of a part."""
_Build = Callable[[], _Piece]
"""Makes a part; a quantifier makes it several times."""


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._states: list[_State] = []

    def parse(self) -> LinearExpression:
        build = self._alternatives()
        if self._at < len(self._text):
            raise UnknownExpression(f"{self._text[self._at]!r} at {self._at} closes nothing")
        start, end = build()
        return LinearExpression(self._text, tuple(self._states), start, end)

    def _new(self, test: Test | None = None, anchor: str = "") -> int:
        if len(self._states) >= MAX_STATES:
            raise UnknownExpression(f"it needs more than {MAX_STATES} states")
        self._states.append(_State(test, anchor))
        return len(self._states) - 1

    def _link(self, source: int, target: int) -> None:
        self._states[source].following.append(target)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        if self._at >= len(self._text):
            raise UnknownExpression("it ends too early")
        self._at += 1
        return self._text[self._at - 1]

    def _alternatives(self) -> _Build:
        ways = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            ways.append(self._sequence())
        if len(ways) == 1:
            return ways[0]

        def build() -> _Piece:
            start, end = self._new(), self._new()
            for way in ways:
                first, last = way()
                self._link(start, first)
                self._link(last, end)
            return start, end

        return build

    def _sequence(self) -> _Build:
        parts: list[_Build] = []
        while self._peek() not in {"", "|", ")"}:
            parts.append(self._quantify(self._atom()))

        def build() -> _Piece:
            start = end = self._new()
            for part in parts:
                first, last = part()
                self._link(end, first)
                end = last
            return start, end

        return build

    def _quantify(self, atom: _Build) -> _Build:
        sign = self._peek()
        if sign not in {"*", "+", "?", "{"} or not sign:
            return atom
        self._at += 1
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(sign) or self._counts()
        if self._peek() in {"*", "+", "?", "{"}:
            raise UnknownExpression("lazy, possessive and repeated quantifiers are left out")
        return lambda: self._repeat(atom, least, most)

    def _repeat(self, atom: _Build, least: int, most: int | None) -> _Piece:
        start = end = self._new()
        for _ in range(least):
            first, last = atom()
            self._link(end, first)
            end = last
        if most is None:
            first, last = atom()
            turn, after = self._new(), self._new()
            self._link(end, turn)
            self._link(turn, first)
            self._link(last, turn)
            self._link(turn, after)
            return start, after
        after = self._new()
        for _ in range(most - least):
            self._link(end, after)
            first, last = atom()
            self._link(end, first)
            end = last
        self._link(end, after)
        return start, after

    def _counts(self) -> tuple[int, int | None]:
        inner = ""
        while (sign := self._take()) != "}":
            inner += sign
        first, comma, second = inner.partition(",")
        digits = [part for part in (first, second) if part]
        if not first.isdecimal() or not all(part.isascii() and part.isdecimal() and len(part) <= 2 for part in digits):
            raise UnknownExpression(f"{{{inner}}} is no count")
        least, most = int(first), (int(second) if second else None) if comma else int(first)
        if max(least, most or 0) > MAX_COUNT or (most is not None and most < least):
            raise UnknownExpression(f"{{{inner}}} counts too far, or backwards; at most {MAX_COUNT}")
        return least, most

    def _atom(self) -> _Build:
        sign = self._take()
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._single(self._class())
        if sign == ".":
            return self._single(lambda _: True)
        if sign == "\\":
            return self._single(self._escape())
        if sign in {"^", "$"}:
            return lambda: self._anchor(sign)
        if sign in _SPECIAL:
            raise UnknownExpression(f"{sign!r} at {self._at - 1} stands for nothing; write \\{sign}")
        return self._single(lambda c: c == sign)

    def _group(self) -> _Build:
        if self._peek() == "?":
            if self._text[self._at : self._at + 2] != "?:":
                raise UnknownExpression("of groups that begin with (? only (?: is known")
            self._at += 2
        inner = self._alternatives()
        if self._take() != ")":
            raise UnknownExpression("a group is not closed")
        return inner

    def _anchor(self, sign: str) -> _Piece:
        start, end = self._new(anchor=sign), self._new()
        self._link(start, end)
        return start, end

    def _single(self, test: Test) -> _Build:
        def build() -> _Piece:
            start, end = self._new(test), self._new()
            self._link(start, end)
            return start, end

        return build

    def _escape(self) -> Test:
        sign = self._take()
        if sign.lower() in _KINDS:
            inner = _KINDS[sign.lower()]
            return inner if sign.islower() else lambda c: not inner(c)
        literal = _ESCAPES.get(sign, sign)
        if sign.isalnum() and sign not in _ESCAPES:
            raise UnknownExpression(f"\\{sign} is left out")
        return lambda c: c == literal

    def _class(self) -> Test:
        negated = self._peek() == "^"
        self._at += negated
        tests: list[Test] = []
        first = True
        while (sign := self._take()) != "]" or first:
            first = False
            low = self._class_member(sign)
            if callable(low):
                tests.append(low)
                continue
            if self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in {"]", ""}:
                self._at += 1
                high = self._class_member(self._take())
                if callable(high) or high < low:
                    raise UnknownExpression("a range in a class runs backwards")
                tests.append(_between(low, high))
            else:
                tests.append(_between(low, low))
        return lambda c: any(test(c) for test in tests) is not negated

    def _class_member(self, sign: str) -> "str | Test":
        if sign == "[" and self._peek() in {":", ".", "="}:
            raise UnknownExpression("named classes are left out")
        if sign != "\\":
            return sign
        following = self._peek()
        if following.lower() in _KINDS:
            return self._escape()
        self._at += 1
        if not following or (following.isalnum() and following not in _ESCAPES):
            raise UnknownExpression(f"\\{following} is left out")
        return _ESCAPES.get(following, following)


def _between(low: str, high: str) -> Test:
    return lambda c: low <= c <= high
