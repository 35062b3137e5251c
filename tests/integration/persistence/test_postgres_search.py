"""Search in PostgreSQL finds what it finds in SQLite: words by tsvector, vectors by pgvector where there is one."""

import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.memory.search_memory import SearchMemory
from agent_fabric.application.ports.memory import DocumentQuery, PassageQuestion
from agent_fabric.domain.identity.ownership import EVERYTHING, Viewer
from agent_fabric.domain.ids import DocumentId, RunId
from agent_fabric.domain.memory.documents import Document
from agent_fabric.domain.memory.passages import Passage
from agent_fabric.infrastructure.clock import RandomIds, SystemClock
from agent_fabric.infrastructure.models.embeddings.vectors import pack_vector
from agent_fabric.infrastructure.persistence.postgres.migration import migrate
from agent_fabric.infrastructure.persistence.postgres.upkeep import examine
from agent_fabric.infrastructure.persistence.storage import open_storage
from contract.run_repository_contract import completed, log, run_created
from effort import effort
from integration.persistence.postgres_storage import open_tables
from integration.persistence.test_memory_isolation import Library
from postgres_cluster import Cluster
from services import need

TASKS = (
    "Restore the backup of foo.py:12, then look at größe.txt",
    "北京的天气怎么样",
    "東京タワーの高さ",
    "It's C++ and c# and AI",
    r"a path\with backslashes and 'quotes' & bars | too",
    "서울 날씨",
)
QUERIES = (
    *("backup", "BACK", "ckup", "größe", "grösse", "foo.py", "py:12", "c++", "ai", "c#", "北京", "京", "天气怎么"),
    *("東京タ", "タワ", "it's", r"h\w", "'quotes'", "& bars |", "날씨", "서울", "nothing such", "x", "天气 北京"),
)


@pytest.fixture
async def both(database_url: str, tmp_path: Path) -> AsyncIterator[tuple[Any, Any]]:
    """A storage in a file and one in PostgreSQL, with the same runs."""
    (tmp_path / "here").mkdir()
    here: Any = open_storage(
        tmp_path / "here", clock=SystemClock(), ids=RandomIds(), run_dir=lambda run: str(tmp_path / run)
    )
    there = open_tables(database_url, tmp_path / "there", SystemClock())
    for storage in (here, there):
        for number, task in enumerate(TASKS):
            run = RunId(f"run-{number}")
            await (await storage.runs.create(run, log(run_created(task), completed(run, "Done.")))).release()
    yield here, there
    here.close()
    there.close()


@pytest.mark.proves("AF-147")
async def test_the_same_words_find_the_same_runs(both: tuple[Any, Any]) -> None:
    _, there = both
    for query in QUERIES:
        found = [[record.run_id for record in await each.catalogue.search(query, limit=9)] for each in both]
        assert found[0] == found[1], query
    assert [record.run_id for record in await there.catalogue.search("天气", limit=9)] == ["run-1"]
    plan = "EXPLAIN SELECT rowid FROM run_text WHERE " + there.store.dialect.text_search.in_text("backup").sql
    values = there.store.dialect.text_search.in_text("backup").values

    def explain(connection: Any) -> str:
        connection.execute("BEGIN; SET LOCAL enable_seqscan = off")
        rows = connection.execute(plan, values).fetchall()
        connection.execute("ROLLBACK")
        return " ".join(str(row[0]) for row in rows)

    assert "run_text_grams" in await there.store.read(explain)


NEEDED = "needs pgvector for PostgreSQL; on Debian 13: postgresql-17-pgvector"


def has_vectors(cluster: Cluster, url: str, table: str = "embeddings") -> bool:
    return bool(cluster.execute(f"SELECT to_regclass('{table}') IS NOT NULL", url)[0][0])


