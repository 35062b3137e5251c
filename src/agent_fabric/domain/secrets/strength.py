"""Tells secrets that can be guessed from those that cannot, as far as their text shows it."""

from typing import Final

MIN_DISTINCT: Final = 8
"""Different bytes that a secret has at least; random ones of 32 hexadecimal digits have more."""
MIN_NEW: Final = 12
"""Parts of a secret that do not follow from what stands before them: random ones have nearly as many as bytes."""
_MAX_READ: Final = 1_024


def weakness(secret: bytes, *, shortest: int) -> str:
    """Say why a secret is too weak, as the end of a sentence that begins with its name; empty: it is not."""
    if len(secret) < shortest:
        return f"has {len(secret)} bytes, which is too short: at least {shortest} are needed"
    if len(set(secret)) < MIN_DISTINCT:
        return f"has only {len(set(secret))} different characters, so it can be guessed"
    if _new_parts(secret[:_MAX_READ].lower()) < MIN_NEW:
        return "repeats or counts up a few characters, so it can be guessed"
    return ""


def _new_parts(secret: bytes) -> int:
    """Count the bytes of a secret. What stood there before counts as one, a sequence (`12345`, `aaa`, `dcb`) as two."""
    new = at = 0
    while at < len(secret):
        repeated = 0
        while at + repeated < len(secret) and secret.find(secret[at : at + repeated + 1], 0, at + repeated) >= 0:
            repeated += 1
        counted = _sequence_at(secret, at)
        if max(repeated, counted) < 3:
            new, at = new + 1, at + 1
        elif repeated >= counted:
            new, at = new + 1, at + repeated
        else:
            new, at = new + 2, at + counted
    return new


def _sequence_at(secret: bytes, at: int) -> int:
    """Return how many bytes follow each other in steps of one, or none, from here on."""
    if at + 1 >= len(secret) or abs(secret[at + 1] - secret[at]) > 1:
        return 1
    step, end = secret[at + 1] - secret[at], at + 2
    while end < len(secret) and secret[end] - secret[end - 1] == step:
        end += 1
    return end - at
