"""Reads TOML."""

import re
import tomllib
from typing import Any, Final

from agent_fabric.config.formats.syntax import SyntaxProblem

_PLACE: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")

_LONG_KEY: Final = re.compile(r"""(?<![\w"'-])(?:[\w"'-]++[ \t]*+\.[ \t]*+){64}""")
"""A dotted key so long that tomllib, whose time grows with the square of its parts, would take minutes."""


def parse_toml(text: str) -> Any:
    """Return the table that `text` holds.

    Raises:
        SyntaxProblem: not TOML, a key twice, or nested too deeply.
    """
    if _LONG_KEY.search(text):
        raise SyntaxProblem("it is nested too deeply")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _locate(str(error), text) from None
    except RecursionError:
        raise SyntaxProblem("it is nested too deeply") from None
    except ValueError:  # what int() says about thousands of digits, and datetime about a 32nd day
        raise SyntaxProblem("it contains a number or date that cannot be") from None


def _locate(message: str, text: str) -> SyntaxProblem:
    place = _PLACE.search(message)
    if place is None:
        return SyntaxProblem(message)
    if place[1] is None:
        lines = text.split("\n")
        return SyntaxProblem(f"{message[: place.start()]} at the end", line=len(lines), column=len(lines[-1]) + 1)
    return SyntaxProblem(message[: place.start()], line=int(place[1]), column=int(place[2]))
