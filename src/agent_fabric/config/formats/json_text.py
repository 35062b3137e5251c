"""Reads JSON, strictly."""

import json
from typing import Any, NoReturn

from agent_fabric.config.formats.syntax import SyntaxProblem, TwiceProblem


def parse_json(text: str) -> Any:
    """Return the value that `text` holds.

    Raises:
        SyntaxProblem: not JSON, a key twice in one object, NaN or Infinity, or nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise SyntaxProblem(error.msg, line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise SyntaxProblem("it is nested too deeply") from None
    except ValueError:  # what int() says about thousands of digits
        raise SyntaxProblem("it contains a number that is too long") from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise TwiceProblem(key)
        result[key] = value
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise SyntaxProblem(f"{name} is not a number that JSON knows")
