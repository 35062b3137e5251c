"""Runs through the typed client, against a real server."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.client import Delta, FabricClient, TaskRequest
from agent_fabric.domain.errors import ConfigError, ModelUnreachable, RecruitError, RunNotFound, Unauthenticated
from agent_fabric.domain.events import Event, RunCreated, ToolErred
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.state import result_of
from agent_fabric.domain.runs.task import RunResult, RunStatus
from agent_fabric.interfaces.cli.place_remote import ServerRuns
from agent_fabric.testing.scripted_model import Call, Calls, Finish, Slow
from integration.embeddings.embedding_server import MODEL, embedding_server
from integration.http.served import DONE, LOOK, SCRIPT, Served, served

pytestmark = pytest.mark.proves("C15")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    says = (Slow(Calls((LOOK,), text="I look around before I do anything else. " * 5), 0.3), DONE)
    async with served(tmp_path, replace(SCRIPT, named={**SCRIPT.named, "says": says})) as server:
        yield server


@pytest.fixture
async def client(server: Served) -> AsyncIterator[FabricClient]:
    async with FabricClient(f"http://127.0.0.1:{server.port}", token=server.token) as client:
        yield client


async def test_a_task_gives_the_result_that_this_machine_would_give(server: Served, client: FabricClient) -> None:
    result = await client.run("do it", pack="engineering")
    events = await server.fabric.records.runs.read(result.run_id)
    here = result_of(fold(result.run_id, events))
    assert result == here
    assert result.status is RunStatus.COMPLETED
    assert result.payload["summary"] == "all done"


async def test_events_are_those_of_the_store_however_long_their_texts(server: Served, client: FabricClient) -> None:
    long = "long " * 20_000
    result = await client.run(f"do it {long}", pack="engineering")
    stored = list(await server.fabric.records.runs.read(result.run_id))
    assert await client.runs.events(result.run_id) == stored
    followed = [each async for each in client.runs.follow(result.run_id)]
    assert followed == [*stored, result]
    assert await client.runs.events(result.run_id, after=3) == stored[4:]


async def test_a_stream_gives_every_event_as_it_happens_and_the_result_last(client: FabricClient) -> None:
    seen = [each async for each in client.stream("do it [[script=says]]", pack="engineering", deltas=True)]
    events = [each for each in seen if isinstance(each, Event)]
    assert [event.seq for event in events] == list(range(len(events)))
    assert isinstance(seen[-1], RunResult)
    assert seen[-1].status is RunStatus.COMPLETED
    assert sum(isinstance(each, RunResult) for each in seen) == 1
    assert any(isinstance(each, Delta) for each in seen)


async def test_runs_are_listed_found_and_shown(client: FabricClient) -> None:
    results = [await client.run(f"task number {number}", pack="engineering") for number in range(3)]
    listed = await client.runs.list(limit=2)
    assert [record.run_id for record in listed] == [results[2].run_id, results[1].run_id]
    assert await client.runs.newest() == results[2].run_id
    assert [found.run_id for found in await client.runs.search("number 1", limit=1)] == [results[1].run_id]
    details = await client.runs.show(results[0].run_id[:8])
    assert details.result == results[0]
    assert details.prompt == "task number 0"
    assert details.events == len(await client.runs.events(results[0].run_id))
    assert await client.runs.find(results[0].run_id[:13]) == results[0].run_id


async def test_a_run_is_cancelled_and_then_stays_as_it_is(client: FabricClient) -> None:
    started = await client.runs.start(_wish("do it [[script=hang]]"))
    cancelled = await client.runs.cancel(started, reason="enough")
    assert cancelled.status is RunStatus.CANCELLED
    assert (await client.runs.cancel(started)).status is RunStatus.CANCELLED
    assert (await client.runs.resume(started)).status is RunStatus.CANCELLED


async def test_what_the_server_refuses_is_the_error_of_this_machine(client: FabricClient) -> None:
    with pytest.raises(RunNotFound, match="There is no run 'nothing'") as missing:
        await client.runs.show("nothing")
    assert missing.value.hint == "See all runs with `fabric logs list`."
    with pytest.raises(RecruitError):
        await client.run("do it", pack="no-such-pack")
    with pytest.raises(ConfigError, match="There is no model"):
        await client.run("do it", model_key="no-such-model")
    for hostile in ("", ".", "..", "../health", "a/b", "%2e", "ü", "a" * 3_000):
        with pytest.raises(RunNotFound):
            await client.runs.show(hostile)


async def test_whoever_is_not_known_is_told_what_to_show(server: Served) -> None:
    async with FabricClient(f"http://127.0.0.1:{server.port}", token="wrong") as client:
        assert (await client.health()).ok
        with pytest.raises(Unauthenticated) as refused:
            await client.runs.list()
    assert "FABRIC_TOKEN" in refused.value.hint
    assert "wrong" not in refused.value.hint


async def test_health_says_how_the_server_is(client: FabricClient) -> None:
    health = await client.health()
    assert health.ok
    assert health.running == health.queued == 0


async def test_files_are_compared_and_taken_back_byte_by_byte(server: Served, client: FabricClient) -> None:
    result = await client.run("do it [[script=long]]", pack="engineering")
    found, compared = await client.runs.diff(result.run_id)
    assert found.run_id == result.run_id
    assert set(compared) == {change.path for change in found.changes}
    verification = await client.runs.verify(result.run_id)
    assert verification.holds
    assert verification.log.events == len(await client.runs.events(result.run_id))
    undone = await client.runs.undo(result.run_id, dry=True)
    assert undone.dry


def _wish(prompt: str) -> TaskRequest:
    return TaskRequest(prompt=prompt, pack="engineering")


async def test_runs_are_found_by_meaning(tmp_path: Path) -> None:
    async with embedding_server() as embeddings:
        index = {"embedding_model": MODEL, "embedding_base_url": f"{embeddings.url}/v1"}
        async with (
            served(tmp_path, run_index=index) as server,
            FabricClient(f"http://127.0.0.1:{server.port}", token=server.token) as client,
        ):
            result = await client.run("do it", pack="engineering")
            (found,), unread = await client.runs.search_by_meaning("all done", limit=5_000)
            assert (found.record.run_id, unread) == (result.run_id, 0)
            told: list[tuple[int, int]] = []
            place = ServerRuns(client)
            runs = await place.search_by_meaning("all done", limit=3, on_progress=lambda *each: told.append(each))
            assert [each.record.run_id for each in runs] == [result.run_id]
            assert told == []
            await embeddings.stop()
            with pytest.raises(ModelUnreachable):
                await client.runs.search_by_meaning("x")


@pytest.mark.proves("CP-7")
async def test_a_plan_is_made_and_nothing_is_changed(tmp_path: Path) -> None:
    plan = {"summary": "A file.", "plan": [{"step": "Write it", "files": ["a.txt"]}], "questions": ["Why?"]}
    answers = (
        Call("write_file", {"path": "a.txt", "content": "x"}),
        Call("shell", {"command": "touch b.txt; ls"}),
        Call("shell", {"command": "ls"}),
        Finish(**plan),
        DONE,
    )
    async with (
        served(tmp_path, replace(SCRIPT, named={**SCRIPT.named, "plans": answers})) as server,
        FabricClient(f"http://127.0.0.1:{server.port}", token=server.token) as client,
    ):
        result = await client.run("do it [[script=plans]]", pack="engineering", plan=True)
        assert result.status is RunStatus.COMPLETED
        assert {name: result.payload[name] for name in plan} == plan
        assert list(Path(result.workspace).iterdir()) == []
        created, *events = await client.runs.events(result.run_id)
        assert isinstance(created.body, RunCreated)
        assert created.body.plan
        refused = [each.body.rule for each in events if isinstance(each.body, ToolErred)]
        assert refused == ["plan", "plan"]
