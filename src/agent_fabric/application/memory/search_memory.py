"""Finds the passages and facts that answer a question."""

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.embeddings import Embedder, Vector
from agent_fabric.application.ports.memory import (
    DocumentQuery,
    FactQuery,
    FoundFact,
    FoundPassage,
    MemoryAnswer,
    MemoryStore,
    PassageQuestion,
)
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.ids import DocumentId
from agent_fabric.domain.memory.documents import Document
from agent_fabric.domain.memory.facts import FactStatus
from agent_fabric.domain.memory.ranking import (
    Candidate,
    Excerpt,
    follow_up,
    merge_neighbours,
    rank,
    without_duplicates,
)
from agent_fabric.domain.memory.terms import question_terms

MAX_QUESTION_CHARS = 2_000
MAX_PASSAGES = 6
CANDIDATES = 50


@dataclass(frozen=True, slots=True)
class SearchMemory:
    """Use case: choose candidates, rank them, and leave out what does not fit well enough."""

    memory: MemoryStore
    clock: Clock
    embedder: Embedder | None = None

    async def __call__(
        self, question: str, wanted: DocumentQuery, *, earlier: str = "", limit: int = MAX_PASSAGES
    ) -> MemoryAnswer:
        """Answer a question; `earlier` is the one before it in a conversation.

        Raises:
            ModelError: the server that makes the vectors gave no usable answer.
        """
        asked = follow_up(question, earlier)[:MAX_QUESTION_CHARS].strip()
        if not asked:
            return MemoryAnswer([], [], by_meaning=False)
        vector: Vector = b"" if self.embedder is None else (await self.embedder.embed([asked]))[0]
        wish = PassageQuestion(
            terms=question_terms(asked),
            embedder="" if self.embedder is None else self.embedder.name,
            vector=vector,
            limit=CANDIDATES,
        )
        candidates = await self.memory.passages.candidates(wish, wanted)
        best = without_duplicates(rank(asked, candidates), limit=limit)
        documents = await self._documents({each.candidate.document_id for each in best}, wanted)
        excerpts = [each for each in merge_neighbours(best) if each.document_id in documents]
        passages = [await self._found_passage(each, documents[each.document_id]) for each in excerpts]
        return MemoryAnswer(passages, await self._facts(asked, wanted, limit), by_meaning=bool(vector))

    async def _documents(self, ids: set[DocumentId], wanted: DocumentQuery) -> dict[DocumentId, Document]:
        if not ids:
            return {}
        query = DocumentQuery(viewer=wanted.viewer, documents=tuple(sorted(ids)), limit=len(ids))
        return {each.document_id: each for each in await self.memory.documents.list(query)}

    async def _found_passage(self, excerpt: Excerpt, document: Document) -> FoundPassage:
        parts = await self.memory.passages.read(document.document_id, first=excerpt.first, last=excerpt.last)
        return FoundPassage(
            document=document,
            passage="".join(part.text for part in parts),
            headings=parts[0].headings if parts else (),
            first=excerpt.first,
            last=excerpt.last,
            start=parts[0].start if parts else 0,
            end=parts[-1].end if parts else 0,
            score=excerpt.score,
        )

    async def _facts(self, asked: str, wanted: DocumentQuery, limit: int) -> list[FoundFact]:
        """Return facts by their words: there are few of them, and each is one sentence."""
        query = FactQuery(viewer=wanted.viewer, owner=wanted.owner, statuses=(FactStatus.ACTIVE,))
        now = self.clock.now()
        known = await self.memory.facts.list(query)
        usable = [fact for fact in known if fact.is_usable(now) and (wanted.sealed_facts or not fact.sealed)]
        candidates = [Candidate(DocumentId(""), at, fact.text) for at, fact in enumerate(usable)]
        return [FoundFact(usable[each.candidate.ordinal], each.score) for each in rank(asked, candidates)[:limit]]
