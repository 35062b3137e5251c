"""Tells secrets that can be guessed from those that cannot, as far as their text shows it."""

from typing import Final

MIN_DISTINCT: Final = 8
"""Different bytes that a secret has at least; random ones of 32 hexadecimal digits have more."""
MIN_UNIT: Final = 12
"""Bytes of the part that a secret may consist of repetitions of."""


def weakness(secret: bytes, *, shortest: int) -> str:
    """Say why a secret is too weak, as the end of a sentence that begins with its name; empty: it is not."""
    if len(secret) < shortest:
        return f"has {len(secret)} bytes, which is too short: at least {shortest} are needed"
    if len(set(secret)) < MIN_DISTINCT:
        return f"has only {len(set(secret))} different characters, so it can be guessed"
    if (secret + secret).find(secret, 1) < min(len(secret), MIN_UNIT):
        return "repeats a few characters, so it can be guessed"
    return ""
