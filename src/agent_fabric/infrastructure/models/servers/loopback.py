"""Asks a server on this machine how it is.

Imported by the child process: the standard library only, and no proxy, ever.
"""

import http.client
import json
from typing import Any, NamedTuple

_MAX_BYTES = 1024 * 1024
_HEALTH_TIMEOUT_S = 2.0


class Slots(NamedTuple):
    """What a server says about its slots."""

    total: int
    context_window: int
    busy: int
    """How many of them work on an answer."""


def status_of(port: int, path: str, *, api_key: str, timeout_s: float) -> tuple[int, bytes]:
    """Return status and body of a GET.

    Raises:
        OSError: no one answers, or not in time, or not with HTTP.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request("GET", path, headers={"authorization": f"Bearer {api_key}", "connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read(_MAX_BYTES)
    except http.client.HTTPException as problem:
        raise ConnectionError(f"not an HTTP answer: {type(problem).__name__}") from None
    finally:
        connection.close()


def answers_health(port: int, api_key: str) -> bool:
    """Whether a server on this port says that it is ready."""
    try:
        return status_of(port, "/health", api_key=api_key, timeout_s=_HEALTH_TIMEOUT_S)[0] == 200
    except OSError:
        return False


def slots_of(port: int, *, api_key: str, timeout_s: float) -> Slots | None:
    """Return what the server says about its slots; None when it says nothing of use.

    Raises:
        OSError: as of `status_of`; a server in the middle of a prompt may well let us wait.
    """
    status, body = status_of(port, "/slots", api_key=api_key, timeout_s=timeout_s)
    try:
        slots: Any = json.loads(body) if status == 200 else None
        if not isinstance(slots, list) or not slots:
            return None
        return Slots(
            len(slots), min(int(slot["n_ctx"]) for slot in slots), sum(bool(slot["is_processing"]) for slot in slots)
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
