"""The vectors that a process keeps find what comparing all of them one by one would find, whatever changes."""

import random
from collections.abc import Sequence

import pytest

from agent_fabric.infrastructure.memory.embeddings import vector_blocks
from agent_fabric.infrastructure.memory.embeddings.vector_blocks import Row, VectorBlocks, int8_similarities, quantize
from agent_fabric.infrastructure.models.embeddings.vectors import find_numpy, pack_vector
from services import need

pytestmark = pytest.mark.proves("ME-4", "ME-5")
SIZE = 6


class Library:
    """Documents with passages, each with a vector; counts what is read of them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.rows: dict[int, list[tuple[int, bytes]]] = {}
        self.revisions: dict[int, int] = {}
        self.read: list[int] = []
        self._passages = 0

    def write(self, document: int, count: int) -> None:
        self.rows[document] = []
        for _ in range(count):
            self._passages += 1
            self.rows[document].append((self._passages, quantize(self.vector())))
        self.revisions[document] = self.revisions.get(document, 0) + 1

    def vector(self) -> bytes:
        return pack_vector([self.chance.gauss(0, 1) for _ in range(SIZE)])

    def load(self, documents: Sequence[int]) -> list[Row]:
        self.read += documents
        return [(each, number, vector) for each in sorted(documents) for number, vector in self.rows[each]]

    def nearest(self, question: bytes, documents: Sequence[int], limit: int) -> list[int]:
        rows = [row for each in documents for row in self.rows[each]]
        near = int8_similarities([vector for _, vector in rows], question)
        ordered = sorted(zip(near, rows, strict=True), key=lambda each: -each[0])
        return [number for _, (number, _) in ordered[:limit]]


def blocks() -> VectorBlocks:
    numpy = find_numpy()
    need(numpy, "needs numpy: pip install 'agent-fabric[embeddings]'")
    return VectorBlocks(numpy)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_kept_finds_what_a_comparison_of_all_finds(seed: int) -> None:
    library, kept = Library(seed), blocks()
    for step in range(200):
        match library.chance.randrange(4):
            case 0 if library.rows:
                gone = library.chance.choice(sorted(library.rows))
                del library.rows[gone], library.revisions[gone]
                kept.forget(gone)
            case 1 if library.rows:
                library.write(library.chance.choice(sorted(library.rows)), library.chance.randrange(0, 30))
            case _:
                library.write(step + 1_000, library.chance.randrange(0, 30))
        seen = [each for each in sorted(library.rows) if library.chance.random() < 0.7]
        question, limit = library.vector(), library.chance.choice([1, 5, 10_000])
        found = kept.nearest("e", question, {each: library.revisions[each] for each in seen}, library.load, limit=limit)
        assert [each.number for each in found] == library.nearest(question, seen, limit)
        assert [each.cosine for each in found] == sorted((each.cosine for each in found), reverse=True)


def test_only_what_has_changed_is_read_again() -> None:
    library, kept = Library(1), blocks()
    for document in (1, 2, 3):
        library.write(document, 3)
    question = library.vector()
    for _ in range(2):
        kept.nearest("e", question, library.revisions, library.load, limit=2)
    assert library.read == [1, 2, 3]
    library.write(2, 4)
    kept.nearest("e", question, library.revisions, library.load, limit=2)
    assert library.read == [1, 2, 3, 2]
    kept.nearest("other", question, {3: 1}, library.load, limit=2)
    assert library.read == [1, 2, 3, 2, 3], "each embedder has its own"


def test_no_more_is_kept_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_blocks, "MAX_BYTES", 2_000 * SIZE)
    library, kept = Library(2), blocks()
    for document in range(1, 6):
        library.write(document, 600)
        question = library.vector()
        found = kept.nearest("e", question, {document: 1}, library.load, limit=3)
        assert [each.number for each in found] == library.nearest(question, [document], 3)
    kept.nearest("e", library.vector(), {1: 1, 5: 1}, library.load, limit=3)
    assert library.read.count(1) == 2, "it had made room"
    assert library.read.count(5) == 1


def test_a_vector_of_no_length_is_near_to_nothing() -> None:
    library, kept = Library(3), blocks()
    library.rows[1], library.revisions[1] = [(7, bytes(SIZE))], 1
    assert kept.nearest("e", library.vector(), {1: 1}, library.load, limit=3) == [(7, 0.0)]
    assert kept.nearest("e", library.vector(), {}, library.load, limit=3) == []
