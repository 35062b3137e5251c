"""Counts in sentences for people."""


def count_of(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: `1 step`, `2 steps`, `1,200 entries`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
