"""Tells a run what memory knows about its task, before its model is asked."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from agent_fabric.application.ports.clock import Clock
from agent_fabric.application.ports.memory import (
    Briefing,
    BriefingRequest,
    DocumentQuery,
    FactQuery,
    FoundPassage,
    MemorySearcher,
    MemoryStore,
    known_fact,
)
from agent_fabric.application.ports.sources import Snapshots
from agent_fabric.application.ports.web import Page
from agent_fabric.domain.dataclass import dataclass
from agent_fabric.domain.errors import ModelError
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.ids import DocumentId, FactId, RunId
from agent_fabric.domain.memory.facts import Fact, FactScope, FactStatus
from agent_fabric.domain.memory.passages import MIN_CHARS
from agent_fabric.domain.memory.ranking import WHOLE_SHARE
from agent_fabric.domain.runs.knowledge import Knowledge, KnownPassage
from agent_fabric.domain.tools.findings import Source

CHARS_PER_TOKEN: Final = 3
USUAL_WINDOW: Final = 8_192
"""Tokens, where no one knows how many the model can hold."""
MAX_CHARS: Final = 16_000
"""Of passages, however large the window is: reading costs time before the first word of the answer."""
MAX_COMPACT_CHARS: Final = 4_000
"""The same for a model that is small or slow: on two cores it reads so much in half a minute."""


@dataclass(frozen=True, slots=True)
class BriefRun:
    """Use case: find what fits the task, as much as fits the model, and note that the run was told it.

    It is the ContextSource of runs.
    """

    memory: MemoryStore
    search: MemorySearcher
    by_words: MemorySearcher
    """Stands in for `search` where no vectors can be made."""
    snapshots_for: Callable[[RunId], Snapshots]
    clock: Clock

    async def __call__(self, wish: BriefingRequest) -> Briefing:
        """Return what is known; nothing where no one has added anything that the owner may see.

        Raises:
            StoreUnavailable: memory cannot be read.
        """
        viewer = Viewer((wish.owner,), sees_all=False)
        wanted = DocumentQuery(viewer=viewer, sealed_facts=wish.encrypted)
        facts = await self.memory.facts.list(FactQuery(viewer=viewer, statuses=(FactStatus.ACTIVE,)))
        if not facts and not await self.memory.documents.list(DocumentQuery(viewer=viewer, limit=1)):
            return Briefing()
        notice = ""
        try:
            answer = await self.search(wish.question, wanted, earlier=wish.earlier)
        except ModelError as problem:
            notice = f"Memory was searched by words only: {problem.message}"
            answer = await self.by_words(wish.question, wanted, earlier=wish.earlier)
        passages = await self._fit(answer.passages, _room(wish))
        pinned = self._pinned_facts(facts, wish) if wish.pinned else []
        looked_up = [
            each.fact for each in answer.facts if _concerns(each.fact, wish.subjects) and each.fact not in pinned
        ]
        documents = {each.document.document_id: each.document for each in answer.passages}
        labels = [documents[each.document].exposes for each in passages]
        labels += [f"fact {fact.id}" for fact in (*pinned, *looked_up) if fact.untrusted]
        knowledge = Knowledge(
            question=wish.question,
            passages=tuple(passages),
            facts=tuple(map(known_fact, looked_up)),
            pinned=tuple(map(known_fact, pinned)),
            untrusted=tuple(dict.fromkeys(labels)),
            sources=tuple([await self._keep(wish.run_id, each) for each in passages]),
        )
        if knowledge.is_private:
            documents_told = dict.fromkeys(each.document for each in passages)
            told: list[FactId | DocumentId] = [*documents_told, *(fact.id for fact in (*pinned, *looked_up))]
            await self.memory.uses.note(wish.run_id, told, at=self.clock.now(), cited=False)
        return Briefing(knowledge, notice)

    async def _fit(self, found: Sequence[FoundPassage], room: int) -> list[KnownPassage]:
        """Return the passages that fit; a document that is small enough is given as a whole."""
        given: list[KnownPassage] = []
        whole: set[DocumentId] = set()
        for each in found:
            document = each.document.document_id
            if document in whole:
                continue
            passage = await self._as_whole(each, room) or each.as_known()
            if len(passage.text) > room and given:
                continue
            if len(passage.text) > room:
                passage = await self._first_of(each)
            if passage.first == 0 and passage.last + 1 >= passage.of:
                whole.add(document)
                given = [other for other in given if other.document != document]
            given.append(passage)
            room -= len(passage.text)
        return given

    async def _as_whole(self, found: FoundPassage, room: int) -> KnownPassage | None:
        if (found.document.passages - 1) * MIN_CHARS > room:
            return None  # without reading it
        parts = await self.memory.passages.read(found.document.document_id)
        if sum(len(part.text) for part in parts) > room:
            return None
        return KnownPassage(
            document=found.document.document_id,
            title=found.document.title,
            first=0,
            last=len(parts) - 1,
            of=len(parts),
            text="".join(part.text for part in parts),
            score=found.score,
        )

    async def _first_of(self, found: FoundPassage) -> KnownPassage:
        parts = await self.memory.passages.read(found.document.document_id, first=found.first, last=found.first)
        text = "".join(part.text for part in parts)
        return replace(found.as_known(), last=found.first, text=text)

    def _pinned_facts(self, facts: Sequence[Fact], wish: BriefingRequest) -> list[Fact]:
        now = self.clock.now()
        usable = [
            fact
            for fact in facts
            if fact.pinned
            and fact.is_usable(now)
            and _concerns(fact, wish.subjects)
            and (wish.encrypted or not fact.sealed)
        ]
        return sorted(usable, key=lambda each: (each.created_at, each.id))

    async def _keep(self, run_id: RunId, passage: KnownPassage) -> Source:
        page = Page(
            url=passage.url,
            final_url=passage.url,
            status=200,
            content_type="text/plain",
            body=passage.text.encode("utf-8", "replace"),
            title=passage.title,
            text=passage.text,
            cut=False,
        )
        return await self.snapshots_for(run_id).keep(page, fetched_at=self.clock.now())


def _concerns(fact: Fact, subjects: Sequence[str]) -> bool:
    return fact.scope is FactScope.USER or fact.subject in subjects


def _room(wish: BriefingRequest) -> int:
    """Return how many characters of passages a run is told."""
    share = int(WHOLE_SHARE * (wish.window or USUAL_WINDOW) * CHARS_PER_TOKEN)
    return min(share, MAX_COMPACT_CHARS if wish.compact else MAX_CHARS)
