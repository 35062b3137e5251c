"""Search by words uses an index that every search brings up to date."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.application.ports.runs import RunQuery
from agent_fabric.domain.audit_key import UNKEYED
from agent_fabric.domain.events import Event, RunFailed
from agent_fabric.domain.ids import RunId
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence import run_text_index
from agent_fabric.infrastructure.persistence.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.event_store import SqliteRunRepository
from agent_fabric.infrastructure.persistence.retention import SqlRetentionStore
from agent_fabric.infrastructure.persistence.run_catalogue import SqlRunCatalogue
from agent_fabric.infrastructure.persistence.store import Store
from contract.run_repository_contract import completed, log, run_created


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "fabric.db")
    yield store
    store.close()


@pytest.fixture
def runs(store: Store) -> SqliteRunRepository:
    return SqliteRunRepository(store, SystemClock())


@pytest.fixture
def catalogue(store: Store) -> SqlRunCatalogue:
    return SqlRunCatalogue(store)


async def run(runs: SqliteRunRepository, name: str, prompt: str, summary: str = "") -> None:
    events = log(run_created(prompt), *([completed(RunId(name), summary)] if summary else []))
    await (await runs.create(RunId(name), events)).release()


async def found(catalogue: SqlRunCatalogue, query: str, limit: int = 10) -> list[str]:
    return [record.run_id for record in await catalogue.search(query, limit=limit)]


async def paged(catalogue: SqlRunCatalogue, words: str) -> list[str]:
    return [record.run_id for record in (await catalogue.page(RunQuery(words=words))).records]


@pytest.mark.parametrize(
    "query",
    ["backup", "BACK", "ckup", "größe", "grösse", "foo.py", "py:12", '"quoted"', "c++", "ai", "AI", "c#", "京", "北京"],
)
async def test_words_are_found_inside_words_and_short_ones_as_words(
    runs: SqliteRunRepository, catalogue: SqlRunCatalogue, query: str
) -> None:
    await run(runs, "other", "something else entirely, said in other words")
    text = 'The Backup of GRÖSSE and größe in foo.py:12 was "quoted" with C++ (AI) or c# in 我爱北京天安门'
    await run(runs, "wanted", text)
    assert await found(catalogue, query) == ["wanted"]
    assert await paged(catalogue, query) == ["wanted"]


@pytest.mark.parametrize("query", ["", "   ", "xyzzy", "ba", "\0", '"', "NOT", "a* OR b", "text:x", "\ud800xx"])
async def test_what_is_not_there_is_not_found_whatever_it_looks_like(
    runs: SqliteRunRepository, catalogue: SqlRunCatalogue, query: str
) -> None:
    await run(runs, "one", "The backup is slow")
    assert await found(catalogue, query) == []


async def test_most_words_come_first_and_newer_runs_before_older_ones(
    runs: SqliteRunRepository, catalogue: SqlRunCatalogue
) -> None:
    await run(runs, "both", "slow backup")
    await run(runs, "old", "a backup")
    await run(runs, "split", "slow", "the backup is done")
    await run(runs, "new", "backup backup backup")
    assert await found(catalogue, "backup slow") == ["split", "both", "new", "old"]
    assert await found(catalogue, "backup slow", limit=1) == ["split"]
    assert await paged(catalogue, "backup slow") == ["split", "both"]


async def test_what_is_appended_later_is_found_by_the_next_search(
    runs: SqliteRunRepository, catalogue: SqlRunCatalogue
) -> None:
    held = await runs.create(RunId("one"), log(run_created("look at it")))
    assert await found(catalogue, "look") == ["one"]
    assert await found(catalogue, "disaster") == []
    failed = RunFailed(code="x", message="a disaster", hint="")
    await held.append([Event(1, 2.0, None, "", failed)])
    await held.release()
    assert await found(catalogue, "disaster look") == ["one"]


async def test_runs_that_were_there_before_the_index_are_indexed_in_batches(
    runs: SqliteRunRepository, catalogue: SqlRunCatalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_text_index, "_MAX_TEXTS", 3)
    monkeypatch.setattr(run_text_index, "_MAX_EVENTS", 7)
    for number in range(20):
        await run(runs, f"run-{number}", f"task number {number:03}", "done")
    assert len(await found(catalogue, "task", limit=50)) == 20
    assert await found(catalogue, "017") == ["run-17"]


async def test_only_new_events_are_looked_through(
    runs: SqliteRunRepository, catalogue: SqlRunCatalogue, store: Store
) -> None:
    await run(runs, "one", "first thing", "done")
    await catalogue.update_index()
    assert store.read_now(lambda connection: connection.execute("SELECT position FROM run_text_progress").get) == 2
    assert store.read_now(run_text_index._next_batch) == (2, 2, [], False)


async def test_a_run_that_is_removed_is_not_found_any_more(
    runs: SqliteRunRepository, catalogue: SqlRunCatalogue, store: Store, tmp_path: Path
) -> None:
    await run(runs, "one", "first thing", "done")
    assert await found(catalogue, "thing") == ["one"]
    retention = SqlRetentionStore(store, lambda run_id: str(tmp_path / run_id), SystemClock(), ChainWriter(UNKEYED))
    await retention.remove(RunId("one"), by="a test", reason="old")
    assert await found(catalogue, "thing") == []
    left = "SELECT count(*) FROM run_text WHERE run_text MATCH 'text : \"thing\"'"
    assert store.read_now(lambda connection: connection.execute(left).get) == 0


async def test_a_damaged_run_does_not_keep_others_from_being_found(
    runs: SqliteRunRepository, catalogue: SqlRunCatalogue, store: Store
) -> None:
    await run(runs, "one", "first thing", "done")
    await run(runs, "two", "second thing", "done")
    damage = "UPDATE events SET payload = x'7b' WHERE run = 1 AND seq = 1"
    await store.writer.write(lambda connection: connection.execute(damage))
    assert await found(catalogue, "second") == ["two"]


async def test_a_long_task_is_indexed_up_to_a_limit(runs: SqliteRunRepository, catalogue: SqlRunCatalogue) -> None:
    filler = "x" * run_text_index.MAX_CHARS
    created = replace(run_created(), prompt=f"beginning {filler} end")
    await (await runs.create(RunId("one"), log(created))).release()
    assert await found(catalogue, "beginning") == ["one"]
    assert await found(catalogue, "end") == []
