"""Finds where the values of a JSON text stand; what they are is json's business."""

import json
import re
from typing import Final

from agent_fabric.infrastructure.definitions.spots import Spot, Spots

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)


def json_spots(text: str) -> Spots:
    """Return where the values of a text stand that is known to be JSON."""
    return _walk(text, stop_at_second=False)


def second_key(text: str) -> Spot:
    """Return where the first key stands that its mapping has already."""
    return _walk(text, stop_at_second=True).at


def _walk(text: str, *, stop_at_second: bool) -> Spots:
    lines = _Lines(text)
    root = Spots(Spot(1, 1))
    stack: list[tuple[Spots, bool]] = []
    key: str | None = None
    key_at: Spot | None = None
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word in "}]":
            stack.pop()
        if word in "}],:":
            continue
        spot = lines.spot(token.start())
        if stack and stack[-1][1] and key is None:
            key, key_at = json.loads(word), spot
            if stop_at_second and key in stack[-1][0].inside:
                return Spots(spot)
            continue
        here = Spots(spot, key_at)
        if not stack:
            root = here
        elif stack[-1][1] and key is not None:
            stack[-1][0].inside[key] = here
        else:
            stack[-1][0].inside[len(stack[-1][0].inside)] = here
        key = key_at = None
        if word in "{[":
            stack.append((here, word == "{"))
    return root


class _Lines:
    """Tells line and column of places that are asked for from the first to the last; no part is looked at twice."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line = 1
        self._start = 0
        self._seen = 0

    def spot(self, offset: int) -> Spot:
        while (end := self._text.find("\n", self._seen, offset)) >= 0:
            self._line += 1
            self._start = self._seen = end + 1
        self._seen = offset
        return Spot(self._line, offset - self._start + 1)