@pytest.mark.proves("A33-130", "AF-147")
async def test_vectors_are_compared_by_the_database_as_they_are_here(
    cluster: Cluster, database_url: str, both: tuple[Any, Any]
) -> None:
    need(has_vectors(cluster, database_url), NEEDED)
    _, there = both
    source = random.Random(7)
    vectors = [pack_vector([source.gauss(0, 1) for _ in range(8)]) for _ in TASKS]
    vectors[2] = pack_vector([0.0] * 8)
    for storage in both:
        texts = await storage.vectors.texts(sorted(await storage.vectors.missing("e", dimensions=8)))
        await storage.vectors.keep("e", texts, vectors)
    for words in ("", "backup quotes", "北京", "날씨 AI"):
        question = pack_vector([source.gauss(0, 1) for _ in range(8)])
        mine, its = [await each.vectors.nearest("e", question, words=words, limit=3) for each in both]
        assert [each.record.run_id for each in mine] == [each.record.run_id for each in its]
        assert [each.score for each in mine] == pytest.approx([each.score for each in its], abs=1e-6)
    (count,) = cluster.execute("SELECT count(*) FROM embeddings", database_url)[0]
    assert count == len(TASKS)
    await there.retention.remove(RunId("run-3"), by="test", reason="old")
    (count,) = cluster.execute("SELECT count(*) FROM embeddings", database_url)[0]
    assert count == len(TASKS) - 1
    facts = examine(database_url)
    assert (facts.has_vectors, facts.has_passage_vectors) == (True, True)
    assert facts.pgvector


async def test_a_question_without_spaces_finds_what_shares_two_characters(both: tuple[Any, Any]) -> None:
    for storage in both:
        texts = await storage.vectors.texts(sorted(await storage.vectors.missing("e", dimensions=2)))
        await storage.vectors.keep("e", texts, [pack_vector([1.0, 1.0]) for _ in TASKS])
        found = await storage.vectors.nearest("e", pack_vector([1.0, 1.0]), words="明天北京热吗", limit=1)
        assert [each.record.run_id for each in found] == ["run-1"]


class Fixed:
    """Embedder of one vector."""

    name, dimensions = "e", 8

    def __init__(self, vector: bytes) -> None:
        self._vector = vector

    async def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        return [self._vector for _ in texts]


async def remember(storage: Any, texts: Sequence[str], vectors: Sequence[bytes], *, owners: int = 1) -> None:
    """Make each text a document of its own, with its vector."""
    for at, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
        owner = "local" if owners == 1 else f"user:{at % owners}"
        document = Document(
            document_id=DocumentId(f"{at:016}"), owner=owner, title="", source=f"/{at}", content_hash=""
        )
        passage = Passage(ordinal=0, start=0, end=len(text), text=text)
        await storage.memory.documents.put(document)
        await storage.memory.passages.replace(document, [passage])
        await storage.memory.passages.keep("e", [(passage.hash(""), vector)])


def drop_index(cluster: Cluster, url: str) -> None:
    """Leave a database as it is where pgvector is missing."""
    cluster.execute(
        "DROP FUNCTION index_passage_vectors, index_new_passages CASCADE; DROP TABLE passage_embeddings", url
    )


def compared_here(storage: Any) -> bool:
    """Tell whether this process has compared vectors itself."""
    return storage.memory.passages._candidates._blocks is not None


@pytest.mark.proves("ME-4")
@pytest.mark.parametrize("by_database", [True, False], ids=["pgvector", "without"])
async def test_memory_finds_the_same_passages_in_both_databases(
    cluster: Cluster, database_url: str, both: tuple[Any, Any], by_database: bool
) -> None:
    has_index = has_vectors(cluster, database_url, "passage_embeddings")
    if by_database:
        need(has_index, NEEDED)
    elif has_index:
        drop_index(cluster, database_url)
    source = random.Random(21)
    words = [f"word{number}" for number in range(60)]
    texts = [" ".join(source.choices(words, k=12)) for _ in range(150)]
    vectors = [pack_vector([source.gauss(0, 1) for _ in range(8)]) for _ in texts]
    for storage in both:
        await remember(storage, texts, vectors)
    shared = whole = 0
    for _ in range(20):
        question, embedder = (
            " ".join(source.choices(words, k=4)),
            Fixed(pack_vector([source.gauss(0, 1) for _ in range(8)])),
        )
        found = []
        for storage in both:
            answer = await SearchMemory(storage.memory, storage.clock, embedder)(question, DocumentQuery(), limit=10)
            found.append({each.document.document_id for each in answer.passages})
        assert found[0]
        shared, whole = shared + len(found[0] & found[1]), whole + len(found[0])
    assert shared / whole >= 0.97
    assert compared_here(both[0])
    assert compared_here(both[1]) is not by_database
    if has_index and not by_database:
        migrate(database_url)  # the extension has come: what is there is put into the index
        (count,) = cluster.execute("SELECT count(*) FROM passage_embeddings", database_url)[0]
        assert count == len(texts)


