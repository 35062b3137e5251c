"""Search by words uses an index that every search brings up to date."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.ports.runs import RunQuery
from agent_fabric.domain.audit.key import UNKEYED
from agent_fabric.domain.events import Body, Event, ModelAnswered, RunFailed, ToolCalled, ToolReturned
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.models.messages import Usage
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence.audit.chain_writer import ChainWriter
from agent_fabric.infrastructure.persistence.dialects import SQLITE
from agent_fabric.infrastructure.persistence.runs import (
    index_batches,
    run_catalogue,
    run_text_index,
)
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.runs.retention import SqlRetentionStore
from agent_fabric.infrastructure.persistence.runs.run_catalogue import SqlRunCatalogue
from agent_fabric.infrastructure.persistence.store import Store
from contract.run_repository_contract import completed, log, run_created


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "fabric.db")
    yield store
    store.close()


@pytest.fixture
def runs(store: Store) -> SqlRunRepository:
    return SqlRunRepository(store, SystemClock())


@pytest.fixture
def catalogue(store: Store) -> SqlRunCatalogue:
    return SqlRunCatalogue(store)


async def run(runs: SqlRunRepository, name: str, prompt: str, summary: str = "") -> None:
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
    runs: SqlRunRepository, catalogue: SqlRunCatalogue, query: str
) -> None:
    await run(runs, "other", "something else entirely, said in other words")
    text = 'The Backup of GRÖSSE and größe in foo.py:12 was "quoted" with C++ (AI) or c# in 我爱北京天安门'
    await run(runs, "wanted", text)
    assert await found(catalogue, query) == ["wanted"]
    assert await paged(catalogue, query) == ["wanted"]


@pytest.mark.parametrize("query", ["", "   ", "xyzzy", "ba", "\0", '"', "NOT", "a* OR b", "text:x", "\ud800xx"])
async def test_what_is_not_there_is_not_found_whatever_it_looks_like(
    runs: SqlRunRepository, catalogue: SqlRunCatalogue, query: str
) -> None:
    await run(runs, "one", "The backup is slow")
    assert await found(catalogue, query) == []


async def test_most_words_come_first_and_newer_runs_before_older_ones(
    runs: SqlRunRepository, catalogue: SqlRunCatalogue
) -> None:
    await run(runs, "both", "slow backup")
    await run(runs, "old", "a backup")
    await run(runs, "split", "slow", "the backup is done")
    await run(runs, "new", "backup backup backup")
    assert await found(catalogue, "backup slow") == ["split", "both", "new", "old"]
    assert await found(catalogue, "backup slow", limit=1) == ["split"]
    assert await paged(catalogue, "backup slow") == ["split", "both"]


async def test_what_is_appended_later_is_found_by_the_next_search(
    runs: SqlRunRepository, catalogue: SqlRunCatalogue
) -> None:
    held = await runs.create(RunId("one"), log(run_created("look at it")))
    assert await found(catalogue, "look") == ["one"]
    assert await found(catalogue, "disaster") == []
    failed = RunFailed(code="x", message="a disaster", hint="")
    await held.append([Event(1, 2.0, None, "", failed)])
    await held.release()
    assert await found(catalogue, "disaster look") == ["one"]


async def test_runs_that_were_there_before_the_index_are_indexed_in_batches(
    runs: SqlRunRepository, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_text_index, "_INDEX", replace(run_text_index._INDEX, max_texts=3))
    monkeypatch.setattr(index_batches, "_MAX_EVENTS", 7)
    catalogue = SqlRunCatalogue(store)
    for number in range(20):
        await run(runs, f"run-{number}", f"task number {number:03}", "done")
    assert len(await found(catalogue, "task", limit=50)) == 20
    assert await found(catalogue, "017") == ["run-17"]


async def test_only_new_events_are_looked_through(
    runs: SqlRunRepository, catalogue: SqlRunCatalogue, store: Store
) -> None:
    await run(runs, "one", "first thing", "done")
    await catalogue.update_index()
    assert store.read_now(lambda connection: connection.execute("SELECT position FROM run_text_progress").get) == 2
    assert store.read_now(lambda it: run_text_index._INDEX._next_batch(it, SQLITE)) == (2, 2, [], False)


async def test_a_run_that_is_removed_is_not_found_any_more(
    runs: SqlRunRepository, catalogue: SqlRunCatalogue, store: Store, tmp_path: Path
) -> None:
    await run(runs, "one", "first thing", "done")
    assert await found(catalogue, "thing") == ["one"]
    retention = SqlRetentionStore(store, lambda run_id: str(tmp_path / run_id), SystemClock(), ChainWriter(UNKEYED))
    await retention.remove(RunId("one"), by="a test", reason="old")
    assert await found(catalogue, "thing") == []
    left = "SELECT count(*) FROM run_text WHERE run_text MATCH 'text : \"thing\"'"
    assert store.read_now(lambda connection: connection.execute(left).get) == 0


async def test_a_damaged_run_does_not_keep_others_from_being_found(
    runs: SqlRunRepository, catalogue: SqlRunCatalogue, store: Store
) -> None:
    await run(runs, "one", "first thing", "done")
    await run(runs, "two", "second thing", "done")
    damage = "UPDATE events SET payload = x'7b' WHERE run = 1 AND seq = 1"
    await store.writer.write(lambda connection: connection.execute(damage))
    assert await found(catalogue, "second") == ["two"]


async def test_a_long_task_is_indexed_up_to_a_limit(runs: SqlRunRepository, catalogue: SqlRunCatalogue) -> None:
    filler = "x" * run_text_index.MAX_CHARS
    created = replace(run_created(), prompt=f"beginning {filler} end")
    await (await runs.create(RunId("one"), log(created))).release()
    assert await found(catalogue, "beginning") == ["one"]
    assert await found(catalogue, "end") == []


async def active(runs: SqlRunRepository, name: str, *bodies: Body, prompt: str = "do it", owner: str = "") -> None:
    created = replace(run_created(prompt), owner=owner)
    await (await runs.create(RunId(name), log(created, *bodies, completed(RunId(name))))).release()


def said(text: str) -> ModelAnswered:
    usage = Usage(1, 1)
    return ModelAnswered(content=text, tool_calls=(), usage=usage, model="m", finish_reason="stop", duration_s=1.0)


@pytest.mark.parametrize(
    "query",
    [
        "pytest",
        "src/calc.py",
        "calc.py",
        "calc",
        "--maxfail=3",
        '"pytest -q"',
        "refused",
        "add_numbers",
        "北京",
        "naïve",
    ],
)
async def test_what_a_run_did_and_said_is_found(runs: SqlRunRepository, catalogue: SqlRunCatalogue, query: str) -> None:
    call = CallId("1")
    args = {"command": "pytest -q src/calc.py --maxfail=3", "more": {"names": ["add_numbers"]}}
    await active(runs, "other", said("Something else."))
    await active(
        runs,
        "wanted",
        said("I try the naïve way; 我爱北京天安门"),
        ToolCalled(tool="shell", args=args, call_id=call),
        ToolReturned(tool="shell", result={"stdout": "connection refused", "exit_code": 1}, call_id=call),
    )
    assert await found(catalogue, query) == ["wanted"]


@pytest.mark.proves("DU-10")
@pytest.mark.parametrize(
    ("query", "matched"),
    [
        ("backup", "move the Backup of Monday"),
        ("acku", "move the Backup of Monday"),
        ("monday nothing", "move the Backup of Monday"),
        ("refused", "Connection refused by db1"),
        ('"connection refused"', "Connection refused by db1"),
        ("naive", "I try the naïve way"),
        ("print(41", "shell print ( 41 )"),
        ("otters", "… number 90 word number 91 word number 92 some Otters"),
    ],
)
async def test_a_search_shows_where_it_found_a_run(
    runs: SqlRunRepository, catalogue: SqlRunCatalogue, query: str, matched: str
) -> None:
    call = CallId("1")
    long = " ".join(f"word number {number}" for number in range(93))
    await active(
        runs,
        "wanted",
        said("I try the naïve way"),
        ToolCalled(tool="shell", args={"command": "print ( 41 )"}, call_id=call),
        ToolReturned(tool="shell", result={"stdout": "Connection\nrefused  by db1"}, call_id=call),
        said(f"{long} some Otters {long}"),
        prompt="move the\nBackup of Monday",
    )
    (record,) = await catalogue.search(query, limit=9)
    assert record.matched.startswith(matched)
    assert len(record.matched) < 170


async def test_a_phrase_is_found_as_it_stands(runs: SqlRunRepository, catalogue: SqlRunCatalogue) -> None:
    await run(runs, "task", "move the big red box")
    await run(runs, "apart", "a red and big box")
    await active(runs, "said", said("There is the big\nred box."))
    await active(runs, "never", said("big boxes that are red"))
    assert await found(catalogue, '"big red"') == ["task", "said"]
    assert set(await found(catalogue, "big red")) == {"task", "apart", "said", "never"}


async def test_words_of_the_task_come_before_words_of_what_was_done(
    runs: SqlRunRepository, catalogue: SqlRunCatalogue
) -> None:
    await run(runs, "task", "the backup")
    await active(runs, "newer", said("the backup"))
    assert await found(catalogue, "backup") == ["task", "newer"]


async def test_searches_filter_by_owner_status_and_time(runs: SqlRunRepository, catalogue: SqlRunCatalogue) -> None:
    await active(runs, "ada", said("otters"), owner="user:ada")
    await active(runs, "ci", said("otters"), owner="key:ci")
    held = await runs.create(RunId("open"), log(run_created("otters")))

    async def only(**filters: Any) -> list[str]:
        return [each.run_id for each in await catalogue.search("otters", limit=9, only=RunQuery(**filters))]

    assert await only(owner="ada") == ["ada"]
    assert await only(owner="key:ci") == ["ci"]
    assert await only(owner="local") == ["open"]
    assert await only(owner="nobody") == []
    assert await only(status=RunStatus.COMPLETED) == ["ci", "ada"]
    assert await only(status=RunStatus.RUNNING) == ["open"]
    assert await only(since=1_000.6) == []
    assert await only(until=1_000.6) == ["open", "ci", "ada"]
    await held.release()


async def test_activity_is_indexed_in_batches_and_found_while_older_runs_are_still_indexed(
    runs: SqlRunRepository, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_text_index, "_ACTIVITY_INDEX", replace(run_text_index._ACTIVITY_INDEX, max_texts=3))
    monkeypatch.setattr(index_batches, "_MAX_EVENTS", 7)
    monkeypatch.setattr(run_catalogue, "INDEX_PATIENCE_S", 0.0)
    catalogue = SqlRunCatalogue(store)
    for number in range(20):
        await active(runs, f"run-{number}", said(f"word{number:03}"))
    assert await catalogue.count_unindexed() == 60
    await found(catalogue, "word017")  # does not wait
    await catalogue.update_index()
    assert await catalogue.count_unindexed() == 0
    assert await found(catalogue, "word017") == ["run-17"]
    assert store.read_now(lambda it: run_text_index._ACTIVITY_INDEX._next_batch(it, SQLITE)) == (60, 60, [], False)


async def test_a_search_does_not_wait_for_an_index_that_lacks_many_events(
    runs: SqlRunRepository, catalogue: SqlRunCatalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    await active(runs, "early", said("otters"))
    assert await found(catalogue, "otters") == ["early"]
    monkeypatch.setattr(run_catalogue, "FEW_EVENTS", 2)
    await active(runs, "late", said("otters"))
    with monkeypatch.context() as slow:
        going_on = asyncio.Event()
        catch_up = index_batches.KeptIndex._catch_up

        async def catch_up_later(index: index_batches.KeptIndex) -> None:
            await going_on.wait()
            await catch_up(index)

        slow.setattr(index_batches.KeptIndex, "_catch_up", catch_up_later)
        assert await found(catalogue, "otters") == ["early"]
        going_on.set()
    await catalogue.update_index()  # which the search has begun
    assert await found(catalogue, "otters") == ["late", "early"]


async def test_what_has_no_place_in_the_index_hides_nothing_behind_it(
    runs: SqlRunRepository, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    row_of = run_text_index._ACTIVITY_INDEX.row_of
    without_long = replace(
        run_text_index._ACTIVITY_INDEX,
        max_texts=3,
        row_of=lambda run, seq, kind: row_of(run, seq, kind) if seq < 2 else None,
    )
    monkeypatch.setattr(run_text_index, "_ACTIVITY_INDEX", without_long)
    catalogue = SqlRunCatalogue(store)
    await active(runs, "long", *(said(f"word{number}") for number in range(9)))
    await active(runs, "next", said("otters"))
    assert await found(catalogue, "otters") == ["next"]
    assert await found(catalogue, "word7") == []


async def test_what_a_removed_run_did_is_not_found_any_more(
    runs: SqlRunRepository, catalogue: SqlRunCatalogue, store: Store, tmp_path: Path
) -> None:
    await active(runs, "one", said("otters"))
    assert await found(catalogue, "otters") == ["one"]
    retention = SqlRetentionStore(store, lambda run_id: str(tmp_path / run_id), SystemClock(), ChainWriter(UNKEYED))
    await retention.remove(RunId("one"), by="a test", reason="old")
    left = "SELECT count(*) FROM run_activity WHERE run_activity MATCH 'otters'"
    assert store.read_now(lambda connection: connection.execute(left).get) == 0


async def test_a_long_result_is_indexed_up_to_a_limit(runs: SqlRunRepository, catalogue: SqlRunCatalogue) -> None:
    await active(runs, "one", said("begin " + "x " * run_text_index.MAX_EVENT_CHARS + "finale"))
    assert await found(catalogue, "begin") == ["one"]
    assert await found(catalogue, "finale") == []
