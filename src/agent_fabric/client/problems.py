"""Errors that a server tells, as the exceptions that the same thing raises on this machine."""

import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from agent_fabric.domain.definitions import problems
from agent_fabric.domain.errors import FabricError, ModelError, TooManyRequests

_HINTS = {
    "unauthenticated": "Log in with `fabric login`, or set FABRIC_TOKEN or FABRIC_API_KEY to what you were given.",
    "host_refused": "The server must know the name that it is called by: `server.hosts` in its configuration.",
}
"""What helps a client where the server's own words are about the server."""


def error_from(told: Mapping[str, Any], *, retry_after: str | None = None) -> FabricError:
    """Return the exception for what a server told: a problem, or the `error` of a run's result.

    An error whose code this version does not know is a plain FabricError with that code.
    """
    code = str(told.get("code") or FabricError.code)
    message = str(told.get("detail") or told.get("message") or told.get("title") or "The server refused")
    hint = str(told.get("hint") or _HINTS.get(code, ""))
    error_class = _class_of(code)
    # Not by its own constructor: some make their message themselves, and this one is made already.
    error = error_class.__new__(error_class, message)
    FabricError.__init__(error, message, hint=hint)
    if isinstance(error, TooManyRequests):
        error.retry_after_s = _seconds(retry_after) or 1.0
    elif isinstance(error, ModelError):
        error.retry_after_s = _seconds(retry_after)
    elif isinstance(error, problems.DefinitionInvalid):
        error.problems = ()
    return error


@cache
def _class_of(code: str) -> type[FabricError]:
    for each in _family(FabricError):
        if each.code == code:
            return each
    return type("FabricError", (FabricError,), {"code": code, "__doc__": "An error of a newer server."})


def _family(parent: type[FabricError]) -> Iterator[type[FabricError]]:
    yield parent
    for child in parent.__subclasses__():
        yield from _family(child)


def _seconds(retry_after: str | None) -> float | None:
    try:
        seconds = float(retry_after or "")
    except ValueError:  # a date, which ours do not send
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
