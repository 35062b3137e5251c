"""Documents, facts and what was found among them, as JSON."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from agent_fabric.application.ports.memory import (
    Forgotten,
    ForgottenDocument,
    FoundFact,
    FoundPassage,
    Imported,
    MemoryAnswer,
    MemoryUse,
    WhyFact,
)
from agent_fabric.domain.ids import DocumentId, FactId, RunId
from agent_fabric.domain.memory.documents import Document
from agent_fabric.domain.memory.facts import Fact
from agent_fabric.domain.memory.passages import Passage
from agent_fabric.wire.shape import Listing, Shape


class FoundItem(NamedTuple):
    """A passage or a fact that answers a question."""

    document: DocumentId | None
    """The document; null: it is a fact."""
    passage: str
    """The text, exactly as it stands in the document; or the fact."""
    score: float
    """From 0 to 1."""
    title: str
    source: str
    """The path or address that the document was added from; of a fact, who said it."""
    headings: Sequence[str]
    """The headings above the passage, outermost first."""
    first: int
    """The number of its first passage."""
    last: int
    """The number of its last passage."""
    passages: int
    """How many passages the document has."""
    start: int
    """Where it begins in the document's text."""
    end: int
    fact: FactId | None
    """The fact; null: it is a passage."""


class FactHistory(NamedTuple):
    """Where a fact comes from, and what rests on it."""

    fact: Fact
    uses: Sequence[MemoryUse]
    """The runs that were told it, newest first."""
    superseded_by: FactId | None
    """The fact that replaces it."""
    contradicts: Sequence[Fact]
    """Facts about the same thing that say something else."""


class ForgottenFact(NamedTuple):
    """What is left of a fact or document that was forgotten."""

    id: str
    status: str
    """`retired`, `rejected` or `erased`."""
    influenced: Sequence[MemoryUse]
    """Answers that rest on it."""
    logs: Sequence[RunId]
    """Runs whose logs still hold it."""
    sessions: Sequence[str]
    """Sessions whose messages may still hold it."""
    notes: Sequence[str]
    """What else may hold it, and why runs stay that were to be deleted."""
    removed: Sequence[RunId]
    """Runs that were deleted because their logs held it."""


class RefusedFact(NamedTuple):
    """A fact of a file that was not taken."""

    id: FactId
    text: str
    reason: str
    """It is known already, or contradicts what is in use."""


class ImportedFacts(NamedTuple):
    """What came of a file of facts."""

    facts: Sequence[Fact]
    left_out: Sequence[RefusedFact]


DOCUMENT = Shape(
    Document,
    "id=document_id title source state standing problem? notes labels passages embedded media_type size content_hash"
    " owner visibility run_id created_at updated_at",
    name="Document",
    also={"text?": Annotated[str, "What stands in it, if one document was asked for."]},
)
PASSAGE = Shape(Passage, "ordinal headings start end text", name="Passage")
PASSAGES = Listing("passages", PASSAGE, name="PassageList", about="Passages of a document, in their order.")
DOCUMENTS = Listing("documents", DOCUMENT, name="DocumentList", about="Documents, the newest first.")
FACT = Shape(Fact, name="Fact")
FACTS = Listing("facts", FACT, name="FactList", about="Facts, the newest first.")
MEMORY_USE = Shape(MemoryUse, name="MemoryUse")
FOUND = Shape(FoundItem, name="FoundPassage")
FOUND_LIST = Listing("found", FOUND, name="FoundPassages", about="Passages, then facts, the best of each first.")
HISTORY = Shape(FactHistory, "*fact uses superseded_by contradicts", parts=[FACT, MEMORY_USE])
FORGOTTEN = Shape(ForgottenFact, parts=[MEMORY_USE])
IMPORTED = Shape(ImportedFacts, parts=[FACT, Shape(RefusedFact)])


def found_items(answer: MemoryAnswer) -> list[FoundItem]:
    """Return what was found, passages first."""
    return [*map(_passage, answer.passages), *map(_fact, answer.facts)]


def history_of(why: WhyFact) -> FactHistory:
    """Return where a fact comes from."""
    newer = None if why.superseded_by is None else why.superseded_by.id
    return FactHistory(why.fact, why.uses, newer, why.contradicts)


def imported_facts(imported: Imported) -> ImportedFacts:
    """Return what came of a file of facts."""
    left_out = [RefusedFact(each.fact.id, each.fact.text, each.reason) for each in imported.left_out]
    return ImportedFacts(imported.facts, left_out)


def forgotten_document(done: ForgottenDocument) -> ForgottenFact:
    """Return what is left of a document that was erased."""
    return ForgottenFact(done.document.document_id, "erased", done.influenced, *done.left)


def forgotten_fact(forgotten: Forgotten, *, erased: bool) -> ForgottenFact:
    """Return what is left of a fact."""
    status = "erased" if erased else forgotten.fact.status.value
    return ForgottenFact(forgotten.fact.id, status, forgotten.influenced, *forgotten.left)


def _passage(found: FoundPassage) -> FoundItem:
    return FoundItem(
        document=found.document.document_id,
        passage=found.passage,
        score=round(found.score, 4),
        title=found.document.title,
        source=found.document.source,
        headings=found.headings,
        first=found.first,
        last=found.last,
        passages=found.document.passages,
        start=found.start,
        end=found.end,
        fact=None,
    )


def _fact(found: FoundFact) -> FoundItem:
    fact = found.fact
    return FoundItem(
        document=None,
        passage=fact.text,
        score=round(found.score, 4),
        title="",
        source=fact.said_by,
        headings=(),
        first=0,
        last=0,
        passages=0,
        start=0,
        end=len(fact.text),
        fact=fact.id,
    )
