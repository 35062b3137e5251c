"""Keeps secrets out of the log: values that the configuration refers to never stand in an event."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

HIDDEN = "[secret]"
SHORTEST = 6
"""Shorter values are no secrets: hiding them would spoil every other text."""

T = TypeVar("T")


class KnownSecrets:
    """Replaces known values wherever they stand in an event, at any depth."""

    def __init__(self, values: Iterable[str]) -> None:
        kept = {form for value in values if len(value) >= SHORTEST for form in _forms(value)}
        self._values = tuple(sorted(kept, key=len, reverse=True))

    def __bool__(self) -> bool:
        """Tell whether there is anything to hide."""
        return bool(self._values)

    def hide(self, value: T) -> T:
        """Return the value without secrets; the very same one if there are none in it."""
        return cast("T", self._hidden(value))

    def _hidden(self, value: Any) -> Any:
        match value:
            case str():
                return self._text(value)
            case Mapping():
                hidden = {self._hidden(key): self._hidden(item) for key, item in value.items()}
                return hidden if hidden != value else value
            case tuple() | list() if not hasattr(value, "_fields"):
                items = [self._hidden(item) for item in value]
                return value if all(a is b for a, b in zip(items, value, strict=True)) else type(value)(items)
            case _ if is_dataclass(value) and not isinstance(value, type):
                return self._dataclass(value)
            case _:
                return value

    def _text(self, text: str) -> str:
        for secret in self._values:
            if secret in text:
                text = text.replace(secret, HIDDEN)
        return text

    def _dataclass(self, value: Any) -> Any:
        changed = {}
        for each in fields(value):
            before = getattr(value, each.name)
            after = self._hidden(before)
            if after is not before:
                changed[each.name] = after
        return replace(value, **changed) if changed else value


def _forms(secret: str) -> tuple[str, ...]:
    """Return how a value may stand in a text: as it is, or inside of JSON, as arguments of calls and results are."""
    return secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]
