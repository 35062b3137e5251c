"""Documents that agents look up: whose they are, where they came from, and how far they have been read."""

import hashlib
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.ownership import Visibility
from agent_fabric.domain.ids import DocumentId, RunId

ID_CHARS: Final = 16
MAX_TITLE_CHARS: Final = 200
MAX_LABELS: Final = 20
UNENCRYPTED: Final = "stored unencrypted: `encryption: all` seals runs, not what is added to memory"
"""What users are told where they may expect otherwise."""
_QUOTATION_MARKS: Final = str.maketrans(dict.fromkeys('"“”„‟‶″❝❞〝〞〟＂«»', "'"))
"""And what looks like them."""


class DocumentState(StrEnum):
    """How far a document has been read."""

    PARSING = "parsing"
    WORDS_READY = "words_ready"
    """It is found by its words; vectors are missing."""
    READY = "ready"
    FAILED = "failed"
    """Nothing of it can be found; `problem` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A file or page that was added."""

    document_id: DocumentId
    owner: str
    visibility: Visibility = Visibility.PRIVATE
    title: str
    source: str
    """The path or address that it was added from."""
    media_type: str = "text/plain"
    content_hash: str
    """SHA-256 of its bytes."""
    size: int = 0
    """Bytes."""
    state: DocumentState = DocumentState.PARSING
    problem: str = ""
    """Why it could not be read; empty: it could."""
    notes: tuple[str, ...] = ()
    """What of it could not be read, such as `31 pages are images`."""
    labels: tuple[str, ...] = ()
    """By which a search can be narrowed."""
    passages: int = 0
    embedded: int = 0
    """Passages that have a vector of the configured embedder."""
    run_id: RunId | None = None
    """The run that reads it, or has read it."""
    created_at: float = 0.0
    updated_at: float = 0.0

    @property
    def standing(self) -> str:
        """The state as people read it."""
        match self.state:
            case DocumentState.PARSING:
                return "parsing"
            case DocumentState.WORDS_READY if self.embedded:
                return f"vectors {100 * self.embedded // max(self.passages, 1)} %"
            case DocumentState.WORDS_READY:
                return "words ready"
            case DocumentState.READY:
                return "ready"
            case DocumentState.FAILED:
                return f"failed: {self.problem}" if self.problem else "failed"

    @property
    def exposes(self) -> str:
        """Name it as a source of untrusted text: it may hold instructions."""
        return document_called(self.title)


def document_called(title: str) -> str:
    """Return what a document is called on cards and labels; its title cannot end the quotation marks."""
    return f"the document “{title.translate(_QUOTATION_MARKS)}”"


def content_hash(data: bytes) -> str:
    """Return what identifies the bytes of a document."""
    return hashlib.sha256(data).hexdigest()


def document_id(owner: str, source: str) -> DocumentId:
    """Return the id of what an owner adds from a place: adding it again changes the same document."""
    return DocumentId(hashlib.sha256(f"{owner}\n{source}".encode("utf-8", "replace")).hexdigest()[:ID_CHARS])


def plain_title(title: str) -> str:
    """Return a title on one line, without signs that would change how a line is shown: people read it on cards."""
    shown = "".join(sign if sign.isprintable() else " " for sign in title)
    return " ".join(shown.split())[:MAX_TITLE_CHARS]


def title_of(text: str, source: str) -> str:
    """Return the title of a document: its first heading, or else the last part of its source."""
    for line in text[:4_000].splitlines():
        if line.startswith("# ") and line[2:].strip():
            return plain_title(line[2:]) or "untitled"
    name = source.rstrip("/").replace("\\", "/").rpartition("/")[2] or source
    return plain_title(name) or "untitled"


def accept_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Return labels in lower case, each once, in their order.

    Raises:
        ValueError: there are too many, or one is not a short word.
    """
    found = tuple(dict.fromkeys(label.strip().lower() for label in labels))
    if len(found) > MAX_LABELS:
        raise ValueError(f"A document has at most {MAX_LABELS} labels")
    for label in found:
        if not 1 <= len(label) <= 40 or not label.replace("-", "").replace("_", "").isalnum():
            raise ValueError(f"{label!r} is no label: use letters, digits, - and _, at most 40")
    return found
