"""Runs and events a page at a time, and where a run stands."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_fabric.application.ports.runs import RunQuery
from agent_fabric.domain.errors import RunNotFound, StoreUnavailable
from agent_fabric.domain.events import RunInterrupted, RunWaited, SpecialistsRecruited, UnknownEvent, problem_of
from agent_fabric.domain.ids import RunId, SpecialistId
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.infrastructure.clock import SystemClock
from agent_fabric.infrastructure.persistence.runs import run_catalogue
from agent_fabric.infrastructure.persistence.runs.event_store import SqlRunRepository
from agent_fabric.infrastructure.persistence.runs.run_catalogue import SqlRunCatalogue
from agent_fabric.infrastructure.persistence.runs.run_queue import SqlRunQueue
from agent_fabric.infrastructure.persistence.runs.run_reader import SqlRunReader, status_of
from agent_fabric.infrastructure.persistence.store import Store
from contract.run_repository_contract import CREATED, NEXT, NOBODY, RUN, completed, log, run_created, workflow_with


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "fabric.db")
    yield store
    store.close()


@pytest.fixture
def runs(store: Store) -> SqlRunRepository:
    return SqlRunRepository(store, SystemClock())


@pytest.fixture
def queue(store: Store) -> SqlRunQueue:
    return SqlRunQueue(store, SystemClock())


@pytest.fixture
def catalogue(store: Store) -> SqlRunCatalogue:
    return SqlRunCatalogue(store)


@pytest.fixture
def reader(store: Store) -> SqlRunReader:
    return SqlRunReader(store)


def recruited(*names: str) -> SpecialistsRecruited:
    ids = tuple(SpecialistId(name) for name in names)
    return SpecialistsRecruited(
        specialist_id=ids[0],
        specialist_ids=ids,
        required_capabilities=(),
        routing_method="explicit",
        is_task_force=len(ids) > 1,
    )


async def settled(runs: SqlRunRepository, name: str, prompt: str, *packs: str) -> None:
    run_id = RunId(name)
    events = log(run_created(prompt), recruited(*(packs or ("engineering",))), completed(run_id))
    await (await runs.create(run_id, events)).release()


async def test_events_come_a_page_at_a_time(runs: SqlRunRepository, reader: SqlRunReader) -> None:
    long_text = log(run_created("x" * 50_000))
    await (await runs.create(RUN, [*long_text, *NEXT])).release()
    everything = [*long_text, *NEXT]
    assert await reader.page(RUN, after=-1, limit=10) == everything
    assert await reader.page(RUN, after=-1, limit=2) == everything[:2]
    assert await reader.page(RUN, after=1, limit=2) == everything[2:]
    assert await reader.page(RUN, after=2, limit=2) == []
    assert await reader.newest(RUN) == everything[-1]


async def test_a_run_that_does_not_exist_has_no_pages(reader: SqlRunReader) -> None:
    for look in (reader.page(NOBODY, after=-1, limit=1), reader.newest(NOBODY), reader.status(NOBODY)):
        with pytest.raises(RunNotFound):
            await look


async def test_events_of_a_newer_program_can_be_read(runs: SqlRunRepository, reader: SqlRunReader) -> None:
    (newer,) = log(UnknownEvent(kind="run_dreamt", payload={"of": "sheep"}), first=1)
    await (await runs.create(RUN, [*CREATED, newer])).release()
    assert (await reader.newest(RUN)).body == newer.body


async def test_a_damaged_row_says_so_to_readers_and_stops_a_driver(
    runs: SqlRunRepository, reader: SqlRunReader, store: Store
) -> None:
    await (await runs.create(RUN, CREATED)).release()
    store.read_now(lambda connection: connection.execute("UPDATE events SET payload = x'7b'"))
    (event,) = await reader.page(RUN, after=-1, limit=1)
    assert "event 0 cannot be read" in problem_of(event)
    with pytest.raises(StoreUnavailable, match="damaged"):
        await runs.take(RUN)


@pytest.mark.proves("AF-036", "C31")
async def test_the_status_tells_a_living_run_from_a_dead_one(
    runs: SqlRunRepository, reader: SqlRunReader, store: Store
) -> None:
    held = await runs.create(RUN, CREATED)
    assert await reader.status(RUN) is RunStatus.RUNNING
    store.locks.release(1)  # as the kernel does at kill -9
    assert await reader.status(RUN) is RunStatus.INTERRUPTED
    assert store.locks.acquire(1)
    await held.append(log(completed(RUN), first=1))
    assert await reader.status(RUN) is RunStatus.COMPLETED
    await held.release()
    store.read_now(lambda connection: connection.execute("UPDATE runs SET status = 'dreaming'"))
    assert await reader.status(RUN) is RunStatus.WAITING, "a newer program's: not settled, and not for us"


async def test_a_run_that_ends_while_one_looks_is_not_taken_for_a_dead_one(
    runs: SqlRunRepository, store: Store
) -> None:
    await (await runs.create(RUN, CREATED)).release()

    class Leases:
        def is_abandoned(self, _connection: object, number: int) -> bool:
            # The driver ends the run and lets go just between our look at the table and our look at the lock.
            change = "UPDATE runs SET status = 'completed' WHERE number = ?"
            store.read_now(lambda connection: connection.execute(change, (number,)))
            return True

    assert store.read_now(lambda db: status_of(db, Leases(), 1)) is RunStatus.COMPLETED  # type: ignore[arg-type]  # as much as is used


async def test_the_unfinished_are_those_that_nobody_drives_and_nobody_stopped(
    runs: SqlRunRepository, queue: SqlRunQueue
) -> None:
    living = await runs.create(RunId("living"), CREATED)
    for name in ("killed", "another"):
        await (await runs.create(RunId(name), CREATED)).release()
    stopped = await runs.create(RunId("stopped"), [*CREATED, *log(RunInterrupted(reason="Ctrl-C"), first=1)])
    await stopped.release()
    await settled(runs, "done", "a task")
    assert await queue.list_unfinished() == ["killed", "another"]
    await living.release()


async def test_whoever_goes_on_with_a_workflow_goes_on_with_what_works_for_it(
    runs: SqlRunRepository, catalogue: SqlRunCatalogue, queue: SqlRunQueue
) -> None:
    held, (child,) = await workflow_with(runs, "a")
    await held.release()
    assert await queue.list_unfinished() == [RUN]
    assert await catalogue.newest() == RUN, "a person never started the other one"
    held, _, _ = await runs.take(RUN)
    assert await queue.list_unfinished() == [child], "somebody else drives the workflow, but not this one"
    await held.append(log(RunWaited(reason="waits for another run"), first=2))
    await held.release()
    assert await queue.list_unfinished() == [child]


async def test_pages_of_runs_follow_one_another_without_a_gap(
    runs: SqlRunRepository, catalogue: SqlRunCatalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(25):
        await settled(runs, f"run-{number:02}", "odd task" if number % 2 else "even task")

    async def pages(wanted: RunQuery) -> list[list[str]]:
        found: list[list[str]] = []
        while True:
            page = await catalogue.page(wanted)
            found.append([record.run_id for record in page.records])
            if page.older_than is None:
                return found
            wanted = RunQuery(words=wanted.words, limit=wanted.limit, older_than=page.older_than)

    newest_first = [f"run-{number:02}" for number in reversed(range(25))]
    assert await pages(RunQuery(limit=25)) == [newest_first]
    assert await pages(RunQuery(limit=10)) == [newest_first[:10], newest_first[10:20], newest_first[20:]]
    assert [run for page in await pages(RunQuery(limit=4, words="even")) for run in page] == newest_first[::2]
    monkeypatch.setattr(run_catalogue, "AT_ONCE", 3)
    monkeypatch.setattr(run_catalogue, "MAX_LOOKED_AT", 6)
    sparse = await pages(RunQuery(limit=4, words="even"))
    assert [run for page in sparse for run in page] == newest_first[::2]
    assert max(len(page) for page in sparse) <= 4
    nowhere = RunQuery(specialist_id="nobody", limit=4)
    assert await catalogue.page(nowhere) == ([], 20), "a short page is not the last"
    assert await catalogue.page(RunQuery(words="nowhere", limit=4)) == ([], None), "the index knows"


async def test_runs_are_filtered_by_status_specialist_and_time(
    runs: SqlRunRepository, catalogue: SqlRunCatalogue, store: Store
) -> None:
    await settled(runs, "alone", "one", "engineering")
    await settled(runs, "both", "two", "research", "engineering")
    living = await runs.create(RunId("living"), CREATED)
    await (await runs.create(RunId("dead"), CREATED)).release()

    async def found(**wanted: object) -> list[str]:
        return [record.run_id for record in (await catalogue.page(RunQuery(**wanted))).records]  # type: ignore[arg-type]

    assert await found(status=RunStatus.COMPLETED) == ["both", "alone"]
    assert await found(status=RunStatus.RUNNING) == ["living"]
    assert await found(status=RunStatus.INTERRUPTED) == ["dead"]
    assert await found(status=RunStatus.FAILED) == []
    assert await found(specialist_id="engineering") == ["both", "alone"]
    assert await found(specialist_id="research") == ["both"]
    store.read_now(lambda db: db.execute("UPDATE runs SET created_at = number * 10.5"))
    assert await found(since=21.0) == ["dead", "living", "both"]
    assert await found(until=21.0) == ["alone"]
    assert await found(since=21.0, until=31.5) == ["both"]
    await living.release()


async def test_an_id_that_others_begin_with_is_found(runs: SqlRunRepository, catalogue: SqlRunCatalogue) -> None:
    for name in ("run-1", "run-10", "run-11"):
        await (await runs.create(RunId(name), CREATED)).release()
    assert await catalogue.find("run-1") == "run-1"
