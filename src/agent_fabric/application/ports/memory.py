"""Where documents and facts are kept, and how passages are found."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple, Protocol

from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer, Visibility
from agent_fabric.domain.ids import DocumentId, FactId, RunId
from agent_fabric.domain.memory.documents import Document
from agent_fabric.domain.memory.facts import Fact, FactKind, FactScope, FactStatus
from agent_fabric.domain.memory.passages import Passage
from agent_fabric.domain.memory.ranking import Candidate
from agent_fabric.domain.runs.knowledge import Knowledge, KnownFact, KnownPassage

MAX_FACTS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentQuery:
    """Which documents are listed or searched. It narrows the choice of candidates, and not what was chosen."""

    viewer: Viewer = EVERYTHING
    """Who asks; what they may not see is left out."""
    owner: str = ""
    """Only those of this owner; empty: all that the viewer may see."""
    labels: tuple[str, ...] = ()
    """Only those with one of these labels; empty: any."""
    documents: tuple[DocumentId, ...] = ()
    """Only these; empty: any."""
    content_hash: str = ""
    """Only those with these bytes; empty: any."""
    sealed_facts: bool = False
    """Whether facts that are stored encrypted may be told: an open log must not come to hold them."""
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageQuestion:
    """What is looked for in passages."""

    terms: frozenset[str]
    """Words, as `memory.terms` makes them."""
    embedder: str = ""
    """Whose vectors are compared; empty: none are."""
    vector: Vector = b""
    limit: int = 50
    """So many by words, and so many by meaning."""


class UnreadPassage(NamedTuple):
    """A passage without a vector."""

    hash: str
    text: str
    """As it is put into the indexes."""


OnProgress = Callable[[int], None]
"""Told how many passages have been read so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDocument:
    """A file that a person or a run adds."""

    data: bytes
    source: str
    """Its path or address."""
    owner: str
    media_type: str = ""
    """Empty: its name and its bytes tell."""
    visibility: Visibility = Visibility.PRIVATE
    labels: Sequence[str] = ()
    run_id: RunId | None = None
    """The run that adds it; None: a person does."""


class DocumentText(NamedTuple):
    """What a person would read in a document."""

    text: str
    title: str = ""
    """Empty: it says none."""
    notes: tuple[str, ...] = ()
    """What of it could not be read."""


class DocumentReader(Protocol):
    """Takes the text out of files."""

    async def read(self, data: bytes, *, source: str, media_type: str = "") -> DocumentText:
        """Return the text of a file. Its type is taken from `media_type`, or else from its name and its bytes.

        Raises:
            DocumentUnreadable: it is empty, encrypted, too large, or of a kind that is not read.
        """
        ...


