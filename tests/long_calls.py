"""Calls of many lengths whose danger stands where it is easily overlooked."""

from typing import Final

DANGER: Final = "make deploy"
PLACES: Final = ("first", "middle", "last")
TALKATIVE: Final = {"max_answer_chars": 16_000_000}
"""Settings of a model whose answers may hold the longest of them."""


def script(lines: int, place: str) -> str:
    """Return a command of so many lines; all but one of them do nothing."""
    at = {"first": 0, "middle": lines // 2, "last": lines - 1}[place]
    return "\n".join(DANGER if number == at else f"# {number}" for number in range(lines))
