"""What is encrypted before it is stored."""

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator


def _said_plainly(value: object) -> object:
    """Take YAML's `off`, which arrives as false, for the word."""
    return "off" if value is False else value


Encryption = Annotated[Literal["sessions", "all", "off"], BeforeValidator(_said_plainly)]
"""Which runs are encrypted without being asked to."""

DEFAULT: Final[Encryption] = "sessions"
