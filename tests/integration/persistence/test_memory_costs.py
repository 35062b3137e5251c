"""What a question and an ingestion cost, in CPU time: others may use the machine at the same time."""

import random
import time
from collections.abc import Sequence
from pathlib import Path

from agent_fabric.application.memory.embed_passages import EmbedPassages
from agent_fabric.application.memory.search_memory import SearchMemory
from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.application.ports.memory import DocumentQuery
from agent_fabric.bootstrap.records import open_records
from agent_fabric.domain.identity.ownership import Viewer
from agent_fabric.domain.ids import DocumentId
from agent_fabric.domain.memory.documents import Document
from agent_fabric.domain.memory.passages import Passage
from agent_fabric.infrastructure.models.embeddings.vectors import pack_vector
from effort import effort, report

PASSAGES = effort(1_000, 10_000)
DIMENSIONS = 512
QUERY_CPU_MS = 120.0
ENCODER_CPU_MS = 36.0
"""What the encoder takes for a passage (`benchmarks/RESULTS.md`); ingestion may take 1.15 times as much in all."""
MINE = DocumentQuery(viewer=Viewer(("local",), sees_all=False))


class Drawn:
    """Embedder whose vectors cost nothing: what is measured is all the rest."""

    name, dimensions = "drawn", DIMENSIONS

    def __init__(self) -> None:
        chance = random.Random(17)
        self._vectors = [pack_vector([chance.gauss(0, 1) for _ in range(DIMENSIONS)]) for _ in range(200)]

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        return [self._vectors[len(text) % 200] for text in texts]


async def test_a_question_and_an_ingestion_take_no_more_cpu_than_promised(tmp_path: Path) -> None:
    chance, words = random.Random(1), [f"word{number}" for number in range(2_000)]
    embedder = Drawn()
    with open_records(tmp_path / ".fabric") as records:
        memory = records.storage.memory
        texts = [" ".join(chance.choices(words, k=200)) for _ in range(PASSAGES)]
        before = time.process_time()
        for start in range(0, PASSAGES, 500):
            document = Document(
                document_id=DocumentId(f"{start:016}"), owner="local", title="", source=f"/{start}", content_hash=""
            )
            some = texts[start : start + 500]
            parts = [Passage(ordinal=at, start=at, end=at + 1, text=text) for at, text in enumerate(some)]
            await memory.documents.put(document)
            await memory.passages.replace(document, parts)
        assert await EmbedPassages(memory.passages, embedder)() == PASSAGES
        each_ms = 1_000 * (time.process_time() - before) / PASSAGES
        search = SearchMemory(memory, records.storage.clock, embedder)
        assert (await search(texts[0], MINE)).passages  # the first one of a process reads all vectors
        before, asked = time.process_time(), 10
        for number in range(asked):
            assert (await search(" ".join(words[number * 9 : number * 9 + 9]), MINE)).by_meaning
        query_ms = 1_000 * (time.process_time() - before) / asked
    report("passages that were asked", PASSAGES)
    print(f"a passage {each_ms:.1f} ms beside the encoder, a question {query_ms:.0f} ms")
    assert each_ms <= 0.15 * ENCODER_CPU_MS
    assert query_ms <= QUERY_CPU_MS
