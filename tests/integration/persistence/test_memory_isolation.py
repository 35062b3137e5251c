"""Among many documents of many owners, each finds their own, however alike the others are."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.application.memory.search_memory import SearchMemory
from agent_fabric.application.ports.memory import DocumentQuery, PassageQuestion
from agent_fabric.application.ports.storage import Storage
from agent_fabric.bootstrap.records import open_records
from agent_fabric.domain.identity.ownership import Viewer, Visibility
from agent_fabric.domain.ids import DocumentId
from agent_fabric.domain.memory.documents import Document
from agent_fabric.domain.memory.passages import split_passages
from agent_fabric.domain.memory.terms import question_terms
from agent_fabric.infrastructure.models.embeddings.vectors import pack_vector
from effort import effort, report

OWNERS = 20
EMBEDDER, SIZE = "test/8", 8


@pytest.mark.proves("ME-5", "ME-12")
async def test_owners_find_only_their_own_among_documents_that_are_alike(tmp_path: Path) -> None:
    count = effort(200, 10_000)
    with open_records(tmp_path / ".fabric") as records:
        memory = records.storage.memory
        for number in range(count):
            owner = f"user:{number % OWNERS}"
            document = Document(
                document_id=DocumentId(f"{number:016x}"),
                owner=owner,
                title="Handbook",
                source=f"/{number}.md",
                content_hash=str(number),
            )
            await memory.documents.put(document)
            await memory.passages.replace(document, split_passages(f"The pool opens at nine, says page {number}."))
        search = SearchMemory(memory, records.storage.clock)
        for person in range(OWNERS):
            viewer = Viewer((f"user:{person}",), sees_all=False)
            found = await search("When does the pool open?", DocumentQuery(viewer=viewer), limit=50)
            assert found.passages
            assert {each.document.owner for each in found.passages} == {f"user:{person}"}
            own = await memory.documents.list(DocumentQuery(viewer=viewer, limit=count))
            assert len(own) == count // OWNERS
    report("documents of twenty owners, each of whom finds only their own", count)


class Library:
    """Documents of many owners that change all the time, and what is known about each."""

    def __init__(self, storage: Storage, chance: random.Random) -> None:
        self._memory = storage.memory
        self._chance = chance
        self.known: dict[DocumentId, tuple[Document, str]] = {}
        self._made = 0

    async def change(self) -> None:
        """Add, replace, share, label or erase a document."""
        chance = self._chance
        if not self.known or chance.random() < 0.35:
            self._made += 1
            owner = f"user:{chance.randrange(OWNERS)}"
            document_id = DocumentId(f"{self._made:016x}")
            await self._write(
                Document(
                    document_id=document_id, owner=owner, title="Handbook", source=f"/{document_id}", content_hash=""
                )
            )
            return
        document_id = chance.choice(sorted(self.known))
        document, text = self.known[document_id]
        match chance.randrange(4):
            case 0:
                await self._memory.documents.remove(document_id)
                del self.known[document_id]
            case 1:
                await self._write(document)
            case 2:
                stored = await self._memory.documents.find(document_id)
                shared = chance.choice([Visibility.PRIVATE, Visibility.TEAM])
                changed = _with(stored, visibility=shared)
                await self._memory.documents.put(changed)
                self.known[document_id] = changed, text
            case _:
                stored = await self._memory.documents.find(document_id)
                changed = _with(stored, labels=(chance.choice(["red", "blue"]),))
                await self._memory.documents.put(changed)
                self.known[document_id] = changed, text

    async def _write(self, document: Document) -> None:
        text = f"The pool opens at {self._chance.randrange(10**9)}, says {document.owner}."
        await self._memory.documents.put(document)
        await self._memory.passages.replace(document, split_passages(text))
        unread = await self._memory.passages.unread(EMBEDDER, dimensions=SIZE, limit=8)
        vectors = [
            (each.hash, pack_vector([1.0 + 0.01 * self._chance.random() for _ in range(SIZE)])) for each in unread
        ]
        await self._memory.passages.keep(EMBEDDER, vectors)
        self.known[document.document_id] = document, text

    async def look(self) -> int:
        """Ask in somebody's name and compare with what they may see; return how many passages were found."""
        person = f"user:{self._chance.randrange(OWNERS)}"
        labels = self._chance.choice([(), (), ("red",)])
        viewer = Viewer((person,), sees_all=False)
        asked = PassageQuestion(
            terms=question_terms("pool opens") if self._chance.random() < 0.5 else frozenset(),
            embedder=EMBEDDER,
            vector=pack_vector([1.0] * SIZE),
            limit=self._chance.choice([5, 1_000]),
        )
        found = await self._memory.passages.candidates(asked, DocumentQuery(viewer=viewer, labels=labels))
        allowed = {
            document_id: text
            for document_id, (each, text) in self.known.items()
            if viewer.sees(each.owner, each.visibility) and (not labels or set(labels) & set(each.labels))
        }
        for each in found:
            assert each.document_id in allowed, "a passage of another scope"
            assert each.indexed.endswith(allowed[each.document_id]), "a text that was replaced"
        assert len(found) >= min(asked.limit, len(allowed)), "what others have must not crowd out one's own"
        return len(found)


def _with(document: Document, **changes: object) -> Document:
    return replace(document, **changes)  # type: ignore[arg-type] # fields of a Document


@pytest.mark.proves("ME-5", "ME-12")
async def test_no_passage_of_another_scope_is_ever_found_while_documents_change(tmp_path: Path) -> None:
    count = effort(300, 10_000)
    chance = random.Random(21)
    looks = passages = 0
    with open_records(tmp_path / ".fabric") as records:
        library = Library(records.storage, chance)
        for _ in range(count):
            if chance.random() < 0.5:
                await library.change()
            else:
                looks += 1
                passages += await library.look()
    assert passages
    report("changes and questions of twenty owners", count)
    report("passages found by them, none of another scope", passages)