class DocumentRepository(Protocol):
    """The documents of one store, shared by many processes."""

    async def put(self, document: Document) -> None:
        """Make a document durable, or change it; its passages stay as they are.

        Raises:
            StoreFull, StoreUnavailable: nothing was written.
        """
        ...

    async def find(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> Document:
        """Return the one document whose id begins so, of those that the viewer may see.

        Raises:
            MemoryNotFound: none, or more than one, begins so.
        """
        ...

    async def list(self, wanted: DocumentQuery) -> Sequence[Document]:
        """Return documents, the newest first."""
        ...

    async def remove(self, document_id: DocumentId) -> None:
        """Remove a document with its passages, words and vectors, so that nothing of it is left in the store's files.

        Raises:
            MemoryNotFound: there is none with this id.
        """
        ...


class PassageIndex(Protocol):
    """The passages of documents, their words and their vectors. A vector is kept once for the same text."""

    async def replace(self, document: Document, passages: Sequence[Passage]) -> Document:
        """Make these the passages of a document, and return it as it is now; what has not changed is not touched.

        Raises:
            MemoryNotFound: the document was removed.
            StoreFull, StoreUnavailable: nothing was written.
        """
        ...

    async def read(self, document_id: DocumentId, *, first: int = 0, last: int | None = None) -> Sequence[Passage]:
        """Return passages of a document in their order, from `first` to `last`; None: to its end."""
        ...

    async def unread(self, embedder: str, *, dimensions: int, limit: int) -> Sequence[UnreadPassage]:
        """Return passages without a vector of this embedder and size, those of the newest document first."""
        ...

    async def keep(self, embedder: str, vectors: Sequence[tuple[str, Vector]]) -> None:
        """Keep vectors by the hashes of passages. Documents all of whose passages have one become ready.

        Raises:
            StoreFull, StoreUnavailable: nothing was written.
        """
        ...

    async def candidates(self, question: PassageQuestion, wanted: DocumentQuery) -> Sequence[Candidate]:
        """Return passages that may answer a question: by its words and by its meaning, each once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FactQuery:
    """Which facts are listed."""

    viewer: Viewer = EVERYTHING
    owner: str = ""
    statuses: tuple[FactStatus, ...] = ()
    """Only these; empty: all."""
    scope: FactScope | None = None
    subject: str | None = None
    limit: int = 1_000


class MemoryUse(NamedTuple):
    """A run that was told a fact, or passages of a document."""

    run_id: RunId
    used_at: float
    cited: bool
    """Whether the answer cites it; otherwise it was only told to the model."""


Check = Callable[[Sequence[Fact]], None]
"""Raises FactRefused if a fact must not be added beside these."""


class FactRepository(Protocol):
    """The facts of one store."""

    async def add(self, fact: Fact, *, check: Check | None = None) -> None:
        """Make a fact durable; `check` is asked in the same transaction about those of its owner, scope and subject.

        Raises:
            FactRefused: `check` has refused it, or one with this id exists.
            StoreFull, StoreUnavailable: nothing was written.
        """
        ...

    async def find(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> Fact:
        """Return the one fact whose id begins so, of those that the viewer owns.

        Raises:
            MemoryNotFound: none, or more than one, begins so.
        """
        ...

    async def list(self, wanted: FactQuery) -> Sequence[Fact]:
        """Return facts, the newest first."""
        ...

    async def change(self, fact: Fact, *, was: FactStatus) -> None:
        """Write a fact that had this status.

        Raises:
            FactSettled: it has another one by now, or is gone.
        """
        ...

    async def erase(self, fact_id: FactId) -> None:
        """Remove a fact and what is known of its uses, so that nothing of it is left in the store's files.

        Raises:
            MemoryNotFound: there is none with this id.
        """
        ...


class MemoryUses(Protocol):
    """Which runs were told which facts and documents; known until the fact or document is erased."""

    async def note(self, run_id: RunId, items: Sequence[FactId | DocumentId], *, at: float, cited: bool) -> None:
        """Note that a run was told something, or that its answer cites it; noting it again changes nothing."""
        ...

    async def of(self, item: FactId | DocumentId) -> Sequence[MemoryUse]:
        """Return the runs that were told a fact or a document, newest first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStore:
    """Everything that memory stores."""

    documents: DocumentRepository
    """Documents."""
    passages: PassageIndex
    """What stands in them."""
    facts: FactRepository
    """Facts."""
    uses: MemoryUses
    """Which runs were told what."""


class FoundPassage(NamedTuple):
    """Neighbouring passages that answer a question."""

    document: Document
    passage: str
    """Their text, exactly as it stands in the document."""
    headings: tuple[str, ...]
    first: int
    last: int
    """Ordinals of the first and the last passage."""
    start: int
    end: int
    """Where they stand in the document's text."""
    score: float

    def as_known(self) -> KnownPassage:
        """Return it as runs are told it."""
        return KnownPassage(
            document=self.document.document_id,
            title=self.document.title,
            headings=self.headings,
            first=self.first,
            last=self.last,
            of=self.document.passages,
            text=self.passage,
            score=self.score,
        )


class FoundFact(NamedTuple):
    """A fact that has to do with a question."""

    fact: Fact
    score: float

    def as_known(self) -> KnownFact:
        """Return it as runs are told it."""
        return known_fact(self.fact)


def known_fact(fact: Fact) -> KnownFact:
    """Return a fact as runs are told it."""
    return KnownFact(id=fact.id, text=fact.text, said_by=fact.said_by)


class MemoryAnswer(NamedTuple):
    """What memory knows about a question; it may be nothing."""

    passages: Sequence[FoundPassage]
    facts: Sequence[FoundFact]
    by_meaning: bool
    """Whether vectors were compared; otherwise words only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A fact that a run proposes."""

    run_id: RunId
    quote: str
    text: str
    seq: int | None = None
    """The event that it quotes; None: the first one that has the quote."""
    kind: FactKind = FactKind.FACT
    scope: FactScope = FactScope.USER
    subject: str = ""


class MemorySearcher(Protocol):
    """Finds the passages and facts that answer a question."""

    async def __call__(
        self, question: str, wanted: DocumentQuery, *, earlier: str = "", limit: int = ...
    ) -> MemoryAnswer:
        """Answer a question; `earlier` is the one before it in a conversation.

        Raises:
            ModelError: the server that makes the vectors gave no usable answer.
        """
        ...


class RunMemory(NamedTuple):
    """What the tools of runs do with memory."""

    search: MemorySearcher
    propose: Callable[[Proposal], Awaitable[Fact]]
    """Takes what a run proposes to remember, and returns the fact, which may have to wait for a review; raises
    FactRefused if it is not remembered."""
    uses: MemoryUses
    """Where it is noted which runs were told what."""
    brief: "ContextSource"
    """Tells runs what is known before their model is asked."""
    add: Callable[[NewDocument], Awaitable[Document]] | None = None
    """Adds documents by their words, or raises DocumentUnreadable or MissingExtra; None: runs add none here."""
    embed: Callable[[], Awaitable[int]] | None = None
    """Makes vectors of passages that have none, and returns of how many; raises ModelError if what makes them gave no
    usable answer, and keeps what was made. None: documents are found by words only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BriefingRequest:
    """A run that is about to begin, and what it is about."""

    run_id: RunId
    owner: str
    """Whose documents and facts it may see."""
    question: str
    earlier: str = ""
    """The question before it in a conversation."""
    window: int | None = None
    """Tokens that its model can hold; None: it is not known."""
    compact: bool = False
    """Whether its model is small or slow, and should get little to read."""
    pinned: bool = True
    """Whether it has to be told the pinned facts, or the conversation has them already."""
    subjects: tuple[str, ...] = ()
    """The agent and the project that facts may hold for."""
    encrypted: bool = False
    """Whether nothing of the run is kept in the clear."""


class Briefing(NamedTuple):
    """What a run is told."""

    knowledge: Knowledge | None = None
    """None: there is nothing in memory that its owner may see."""
    notice: str = ""
    """What a person should know about it; empty: nothing."""


class ContextSource(Protocol):
    """Knows something about a task before its model is asked (A33-025)."""

    async def __call__(self, wish: BriefingRequest, /) -> Briefing:
        """Return what is known. It takes no decision and changes nothing but what is noted about uses.

        Raises:
            StoreUnavailable: it cannot be read.
        """
        ...


class LeftOut(NamedTuple):
    """A fact of a file that was not taken."""

    fact: Fact
    reason: str


class Imported(NamedTuple):
    """What came of a file."""

    facts: Sequence[Fact]
    left_out: Sequence[LeftOut]
    """What is known already, or contradicts what is in use."""


COPIES = "Backups that were made before, and exports, still hold it."


class Remains(NamedTuple):
    """Where something still stands."""

    logs: Sequence[RunId] = ()
    """Runs that are still there, and whose logs hold it."""
    sessions: Sequence[str] = ()
    """Sessions whose messages may hold it."""
    notes: Sequence[str] = (COPIES,)
    """What no one can look up, and what is not erased with it."""
    removed: Sequence[RunId] = ()
    """Runs that held it and were deleted for that."""


class ForgottenDocument(NamedTuple):
    """What is left of a document that was erased."""

    document: Document
    influenced: Sequence[MemoryUse]
    """Runs that were told passages of it."""
    left: Remains
    """Where such passages still stand."""


class WhyFact(NamedTuple):
    """Where a fact comes from, and what rests on it."""

    fact: Fact
    uses: Sequence[MemoryUse]
    """The runs that were told it, newest first."""
    superseded_by: Fact | None
    contradicts: Sequence[Fact]
    """Facts about the same thing that say something else."""


class Forgotten(NamedTuple):
    """What is left of a fact that was erased or retired."""

    fact: Fact
    influenced: Sequence[MemoryUse]
    """Answers that rest on it."""
    left: Remains
    """Where the sentence still stands."""