@pytest.mark.proves("ME-4", "ME-5")
async def test_the_database_chooses_the_nearest_passages_of_each_owner_as_a_full_comparison_does(
    cluster: Cluster, database_url: str, both: tuple[Any, Any]
) -> None:
    need(has_vectors(cluster, database_url, "passage_embeddings"), NEEDED)
    source = random.Random(68)
    middles = [[source.gauss(0, 1) for _ in range(64)] for _ in range(12)]

    def near() -> bytes:
        return pack_vector([each + source.gauss(0, 0.6) for each in source.choice(middles)])

    texts = [f"text {number}" for number in range(240)]
    vectors = [near() for _ in texts]
    for storage in both:
        await remember(storage, texts, vectors, owners=8)
    hits = wanted = 0
    for person in [None, *range(8)]:
        viewer = EVERYTHING if person is None else Viewer((f"user:{person}",), sees_all=False)
        asked = PassageQuestion(terms=frozenset(), embedder="e", vector=near(), limit=10)
        exact, found = [
            {each.document_id for each in await storage.memory.passages.candidates(asked, DocumentQuery(viewer=viewer))}
            for storage in both
        ]
        assert len(exact) == len(found) == 10
        hits, wanted = hits + len(exact & found), wanted + len(exact)
    assert hits / wanted >= 0.97, "recall@10"


@pytest.mark.proves("ME-2", "ME-4")
async def test_the_index_of_the_database_follows_every_change(
    cluster: Cluster, database_url: str, tmp_path: Path
) -> None:
    need(has_vectors(cluster, database_url, "passage_embeddings"), NEEDED)
    storage = open_tables(database_url, tmp_path / "there", SystemClock())
    chance = random.Random(5)
    library = Library(storage, chance)
    for _ in range(effort(60, 2_000)):
        if chance.random() < 0.6:
            await library.change()
        else:
            await library.look()
        missing = (
            "SELECT count(*) FROM passages JOIN passage_vectors USING (hash) LEFT JOIN passage_embeddings AS found"
            " ON found.passage = passages.number AND found.embedder = passage_vectors.embedder"
            " AND found.document = passages.document AND found.embedding = passage_embedding(vector)"
            " WHERE found.passage IS NULL"
        )
        assert cluster.execute(missing, database_url) == [(0,)]
        (indexed,), (kept,) = (
            cluster.execute(f"SELECT count(*) FROM {rows}", database_url)[0]
            for rows in ("passage_embeddings", "passages JOIN passage_vectors USING (hash)")
        )
        assert indexed == kept
    # The same text in a second document has its vector at once, also as a process of an older release adds it.
    twin = next(iter(library.known.values()))[0]
    rest = "begins_at, ends_at, headings, text, hash"
    cluster.execute(
        f"INSERT INTO passages (document, ordinal, {rest}) SELECT document, ordinal + 1, {rest}"
        f" FROM passages WHERE document = (SELECT number FROM documents WHERE id = '{twin.document_id}')",
        database_url,
    )
    assert cluster.execute(missing, database_url) == [(0,)]
    for document in list(library.known):
        await storage.memory.documents.remove(document)
    assert cluster.execute("SELECT count(*) FROM passage_embeddings", database_url) == [(0,)]
    storage.close()
