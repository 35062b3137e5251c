"""What is wrong with an expression, in words for the person who wrote it."""

from collections.abc import Iterable

_SHOWN_NAMES = 10
_SHOWN_CHARS = 60


class ExpressionError(ValueError):
    """An expression that cannot be read or that has no value here."""

    def __init__(self, message: str, *, hint: str = "", missing: tuple[str, ...] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        """What to write instead; may be empty."""
        self.missing = missing
        """The path that leads nowhere, if that is what is wrong; `default` and `is defined` catch only this."""


def unreadable(text: str, at: int, message: str, hint: str = "") -> ExpressionError:
    """Return the error for a mistake at a place in the text."""
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    place = f"column {column}" if line == 1 else f"line {line}, column {column}"
    return ExpressionError(f"{place}: {message}", hint=hint)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a question about what was probably meant, or nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for those who mistype

    close = get_close_matches(name[:_SHOWN_CHARS], list(known), n=1)
    return f"did you mean '{close[0]}'?" if close else ""


def first_names(names: Iterable[object], total: int) -> str:
    """Return the first of some names for a message."""
    some = [shorten(str(name)) for name, _ in zip(names, range(_SHOWN_NAMES), strict=False)]
    more = f" and {total - len(some)} more" if total > len(some) else ""
    return (", ".join(some) + more) or "nothing"


def shorten(text: str) -> str:
    """Return a text short enough for a message."""
    return text if len(text) <= _SHOWN_CHARS else text[: _SHOWN_CHARS - 1] + "…"


def kind_of(value: object) -> str:
    """Return what a value is, in the words of the reference page."""
    match value:
        case None:
            return "none"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list() | tuple():
            return "a list"
        case _:
            return "a mapping"
