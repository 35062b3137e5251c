"""What every store of documents and facts promises."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agent_fabric.application.ports.memory import DocumentQuery, FactQuery, PassageQuestion
from agent_fabric.application.ports.storage import Storage
from agent_fabric.domain.errors import FactRefused, FactSettled, MemoryNotFound
from agent_fabric.domain.identity.ownership import Viewer, Visibility
from agent_fabric.domain.ids import DocumentId, FactId, RunId
from agent_fabric.domain.memory.documents import Document, DocumentState, content_hash
from agent_fabric.domain.memory.facts import Fact, FactKind, FactScope, FactStatus
from agent_fabric.domain.memory.passages import Passage, split_passages
from agent_fabric.domain.memory.terms import question_terms
from agent_fabric.infrastructure.models.embeddings.vectors import pack_vector

BOOK, NOTES = DocumentId("b" * 16), DocumentId("c" * 16)
ADA, BOB = Viewer(("user:ada",), sees_all=False), Viewer(("user:bob",), sees_all=False)
EMBEDDER = "test/3"
FACT = Fact(id=FactId("00000000000a"), owner="user:ada", text="The pool opens at 9", created_at=10.0, valid_from=10.0)


def document(document_id: DocumentId = BOOK, **more: object) -> Document:
    given = Document(
        document_id=document_id,
        owner="user:ada",
        title="Handbook",
        source="/tmp/handbook.md",
        content_hash=content_hash(b""),
        created_at=1.0,
        updated_at=1.0,
    )
    return replace(given, **more)  # type: ignore[arg-type] # fields of a Document


def passages(*texts: str) -> list[Passage]:
    return [Passage(ordinal=at, start=at, end=at + 1, headings=("Top",), text=text) for at, text in enumerate(texts)]


async def add(storage: Storage, given: Document, *texts: str) -> Document:
    await storage.memory.documents.put(given)
    return await storage.memory.passages.replace(given, passages(*texts))


async def found(storage: Storage, question: str, wanted: DocumentQuery, *vector: float) -> set[tuple[str, int]]:
    asked = PassageQuestion(
        terms=question_terms(question),
        embedder=EMBEDDER if vector else "",
        vector=pack_vector(vector) if vector else b"",
    )
    candidates = await storage.memory.passages.candidates(asked, wanted)
    assert len({(each.document_id, each.ordinal) for each in candidates}) == len(candidates)
    return {(each.document_id[0], each.ordinal) for each in candidates}


async def embed(storage: Storage, *vectors: Sequence[float]) -> None:
    unread = await storage.memory.passages.unread(EMBEDDER, dimensions=3, limit=len(vectors))
    made = [(each.hash, pack_vector(vector)) for each, vector in zip(unread, vectors, strict=True)]
    await storage.memory.passages.keep(EMBEDDER, made)


class MemoryContract:
    """Documents, passages and facts. Derive from this and give `storage`."""

    async def test_a_document_is_kept_with_its_passages(self, storage: Storage) -> None:
        given = document(labels=("handbook", "team"), notes=("31 pages are images",), run_id=RunId("r"))
        text = "# Otters\n\n" + "They sleep in the river. " * 200
        await storage.memory.documents.put(given)
        kept = await storage.memory.passages.replace(given, split_passages(text))
        assert kept == replace(given, state=DocumentState.WORDS_READY, passages=4)
        assert await storage.memory.documents.find("bbbb") == kept
        assert await storage.memory.documents.list(DocumentQuery()) == [kept]
        assert await storage.memory.documents.list(DocumentQuery(content_hash=kept.content_hash)) == [kept]
        assert await storage.memory.documents.list(DocumentQuery(content_hash="other")) == []
        assert list(await storage.memory.passages.read(BOOK)) == split_passages(text)
        assert list(await storage.memory.passages.read(BOOK, first=1, last=2)) == split_passages(text)[1:3]
        assert await storage.memory.passages.read(NOTES) == []

    async def test_documents_are_found_by_words_also_where_a_language_has_no_spaces(self, storage: Storage) -> None:
        await add(storage, document(), "Otters sleep", "東京の天気は晴れ", "Über Größe", "nothing")
        assert await found(storage, "sleeping otter", DocumentQuery()) == {("b", 0)}
        assert await found(storage, "天気", DocumentQuery()) == {("b", 1)}
        assert await found(storage, "uber grösse", DocumentQuery()) == {("b", 2)}
        assert await found(storage, "top handbook", DocumentQuery()) == {("b", 0), ("b", 1), ("b", 2), ("b", 3)}
        assert await found(storage, '\' OR "x" * (', DocumentQuery()) == set()

    @pytest.mark.proves("A33-071", "ME-4")
    async def test_passages_are_found_by_meaning_as_soon_as_they_have_vectors(self, storage: Storage) -> None:
        await add(storage, document(), "one", "two", "three")
        assert await found(storage, "zzz", DocumentQuery(), 1, 0, 0) == set()
        await embed(storage, (1, 0, 0), (0, 1, 0))
        halfway = await storage.memory.documents.find(BOOK)
        assert (halfway.state, halfway.embedded, halfway.standing) == (DocumentState.WORDS_READY, 2, "vectors 66 %")
        assert len(await storage.memory.passages.unread(EMBEDDER, dimensions=3, limit=9)) == 1
        assert len(await storage.memory.passages.unread("other", dimensions=3, limit=9)) == 3
        await embed(storage, (0, 0, 1))
        assert (await storage.memory.documents.find(BOOK)).state is DocumentState.READY
        asked = PassageQuestion(terms=frozenset(), embedder=EMBEDDER, vector=pack_vector((0, 0.1, 1)), limit=1)
        (best,) = await storage.memory.passages.candidates(asked, DocumentQuery())
        assert (best.ordinal, best.indexed) == (2, "Handbook › Top\nthree")
        assert best.meaning == pytest.approx(0.995, abs=0.01)
        # Vectors of another size are not compared.
        assert await found(storage, "zzz", DocumentQuery(), 1, 0) == set()

    async def test_only_what_changed_needs_new_vectors(self, storage: Storage) -> None:
        await add(storage, document(), "one", "two")
        await embed(storage, (1, 0, 0), (0, 1, 0))
        changed = await add(storage, document(), "new", "one")
        assert [each.text for each in await storage.memory.passages.unread(EMBEDDER, dimensions=3, limit=9)] == [
            "Handbook › Top\nnew"
        ]
        assert changed.state is DocumentState.WORDS_READY
        assert await found(storage, "two", DocumentQuery()) == set()
        assert await found(storage, "zzz", DocumentQuery(), 1, 0, 0) == {("b", 1)}
        # The text that came back has to be read again: its vector left with it.
        await add(storage, document(), "two")
        assert len(await storage.memory.passages.unread(EMBEDDER, dimensions=3, limit=9)) == 1

    @pytest.mark.proves("ME-5")
    async def test_owner_and_labels_narrow_the_choice_itself(self, storage: Storage) -> None:
        for number in range(60):
            given = document(DocumentId(f"{number:016x}"), owner="user:bob", labels=("other",))
            await add(storage, given, f"otter otter otter {number}")
        await add(storage, document(labels=("handbook",)), "one otter among much else that is said here")
        assert await found(storage, "otter", DocumentQuery(viewer=ADA)) == {("b", 0)}
        assert await found(storage, "otter", DocumentQuery(labels=("handbook", "x"))) == {("b", 0)}
        assert await found(storage, "otter", DocumentQuery(documents=(BOOK,))) == {("b", 0)}
        assert await found(storage, "otter", DocumentQuery(owner="user:ada")) == {("b", 0)}
        await storage.memory.documents.put(document(visibility=Visibility.TEAM))
        assert ("b", 0) in await found(storage, "otter", DocumentQuery(viewer=BOB, documents=(BOOK,)))

    async def test_what_was_removed_is_not_found_any_more(self, storage: Storage) -> None:
        await add(storage, document(), "one")
        await add(storage, document(NOTES), "one", "two")
        await embed(storage, (1, 0, 0), (0, 1, 0))
        await storage.memory.documents.remove(BOOK)
        assert await found(storage, "one", DocumentQuery(), 1, 0, 0) == {("c", 0), ("c", 1)}
        await storage.memory.documents.remove(NOTES)
        assert await found(storage, "one", DocumentQuery(), 1, 0, 0) == set()
        assert await storage.memory.passages.read(NOTES) == []
        with pytest.raises(MemoryNotFound):
            await storage.memory.documents.remove(BOOK)
        with pytest.raises(MemoryNotFound):
            await storage.memory.passages.replace(document(), [])
        with pytest.raises(MemoryNotFound):
            await storage.memory.documents.find("")

    async def test_a_document_of_somebody_else_does_not_exist(self, storage: Storage) -> None:
        await add(storage, document(), "one")
        with pytest.raises(MemoryNotFound):
            await storage.memory.documents.find(BOOK, viewer=BOB)
        assert await storage.memory.documents.list(DocumentQuery(viewer=BOB)) == []

    async def test_a_fact_is_kept_as_it_is(self, storage: Storage) -> None:
        whole = Fact(
            id=FactId("00000000000b"),
            owner="user:ada",
            scope=FactScope.PROJECT,
            subject="fabric",
            kind=FactKind.PREFERENCE,
            text="Tests are run with -q",
            source_run=RunId("run"),
            source_seq=4,
            source_quote="please:\nalways run with -q",
            said_by="user:ada",
            untrusted=("a page",),
            status=FactStatus.ACTIVE,
            valid_from=3.0,
            valid_to=4.5,
            created_at=2.0,
            expires_at=9.0,
            reviewed_by="user:ada",
            supersedes=FACT.id,
            pinned=True,
        )
        await storage.memory.facts.add(FACT)
        await storage.memory.facts.add(whole)
        assert await storage.memory.facts.find("00000000000b") == whole
        assert await storage.memory.facts.list(FactQuery()) == [FACT, whole]
        assert await storage.memory.facts.list(FactQuery(statuses=(FactStatus.ACTIVE,))) == [whole]
        assert await storage.memory.facts.list(FactQuery(scope=FactScope.PROJECT, subject="fabric")) == [whole]
        assert await storage.memory.facts.list(FactQuery(subject="other")) == []
        for missing in ("0000", "", "f"):
            with pytest.raises(MemoryNotFound):
                await storage.memory.facts.find(missing)
        with pytest.raises(FactRefused):
            await storage.memory.facts.add(FACT)

    async def test_a_fact_is_held_against_the_others_of_its_owner_and_scope(self, storage: Storage) -> None:
        seen: list[Sequence[Fact]] = []

        def refuse(known: Sequence[Fact]) -> None:
            seen.append(known)
            raise FactRefused("no")

        await storage.memory.facts.add(FACT)
        await storage.memory.facts.add(replace(FACT, id=FactId("00000000000b"), owner="user:bob"))
        with pytest.raises(FactRefused):
            await storage.memory.facts.add(replace(FACT, id=FactId("00000000000c")), check=refuse)
        assert [list(each) for each in seen] == [[FACT]]
        assert len(await storage.memory.facts.list(FactQuery())) == 2

    async def test_of_two_reviews_the_second_is_told_so(self, storage: Storage) -> None:
        await storage.memory.facts.add(FACT)
        accepted = FACT.accept("user:ada", 20.0)
        await storage.memory.facts.change(accepted, was=FactStatus.PROPOSED)
        with pytest.raises(FactSettled):
            await storage.memory.facts.change(FACT.reject("user:bob"), was=FactStatus.PROPOSED)
        assert await storage.memory.facts.find(FACT.id) == accepted

    async def test_the_answers_that_used_a_fact_are_known_until_it_is_erased(self, storage: Storage) -> None:
        await storage.memory.facts.add(FACT)
        uses = storage.memory.uses
        await uses.note(RunId("one"), [FACT.id], at=5.0, cited=False)
        await uses.note(RunId("two"), [FACT.id, FactId("f" * 12)], at=6.0, cited=False)
        await uses.note(RunId("one"), [FACT.id], at=7.0, cited=True)
        await uses.note(RunId("one"), [FACT.id], at=8.0, cited=False)
        assert await uses.of(FACT.id) == [("two", 6.0, False), ("one", 5.0, True)]
        assert await uses.of(FactId("f" * 12)) == []
        await storage.memory.facts.erase(FACT.id)
        assert await uses.of(FACT.id) == []
        with pytest.raises(MemoryNotFound):
            await storage.memory.facts.erase(FACT.id)

    @pytest.mark.proves("ME-12")
    async def test_owners_never_see_each_others_facts(self, storage: Storage) -> None:
        chance = random.Random(21)
        owners = [f"user:{number}" for number in range(4)]
        own: dict[str, set[str]] = {owner: set() for owner in owners}
        for number in range(80):
            owner = chance.choice(owners)
            viewer = Viewer((owner,), sees_all=False)
            if own[owner] and chance.random() < 0.3:
                gone = FactId(chance.choice(sorted(own[owner])))
                await storage.memory.facts.erase((await storage.memory.facts.find(gone, viewer=viewer)).id)
                own[owner].discard(gone)
            else:
                fact = replace(FACT, id=FactId(f"{number:012x}"), owner=owner)
                await storage.memory.facts.add(fact)
                own[owner].add(fact.id)
            other = chance.choice(owners)
            seen = await storage.memory.facts.list(FactQuery(viewer=Viewer((other,), sees_all=False)))
            assert {each.id for each in seen} == own[other]
            stranger = next((each for each in own[owner] if owner != other), None)
            if stranger is not None:
                with pytest.raises(MemoryNotFound):
                    await storage.memory.facts.find(stranger, viewer=Viewer((other,), sees_all=False))

    @pytest.mark.proves("A33-074", "ME-15")
    async def test_it_is_known_which_run_answered_last(self, storage: Storage) -> None:
        assert await storage.responses.find("k") is None
        await storage.responses.note("k", RunId("one"))
        await storage.responses.note("k", RunId("two"))
        assert await storage.responses.find("k") == "two"
        assert await storage.responses.find("other") is None
