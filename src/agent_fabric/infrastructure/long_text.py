"""The beginning of a text that is too long to be read for being shown."""


class LongText(str):  # noqa: SLOT000 - it is copied with its attributes
    """A text of which only the beginning is here."""

    chars: int
    """How long the whole text is."""
    sha256: str
    """Of the whole text, in hexadecimal digits."""

    @classmethod
    def of(cls, beginning: str, chars: int, sha256: str) -> "LongText":
        """Return the beginning of a text."""
        made = cls(beginning)
        made.chars, made.sha256 = chars, sha256
        return made
