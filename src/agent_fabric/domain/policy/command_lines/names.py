"""Names of programs and options, written as one text."""


def names(text: str) -> frozenset[str]:
    """Return the names in a text, which tables are easier to read as."""
    return frozenset(text.split())
