"""Documents and facts in memory, for tests."""

from collections.abc import Sequence
from dataclasses import replace

from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.application.ports.memory import (
    Briefing,
    BriefingWish,
    Check,
    DocumentQuery,
    FactQuery,
    MemoryUse,
    PassageQuestion,
    UnreadPassage,
)
from agent_fabric.domain.errors import FactRefused, FactSettled, MemoryNotFound
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer, Visibility
from agent_fabric.domain.ids import DocumentId, FactId, RunId
from agent_fabric.domain.memory.documents import Document, DocumentState
from agent_fabric.domain.memory.facts import Fact, FactStatus
from agent_fabric.domain.memory.passages import Passage
from agent_fabric.domain.memory.ranking import Candidate
from agent_fabric.domain.memory.terms import terms_in
from agent_fabric.infrastructure.memory.embeddings.int8 import int8_similarities, quantized
from agent_fabric.infrastructure.models.embeddings.vectors import BYTES_EACH


class MemoryDocuments:
    """DocumentRepository in a dictionary."""

    def __init__(self) -> None:
        self.documents: dict[DocumentId, Document] = {}
        self.contents: dict[DocumentId, list[Passage]] = {}

    async def put(self, document: Document) -> None:
        known = self.documents.pop(document.document_id, document)
        self.documents[document.document_id] = replace(document, passages=known.passages, embedded=known.embedded)

    async def find(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> Document:
        found = [each for each in self.seen(DocumentQuery(viewer=viewer)) if each.document_id.startswith(prefix)]
        if len(found) != 1 or not prefix:
            raise MemoryNotFound(f"There is no document {prefix!r}")
        return found[0]

    async def list(self, wanted: DocumentQuery) -> Sequence[Document]:
        return self.seen(wanted)[: wanted.limit]

    def seen(self, wanted: DocumentQuery) -> Sequence[Document]:
        """Return all documents that are wanted, the newest first."""
        found = [
            each
            for each in self.documents.values()
            if wanted.viewer.sees(each.owner, each.visibility)
            and wanted.owner in ("", each.owner)
            and (not wanted.labels or set(wanted.labels) & set(each.labels))
            and wanted.content_hash in ("", each.content_hash)
            and (not wanted.documents or each.document_id in wanted.documents)
        ]
        return sorted(found, key=lambda each: (-each.created_at, each.document_id))

    async def remove(self, document_id: DocumentId) -> None:
        if self.documents.pop(document_id, None) is None:
            raise MemoryNotFound(f"There is no document {document_id!r}")
        self.contents.pop(document_id, None)


class MemoryPassages:
    """PassageIndex over MemoryDocuments."""

    def __init__(self, documents: MemoryDocuments) -> None:
        self._documents = documents
        self.vectors: dict[tuple[str, str], bytes] = {}

    async def replace(self, document: Document, passages: Sequence[Passage]) -> Document:
        known = self._documents.documents
        if document.document_id not in known:
            raise MemoryNotFound(f"There is no document {document.document_id!r}")
        self._documents.contents[document.document_id] = list(passages)
        known[document.document_id] = replace(
            document, state=DocumentState.WORDS_READY, passages=len(passages), embedded=0
        )
        self._forget_unused()
        return known[document.document_id]

    def _forget_unused(self) -> None:
        used = {hashed for document in self._documents.documents for hashed, _, _ in self._rows(document)}
        self.vectors = {key: vector for key, vector in self.vectors.items() if key[1] in used}

    def _rows(self, document_id: DocumentId) -> Sequence[tuple[str, Passage, str]]:
        title = self._documents.documents[document_id].title
        passages = self._documents.contents.get(document_id, ())
        return [(passage.hash(title), passage, passage.indexed(title)) for passage in passages]

    async def read(self, document_id: DocumentId, *, first: int = 0, last: int | None = None) -> Sequence[Passage]:
        passages = self._documents.contents.get(document_id, [])
        return passages[first : None if last is None else last + 1]

    async def unread(self, embedder: str, *, dimensions: int, limit: int) -> Sequence[UnreadPassage]:
        found: dict[str, UnreadPassage] = {}
        for document in self._documents.seen(DocumentQuery()):
            for hashed, _, indexed in self._rows(document.document_id):
                if len(self.vectors.get((embedder, hashed), b"")) != dimensions or not dimensions:
                    found.setdefault(hashed, UnreadPassage(hashed, indexed))
        return list(found.values())[:limit]

    async def keep(self, embedder: str, vectors: Sequence[tuple[str, Vector]]) -> None:
        self.vectors |= {(embedder, hashed): quantized(vector) for hashed, vector in vectors}
        self._forget_unused()
        for document_id, document in self._documents.documents.items():
            rows = self._rows(document_id)
            embedded = sum((embedder, hashed) in self.vectors for hashed, _, _ in rows)
            done = document.state is DocumentState.WORDS_READY and embedded == len(rows)
            state = DocumentState.READY if done else document.state
            self._documents.documents[document_id] = replace(document, embedded=embedded, state=state)

    async def candidates(self, question: PassageQuestion, wanted: DocumentQuery) -> Sequence[Candidate]:
        rows = [(each, row) for each in self._documents.seen(wanted) for row in self._rows(each.document_id)]
        meant: list[float | None] = []
        for _, (hashed, _, _) in rows:
            vector = self.vectors.get((question.embedder, hashed))
            fits = vector is not None and len(vector) == len(question.vector) // BYTES_EACH
            meant.append(int8_similarities([vector], question.vector)[0] if fits and vector else None)
        shared = [len(question.terms & set(terms_in(indexed))) for _, (_, _, indexed) in rows]
        order = range(len(rows))
        by_words = sorted((at for at in order if shared[at]), key=lambda at: -shared[at])[: question.limit]
        by_meaning = sorted((at for at in order if meant[at] is not None), key=lambda at: -(meant[at] or 0.0))
        chosen = dict.fromkeys([*by_words, *by_meaning[: question.limit]])
        return [Candidate(rows[at][0].document_id, rows[at][1][1].ordinal, rows[at][1][2], meant[at]) for at in chosen]


class MemoryFacts:
    """FactRepository in a dictionary."""

    def __init__(self) -> None:
        self.facts: dict[FactId, Fact] = {}
        self.uses: dict[tuple[FactId | DocumentId, RunId], MemoryUse] = {}

    async def add(self, fact: Fact, *, check: Check | None = None) -> None:
        if fact.id in self.facts:
            raise FactRefused(f"There is a fact {fact.id} already")
        beside = (fact.owner, fact.scope, fact.subject)
        if check is not None:
            check([each for each in self.facts.values() if (each.owner, each.scope, each.subject) == beside])
        self.facts[fact.id] = fact

    async def find(self, prefix: str, *, viewer: Viewer = EVERYTHING) -> Fact:
        found = [each for each in await self.list(FactQuery(viewer=viewer)) if each.id.startswith(prefix)]
        if len(found) != 1 or not prefix:
            raise MemoryNotFound(f"There is no fact {prefix!r}")
        return found[0]

    async def list(self, wanted: FactQuery) -> Sequence[Fact]:
        found = [
            each
            for each in self.facts.values()
            if wanted.viewer.sees(each.owner, Visibility.PRIVATE)
            and wanted.owner in ("", each.owner)
            and (not wanted.statuses or each.status in wanted.statuses)
            and wanted.scope in (None, each.scope)
            and wanted.subject in (None, each.subject)
        ]
        return sorted(found, key=lambda each: (-each.created_at, each.id))[: wanted.limit]

    async def change(self, fact: Fact, *, was: FactStatus) -> None:
        if fact.id not in self.facts or self.facts[fact.id].status is not was:
            raise FactSettled(f"Fact {fact.id} is no longer {was.value}")
        self.facts[fact.id] = fact

    async def erase(self, fact_id: FactId) -> None:
        if self.facts.pop(fact_id, None) is None:
            raise MemoryNotFound(f"There is no fact {fact_id!r}")
        self.uses = {key: use for key, use in self.uses.items() if key[0] != fact_id}


class UsesOfMemory:
    """MemoryUses over the fakes of facts and documents."""

    def __init__(self, facts: MemoryFacts, documents: MemoryDocuments) -> None:
        self._facts, self._documents = facts, documents

    async def note(self, run_id: RunId, items: Sequence[FactId | DocumentId], *, at: float, cited: bool) -> None:
        for item in items:
            if item in self._facts.facts or item in self._documents.documents:
                known = self._facts.uses.get((item, run_id), MemoryUse(run_id, at, cited))
                self._facts.uses[item, run_id] = known._replace(cited=known.cited or cited)

    async def of(self, item: FactId | DocumentId) -> Sequence[MemoryUse]:
        there = item in self._facts.facts or item in self._documents.documents
        found = [use for (used, _), use in self._facts.uses.items() if used == item and there]
        return sorted(found, key=lambda each: (-each.used_at, each.run_id))


class MemoryResponses:
    """ResponseIndex in a dictionary."""

    def __init__(self) -> None:
        self.runs: dict[str, RunId] = {}

    async def find(self, key: str) -> RunId | None:
        return self.runs.get(key)

    async def note(self, key: str, run_id: RunId) -> None:
        self.runs[key] = run_id


class MemoryOfDocuments:
    """MemoryStore that forgets."""

    def __init__(self) -> None:
        self.documents = MemoryDocuments()
        self.passages = MemoryPassages(self.documents)
        self.facts = MemoryFacts()
        self.uses = UsesOfMemory(self.facts, self.documents)


async def nothing_known(_: BriefingWish) -> Briefing:
    """ContextSource of runs that are told nothing."""
    return Briefing()
