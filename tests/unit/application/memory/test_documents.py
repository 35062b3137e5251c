"""Documents are added in durable steps, and found by words and meaning."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from agent_fabric.application.memory.add_document import AddDocument
from agent_fabric.application.memory.embed_passages import EmbedPassages
from agent_fabric.application.memory.search_memory import SearchMemory
from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.application.ports.memory import DocumentQuery, DocumentText, MemoryStore, NewDocument
from agent_fabric.domain.errors import DocumentUnreadable, InvalidInputs, ModelUnreachable
from agent_fabric.domain.identity.ownership import Viewer, Visibility
from agent_fabric.domain.ids import FactId
from agent_fabric.domain.memory.documents import Document, DocumentState
from agent_fabric.domain.memory.facts import Fact
from agent_fabric.infrastructure.models.embeddings.vectors import pack_vector
from agent_fabric.testing.fakes import FrozenClock
from memory_storage import MemoryOfDocuments

ADA = "user:ada"
OWN = DocumentQuery(viewer=Viewer((ADA,), sees_all=False))
HANDBOOK = "# Handbook\n\n" + "\n\n".join(
    f"## {name}\n\n{text} " + "Further remarks fill the page. " * 40
    for name, text in (
        ("Journeys", "Expenses of journeys are refunded within a month."),
        ("Pool", "The pool opens at nine."),
        ("Otters", "Otters sleep in the river."),
    )
)


class PlainReader:
    """DocumentReader of UTF-8."""

    async def read(self, data: bytes, *, source: str, media_type: str = "") -> DocumentText:
        if data.startswith(b"%PDF"):
            raise DocumentUnreadable(f"{source} is encrypted")
        return DocumentText(data.decode())


@dataclass
class TopicEmbedder:
    """Embedder that knows three topics."""

    name: str = "topics"
    dimensions: int = 4
    fail_after: int = 1_000
    asked: list[str] = field(default_factory=list)

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        if len(self.asked) >= self.fail_after:
            raise ModelUnreachable("gone")
        self.asked += texts
        return [
            pack_vector([float(any(word in text for word in topic)) for topic in _TOPICS] + [0.1]) for text in texts
        ]


_TOPICS = (("journey", "train", "refund", "paid back"), ("pool", "swim"), ("tter", "river"))


@dataclass
class Bench:
    memory: MemoryStore = field(default_factory=MemoryOfDocuments)
    embedder: TopicEmbedder = field(default_factory=TopicEmbedder)
    clock: FrozenClock = field(default_factory=FrozenClock)

    async def add(
        self, text: str, source: str = "/handbook.md", *, words_only: bool = False, **more: object
    ) -> Document:
        embed = None if words_only else EmbedPassages(self.memory.passages, self.embedder)
        new = NewDocument(data=text.encode(), source=source, owner=ADA, **more)  # type: ignore[arg-type] # its fields
        return await AddDocument(self.memory, PlainReader(), self.clock, embed)(new)

    def search(self, *, words_only: bool = False) -> SearchMemory:
        return SearchMemory(self.memory, self.clock, None if words_only else self.embedder)


async def test_a_paraphrase_finds_the_sentence_and_where_it_stands() -> None:
    bench = Bench()
    document = await bench.add(HANDBOOK)
    assert (document.state, document.title, document.standing) == (DocumentState.READY, "Handbook", "ready")
    answer = await bench.search()("How do I get paid back for a train ride?", OWN)
    assert answer.by_meaning
    assert "refunded within a month" in answer.passages[0].passage
    found = answer.passages[0]
    assert HANDBOOK[found.start : found.end] == found.passage


async def test_without_vectors_words_find_it() -> None:
    bench = Bench()
    document = await bench.add(HANDBOOK, words_only=True)
    assert document.state is DocumentState.WORDS_READY
    answer = await bench.search(words_only=True)("when does the pool open", OWN)
    assert not answer.by_meaning
    assert "opens at nine" in answer.passages[0].passage


@pytest.mark.proves("ME-7")
async def test_memory_says_when_it_has_nothing() -> None:
    bench = Bench()
    await bench.add(HANDBOOK)
    assert (await bench.search()("Who won the cup in 1954?", OWN)).passages == []
    assert (await bench.search()("  ", OWN)).passages == []


async def test_a_follow_up_is_understood_with_the_question_before() -> None:
    bench = Bench()
    await bench.add(HANDBOOK)
    assert (await bench.search()("And when?", OWN)).passages == []
    answer = await bench.search()("And when?", OWN, earlier="Can I swim in the pool?")
    assert "opens at nine" in answer.passages[0].passage


async def test_the_same_bytes_are_the_same_document_and_nothing_is_read_twice() -> None:
    bench = Bench()
    first = await bench.add(HANDBOOK, labels=["Team"])
    read = len(bench.embedder.asked)
    again = await bench.add(HANDBOOK, "/copy.md", labels=["new"])
    assert again.document_id == first.document_id
    assert again.labels == ("team", "new")
    assert len(bench.embedder.asked) == read


async def test_of_a_changed_file_only_what_changed_is_read_again() -> None:
    bench = Bench()
    await bench.add(HANDBOOK)
    read = len(bench.embedder.asked)
    changed = await bench.add(HANDBOOK.replace("at nine", "at ten"))
    assert changed.state is DocumentState.READY
    assert len(bench.embedder.asked) == read + 1
    assert len(await bench.memory.documents.list(OWN)) == 1


@pytest.mark.proves("ME-2")
async def test_whoever_is_stopped_half_way_goes_on_with_what_is_missing() -> None:
    bench = Bench(embedder=TopicEmbedder(fail_after=32))
    long = HANDBOOK + "\n\n".join(f"## Part {number}\n\n" + f"Text of part {number}. " * 60 for number in range(60))
    with pytest.raises(ModelUnreachable):
        await bench.add(long)
    (halfway,) = await bench.memory.documents.list(OWN)
    assert (halfway.state, halfway.embedded) == (DocumentState.WORDS_READY, 32)
    bench.embedder.fail_after = 1_000
    assert (await bench.add(long)).state is DocumentState.READY
    assert len(bench.embedder.asked) == len(set(bench.embedder.asked))


async def test_what_cannot_be_read_says_so_and_is_not_found_any_more() -> None:
    bench = Bench()
    await bench.add(HANDBOOK)
    for text, problem in (("%PDF", "encrypted"), (" \n", "no text")):
        with pytest.raises(DocumentUnreadable, match=problem):
            await bench.add(text)
        (failed,) = await bench.memory.documents.list(OWN)
        assert failed.state is DocumentState.FAILED
        assert problem in failed.standing
    assert (await bench.search()("When does the pool open?", OWN)).passages == []


async def test_a_label_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInputs):
        await Bench().add(HANDBOOK, labels=["no label!"])


async def test_others_find_only_what_is_shared() -> None:
    bench, bob = Bench(), DocumentQuery(viewer=Viewer(("user:bob",), sees_all=False))
    await bench.add(HANDBOOK)
    assert (await bench.search()("When does the pool open?", bob)).passages == []
    await bench.add(HANDBOOK, visibility=Visibility.TEAM)
    assert (await bench.search()("When does the pool open?", bob)).passages


async def test_facts_in_use_are_found_beside_passages() -> None:
    bench = Bench()
    fact = Fact(id=FactId("00000000000a"), owner=ADA, text="The sauna opens at 10", created_at=1.0)
    await bench.memory.facts.add(fact.accept(ADA, bench.clock.now()))
    await bench.memory.facts.add(Fact(id=FactId("00000000000b"), owner=ADA, text="The sauna opens at 11"))
    answer = await bench.search()("When does the sauna open?", OWN)
    assert [found.fact.id for found in answer.facts] == ["00000000000a"]
