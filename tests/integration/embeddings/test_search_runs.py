"""Search by meaning over the real store."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

import pytest

from agent_fabric.application.ports.embeddings import Vector
from agent_fabric.application.runs.search_runs import AT_ONCE, SearchRuns
from agent_fabric.domain.errors import ModelBusy
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.models.embeddings.vectors import pack_vector, similarities
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.runs.run_catalogue import SqlRunCatalogue
from agent_fabric.infrastructure.persistence.runs.run_vectors import SqlRunVectors
from agent_fabric.infrastructure.persistence.store import Store
from contract.run_repository_contract import completed, log, run_created
from integration.embeddings.embedding_server import letters


class Letters:
    """Embedder that counts letters, and counts what it was asked."""

    def __init__(self, name: str = "letters", *, dimensions: int = 27, fails_after: int | None = None) -> None:
        self.name = name
        self.dimensions = dimensions
        self.read: list[str] = []
        self._fails_after = fails_after

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        if self._fails_after is not None and len(self.read) >= self._fails_after:
            raise ModelBusy("no more")
        self.read += texts
        await asyncio.sleep(0)
        return [pack_vector(letters(text)[-self.dimensions :]) for text in texts]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "fabric.db")
    yield store
    store.close()


async def add(store: Store, *prompts: str, settled: bool = True) -> list[RunId]:
    runs = SqlRunRepository(store, SystemClock())
    added = []
    for prompt in prompts:
        run_id = RunId(str(uuid5(NAMESPACE_OID, prompt)))
        events = log(run_created(prompt), completed(run_id)) if settled else log(run_created(prompt))
        await (await runs.create(run_id, events)).release()
        added.append(run_id)
    return added


def searching(store: Store, embedder: Letters) -> SearchRuns:
    return SearchRuns(embedder, SqlRunVectors(store, SqlRunCatalogue(store)))


@pytest.mark.proves("AF-147")
async def test_the_nearest_run_comes_first_with_a_score_and_unsettled_ones_do_not_come(store: Store) -> None:
    jazz, _ = await add(store, "jazz quiz buzz", "seventeen trees")
    await add(store, "jazz quiz buzz, not over yet", settled=False)
    answer = await searching(store, Letters())("zzz qqq jj", limit=5)
    assert [each.record.prompt for each in answer.runs] == ["jazz quiz buzz", "seventeen trees"]
    assert answer.runs[0].record.run_id == jazz
    assert 1 >= answer.runs[0].score > answer.runs[1].score
    assert answer.unread == 0


async def test_a_run_is_read_once_and_new_ones_when_they_have_settled(store: Store) -> None:
    embedder = Letters()
    await add(store, "one", "two")
    for _ in range(2):
        await searching(store, embedder)("o", limit=1)
    assert sorted(text.split("\n")[0] for text in embedder.read if text != "o") == ["one", "two"]
    await add(store, "three")
    await searching(store, embedder)("o", limit=1)
    assert embedder.read[-1].startswith("three")


async def test_another_model_reads_everything_again_and_so_does_one_that_changed_its_size(store: Store) -> None:
    await add(store, "one", "two")
    await searching(store, Letters("first"))("o", limit=9)
    for embedder in (Letters("second"), Letters("first", dimensions=20)):
        assert len((await searching(store, embedder)("o", limit=9)).runs) == 2
        assert len(embedder.read) == 3


async def test_shared_words_decide_between_equals(store: Store) -> None:
    await add(store, "listen to it", "silent to it")  # the same letters
    for words in ("listen", "silent"):
        found = (await searching(store, Letters())(words, limit=2)).runs
        assert found[0].record.prompt.startswith(words)


@pytest.mark.parametrize("question", ["", "   \n\t", "\x00"], ids=repr)
async def test_a_blank_question_finds_nothing_and_asks_nobody(store: Store, question: str) -> None:
    await add(store, "one")
    embedder = Letters()
    answer = await searching(store, embedder)(question.strip("\x00"), limit=5)
    assert answer.runs == []
    assert embedder.read == []


@pytest.mark.parametrize(
    "question",
    ["x" * 3_000_000, 'AND OR "NOT" NEAR( * : ^ -', "half \ud800 a character", "'; DROP TABLE runs; --", "\x00"],
)
async def test_a_hostile_question_is_just_a_question(store: Store, question: str) -> None:
    await add(store, "one")
    embedder = Letters()
    answer = await searching(store, embedder)(question, limit=5)
    assert len(answer.runs) == 1
    assert len(embedder.read[0]) <= 2_000


async def test_what_was_read_before_a_failure_is_kept(store: Store) -> None:
    await add(store, *(f"task {number}" for number in range(AT_ONCE + 5)))
    with pytest.raises(ModelBusy):
        await searching(store, Letters(fails_after=AT_ONCE))("x", limit=1)
    embedder = Letters()
    await searching(store, embedder)("x", limit=1)
    assert len(embedder.read) == 1 + 5


async def test_a_caller_in_a_hurry_reads_a_few_and_is_told_how_many_are_left(store: Store) -> None:
    await add(store, *(f"task {number}" for number in range(5)))
    search = searching(store, Letters())
    told: list[tuple[int, int]] = []
    first = await search("x", limit=9, most_read=3, on_progress=lambda done, total: told.append((done, total)))
    assert (len(first.runs), first.unread) == (3, 2)
    assert told == [(0, 3), (3, 3)]
    assert (await search("x", limit=9, most_read=3)).unread == 0


async def test_two_questions_at_once_read_nothing_twice(store: Store) -> None:
    await add(store, *(f"task {number}" for number in range(10)))
    embedder = Letters()
    search = searching(store, embedder)
    await asyncio.gather(search("x", limit=1), search("y", limit=1))
    assert len(embedder.read) == 2 + 10


async def test_processes_that_read_the_same_runs_at_once_do_not_disturb_each_other(store: Store) -> None:
    await add(store, *(f"task {number}" for number in range(70)))
    others = [Store(store.path) for _ in range(3)]
    answers = await asyncio.gather(*(searching(each, Letters())("x", limit=100) for each in (store, *others)))
    assert {len(answer.runs) for answer in answers} == {70}
    for other in others:
        other.close()


@pytest.mark.parametrize("with_numpy", [True, False])
def test_arithmetic_is_the_same_with_and_without_numpy(with_numpy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not with_numpy:
        monkeypatch.setitem(sys.modules, "numpy", None)  # as if it were not installed
    vectors = [pack_vector([3, 4]), pack_vector([-4, 3]), pack_vector([0, 0]), pack_vector([float("nan"), 1])]
    assert similarities(vectors, pack_vector([3, 4])) == pytest.approx([1, 0, 0, 0], abs=1e-6)
    assert similarities([], pack_vector([3, 4])) == []
