"""Model calls that must wait or come again, over real sockets: spread, patient, in line, and ended when told so."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.runs.new_task import task_from
from agent_fabric.bootstrap.local import LocalFabric
from agent_fabric.config.loader import read_config
from agent_fabric.domain.events import ModelCalled
from agent_fabric.domain.ids import RunId
from agent_fabric.domain.models.events import CloudFallbackUsed
from agent_fabric.domain.runs.task import Priority, RunResult, RunStatus
from agent_fabric.testing.fakes import ListSink
from agent_fabric.testing.scripted_model import Call, Finish, Hang, Say, Script, ScriptedModel, Status, Turn
from e2e.fabric_process import Fabric, carry_out, local_fabric, read_lines, settings
from integration.http.served import served, task

LOOK = Call("list_files", {})
DONE = Finish(summary="done")
PATIENCE_S = 60.0
ENDED_WITHIN_S = 15.0


async def until(holds: Callable[[], object]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.01)


async def test_runs_that_were_refused_together_do_not_come_back_together(tmp_path: Path) -> None:
    runs = 20
    script = Script((Turn(LOOK, faults=(Status(503),)), DONE))
    async with ScriptedModel(script) as model:
        configured = settings(model.base_url)
        config = read_config({}, overrides=configured).config
        sink = ListSink()
        async with local_fabric(tmp_path, configured, sink) as fabric, asyncio.timeout(PATIENCE_S):
            tasks = [task_from(config, f"number {number}", pack="engineering") for number in range(runs)]
            results = await asyncio.gather(*map(fabric.execute_task, tasks))
    assert {result.status for result in results} == {RunStatus.COMPLETED}
    called = [event.body for event in sink.events if isinstance(event.body, ModelCalled)]
    delays = sorted(body.delay_s for body in called if body.attempt == 2)
    assert len(delays) == runs
    assert delays[0] >= 0.5
    assert delays[-1] <= 1.0
    assert len(set(delays)) > runs / 2


async def test_date_until_which_a_server_wants_to_be_left_alone_is_respected(tmp_path: Path) -> None:
    script = (Status(429, retry_after=formatdate(time.time() + 3, usegmt=True)), LOOK, DONE)
    async with ScriptedModel(list(script)) as model:
        outcome = await carry_out(tmp_path, model.base_url)
    assert outcome.result.status is RunStatus.COMPLETED
    asked_for = outcome.payloads("llm_error")[0]["retry_after_s"]
    assert 1.5 <= asked_for <= 3
    assert asked_for <= outcome.payloads("llm_request")[1]["delay_s"] <= asked_for * 1.2
    first, second = (request.at for request in model.requests[:2])
    assert second - first >= asked_for


# ── ended at once ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Stuck:
    """A run that waits for a model, and the moment at which somebody ends it."""

    def __init__(self, fabric: LocalFabric, sink: ListSink, configured: dict[str, Any]) -> None:
        self.fabric = fabric
        self.sink = sink
        self.config = read_config({}, overrides=configured).config

    async def start(self, prompt: str = "do it", priority: Priority = Priority.INTERACTIVE) -> tuple[RunId, Any]:
        created = asyncio.get_running_loop().create_future()
        running = asyncio.create_task(
            self.fabric.execute_task(
                task_from(self.config, prompt, pack="engineering", priority=priority), on_created=created.set_result
            )
        )
        return await created, running

    async def end(self, run_id: RunId, running: "asyncio.Task[RunResult]") -> None:
        """End the run, and check that it took no time."""
        started = time.monotonic()
        async with asyncio.timeout(PATIENCE_S):
            cancelled = await self.fabric.cancel_run(run_id, by="a test", reason="enough")
            result = await running
        assert time.monotonic() - started < ENDED_WITHIN_S
        assert cancelled.status is result.status is RunStatus.CANCELLED


@contextlib.asynccontextmanager
async def stuck(folder: Path, base_url: str, **model: Any) -> AsyncIterator[Stuck]:
    sink, configured = ListSink(wants_deltas=True), settings(base_url, model=model)
    async with local_fabric(folder, configured, sink) as fabric:
        yield Stuck(fabric, sink, configured)


async def test_cancelling_ends_a_run_in_the_middle_of_a_stream_and_closes_the_connection(tmp_path: Path) -> None:
    closed = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            writer.write(b'data: {"choices": [{"delta": {"content": "I th"}}]}\n\n')
            while await reader.read(65_536):
                pass
            closed.set()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with stuck(tmp_path, f"http://127.0.0.1:{port}/v1") as case:
            run = await case.start()
            await until(lambda: case.sink.texts)
            await case.end(*run)
            async with asyncio.timeout(ENDED_WITHIN_S):
                await closed.wait()


async def test_cancelling_ends_a_run_that_waits_before_it_asks_again(tmp_path: Path) -> None:
    async with (
        ScriptedModel([Status(503, retry_after=50, times=9)]) as model,
        stuck(tmp_path, model.base_url) as case,
    ):
        run = await case.start()

        def waits() -> bool:
            return any(isinstance(event.body, ModelCalled) and event.body.delay_s >= 50 for event in case.sink.events)

        await until(waits)
        await case.end(*run)
    assert len(model.requests) == 1


async def test_cancelling_ends_a_run_that_is_queued_and_the_line_moves_on(tmp_path: Path) -> None:
    script = Script(turns=(LOOK, DONE), named={"hang": (Hang(times=9),)})
    async with ScriptedModel(script) as model, stuck(tmp_path, model.base_url, slots=1) as case:
        first = await case.start("do it [[script=hang]]")
        await model.wait_for_requests(1)
        second = await case.start()
        await until(lambda: "queued behind 1" in case.sink.notices)
        third = await case.start(priority=Priority.BATCH)
        await until(lambda: "queued behind 2" in case.sink.notices)
        assert len(model.requests) == 1, "those who wait have not asked"
        await case.end(*second)
        await case.end(*first)
        async with asyncio.timeout(PATIENCE_S):
            result = await third[1]
    assert result.status is RunStatus.COMPLETED


async def test_person_at_the_keyboard_is_served_before_a_batch_that_came_first(tmp_path: Path) -> None:
    script = Script(turns=(LOOK, DONE), named={"hang": (Hang(times=9),)})
    async with ScriptedModel(script) as model, stuck(tmp_path, model.base_url, slots=1) as case:
        hanging = await case.start("do it [[script=hang]]")
        await model.wait_for_requests(1)
        _, batch = await case.start("the batch", priority=Priority.BATCH)
        await until(lambda: "queued behind 1" in case.sink.notices)
        _, person = await case.start("the person")
        await until(lambda: "queued behind 2" in case.sink.notices)
        await case.end(*hanging)
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(batch, person)
    asked = [str(request.body["messages"][1]["content"]) for request in model.requests[1:]]
    first = [next(who for who in ("batch", "person") if who in text) for text in asked]
    assert first[0] == "person"
    assert first.index("batch") > 0


# ── how a run says how urgent it is ───────────────────────────────────────────────────────────────────────────────────


async def test_priority_of_the_command_line_is_in_the_log(tmp_path: Path) -> None:
    async with ScriptedModel([LOOK, DONE]) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        ended, wrong = await asyncio.gather(
            fabric("run", "do it", "--priority", "batch", "--json"), fabric("run", "do it", "--priority", "soon")
        )
    assert (ended.code, wrong.code) == (0, 2)
    assert "interactive" in wrong.err
    (run_dir,) = fabric.run_dirs()
    assert read_lines(run_dir)[0]["payload"]["priority"] == "batch"


async def test_priority_of_an_http_request_is_in_the_log(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        answer = await server.client.post("/run", json=task(priority="scheduled"))
        wrong = await server.client.post("/run", json=task(priority="soon"))
    assert (answer.status_code, wrong.status_code) == (200, 422)
    assert read_lines(Path(answer.json()["_meta"]["run_dir"]))[0]["payload"]["priority"] == "scheduled"


# ── another machine ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.proves("AF-076", "AF-140", "A33-031", "C10")
async def test_run_that_was_helped_tells_so_in_its_log_and_what_it_cost(tmp_path: Path) -> None:
    price = {"input": 1.0, "output": 2.0}
    async with ScriptedModel([Say("I would look at the files.")]) as local, ScriptedModel([LOOK, DONE]) as cloud:
        configured = settings(local.base_url, cloud_fallback={"model_key": "cloud", "policy": "no_tool_calls"})
        configured["models"]["cloud"] = {
            "base_url": cloud.base_url,
            "model": "large",
            "backend": "generic",
            "price": price,
        }
        config = read_config({}, overrides=configured).config
        sink = ListSink()
        async with local_fabric(tmp_path, configured, sink) as fabric, asyncio.timeout(PATIENCE_S):
            result = await fabric.execute_task(task_from(config, "do it", pack="engineering"))
    helped = [event.body for event in sink.events if isinstance(event.body, CloudFallbackUsed)]
    assert [(body.reason, body.local_model, body.cloud_model) for body in helped[:1]] == [
        ("no_tool_calls", "scripted", "large")
    ]
    assert helped[0].base_url == cloud.base_url
    assert result.cost is not None
    assert result.cost > 0
    assert local.requests
    assert cloud.requests


@pytest.mark.proves("AF-077")
async def test_local_server_that_is_down_fails_the_run_and_the_cloud_hears_nothing(tmp_path: Path) -> None:
    async with ScriptedModel([LOOK, DONE]) as cloud:
        configured = settings("http://127.0.0.1:9/v1", cloud_fallback={"model_key": "cloud"})
        configured["models"]["cloud"] = {"base_url": cloud.base_url, "model": "large", "backend": "generic"}
        config = read_config({}, overrides=configured).config
        async with local_fabric(tmp_path, configured) as fabric, asyncio.timeout(PATIENCE_S):
            result = await fabric.execute_task(task_from(config, "do it", pack="engineering"))
    assert result.error is not None
    assert result.error.code == "model_unreachable"
    assert cloud.requests == []


@pytest.mark.proves("C10")
async def test_offline_run_never_asks_another_machine(tmp_path: Path) -> None:
    outcome = await carry_out(tmp_path, "http://models.example/v1", offline=True)
    outcome.require_failed("offline")
    assert "offline: false" in outcome.hint
    assert len(outcome.payloads("llm_request")) == 1
    assert outcome.seconds < ENDED_WITHIN_S
