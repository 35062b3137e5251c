"""Lengths and moments of time as people type and read them."""

import re
import time

from agent_fabric.domain.errors import ConfigError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}


def seconds_in(text: str) -> float:
    """Return how many seconds a text such as `30d` or `12h` means.

    Raises:
        ConfigError: it means nothing.
    """
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhdw])", text.strip().lower(), re.ASCII)
    if found is None:
        raise ConfigError(f"{text!r} is no length of time", hint="Write a number and one of s, m, h, d, w: 30d.")
    return float(found[1]) * _UNITS[found[2]]


def moment(at: float) -> str:
    """Return a moment in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
