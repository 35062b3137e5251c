"""Lengths and moments of time as people type and read them."""

import re
import time
from contextlib import suppress
from datetime import datetime

from agent_fabric.domain.errors import ConfigError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}


def seconds_in(text: str) -> float:
    """Return how many seconds a text such as `30d` or `12h` means.

    Raises:
        ConfigError: it means nothing.
    """
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhdw])", text.strip().lower(), re.ASCII)
    if found is None:
        raise ConfigError(f"{text!r} is not a length of time", hint="Write a number and one of s, m, h, d, w: 30d.")
    return float(found[1]) * _UNITS[found[2]]


def moment_in(text: str, *, now: float | None = None) -> float | None:
    """Return the moment that a text means, in seconds since 1970: a date, a time, or so long ago; None for no text.

    Raises:
        ConfigError: it means none.
    """
    if not text:
        return None
    with suppress(ConfigError):
        return (time.time() if now is None else now) - seconds_in(text)
    try:
        return datetime.fromisoformat(text.strip()).timestamp()  # without a zone: of this place
    except (ValueError, OverflowError, OSError):
        raise ConfigError(
            f"{text!r} is not a time",
            hint="Write a date or a time, 2026-11-17 or 2026-11-17T09:30, or how long ago: 7d.",
        ) from None


def day(at: float) -> str:
    """Return a moment in local time, to the day."""
    return time.strftime("%Y-%m-%d", time.localtime(at))


def minute(at: float) -> str:
    """Return a moment in local time, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def moment(at: float) -> str:
    """Return a moment in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
