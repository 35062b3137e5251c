"""Pages that a run has read, as they were when it read them: what a citation is held against."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One page as it was fetched."""

    url: str
    """The address that was asked for."""
    final_url: str
    """The address that answered, after redirects."""
    title: str
    content_type: str
    fetched_at: float
    """Seconds since 1970."""
    sha256: str
    """Of the bytes as they came; the run's folder keeps them under this name."""
    text: str
    """What a person would read on the page: quotes must be found here."""
