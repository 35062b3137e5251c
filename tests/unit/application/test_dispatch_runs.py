"""Many runs in the background: bounded, in order, and nobody is lost when the server stops."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from agent_fabric.application.ports.runs import HeldRun
from agent_fabric.application.runs.claimed_run import ClaimedRun
from agent_fabric.application.runs.dispatch_runs import DispatchRuns, Drive
from agent_fabric.application.runs.take_up_runs import ResumeUnfinishedRuns
from agent_fabric.domain.errors import RunHeld, RunUndrivable, ServerBusy, ServerStopping, StoreUnavailable
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.models.messages import LLMResponse, Message, Role, ToolCallRequest, Usage
from agent_fabric.domain.runs.task import Budget, Profile, RunResult, RunStatus, Task
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def, tool_from
from agent_fabric.testing.workbench import Workbench, workbench

ECHO = make_tool_def("echo", "Say it back.", {"text": {"type": "string"}})
FINISH = make_finish_tool_def({"summary": {"type": "string"}})


@dataclass
class Bench:
    """A dispatcher on stand-ins, whose model answers only when it may."""

    max_running: int = 2
    max_queued: int = 3
    asked: list[str] = field(default_factory=list)
    answers: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    def __post_init__(self) -> None:
        def pack(_: str) -> BaseSpecialistPack:
            tools = [(ECHO, tool_from(lambda text: {"said": text}))]
            return BaseSpecialistPack(system_prompt="Echo.", tools=tools, finish=FINISH)

        self.bench: Workbench = workbench(pack, self._answer)
        drive = self.bench.execute_task.drive
        object.__setattr__(drive, "marks_interruption", False)
        self.dispatch = DispatchRuns(drive, self.bench.cancel_run, self.max_running, self.max_queued)

    async def _answer(self, messages: Sequence[Message]) -> LLMResponse:
        turn = sum(message.role is Role.ASSISTANT for message in messages)
        if turn == 0:
            self.asked.append(messages[1].content)
            await self.answers.acquire()
        name, arguments = [("echo", '{"text": "hi"}'), ("finish_task", '{"summary": "done"}')][min(turn, 1)]
        call = ToolCallRequest(CallId("c"), name, arguments)
        return LLMResponse(content="", tool_calls=(call,), usage=Usage(1, 1))

    async def start(self, prompt: str) -> Drive:
        task = Task(prompt=prompt, model_key="quality", budget=Budget.of(Profile.TASK))
        drive = await self.dispatch(partial(self.bench.execute_task.create, task))
        assert isinstance(drive, Drive)
        return drive

    def statuses(self) -> list[str]:
        return [log[-1].body.kind for log in self.bench.runs.logs.values()]


async def settle() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_bounded_number_runs_and_the_rest_has_its_turn_in_order() -> None:
    bench = Bench()
    drives = [await bench.start(f"task {number}") for number in range(5)]
    await settle()
    assert bench.asked == ["task 0", "task 1"]
    assert (bench.dispatch.running, bench.dispatch.queued) == (2, 3)
    assert [drive.queued for drive in drives] == [False, False, True, True, True]
    assert len(bench.bench.runs.logs) == 5, "those who wait are durable"
    for number in range(3):
        bench.answers.release()
        await settle()
        assert bench.asked == [f"task {n}" for n in range(min(3 + number, 5))]
    for _ in range(2):
        bench.answers.release()
    results = await asyncio.gather(*(drive.outcome for drive in drives))
    assert {result.status for result in results} == {RunStatus.COMPLETED}
    assert (bench.dispatch.running, bench.dispatch.queued) == (0, 0)
    assert drives[0].run_id not in bench.dispatch


async def test_one_too_many_is_refused_before_it_is_created() -> None:
    bench = Bench(max_running=1, max_queued=1)
    started = await asyncio.gather(*(bench.start(str(number)) for number in range(5)), return_exceptions=True)
    assert [type(each) for each in started] == [Drive, Drive, ServerBusy, ServerBusy, ServerBusy]
    assert len(bench.bench.runs.logs) == 2
    await bench.dispatch.stop(timeout_s=5)


async def test_whoever_stops_waiting_does_not_stop_the_run() -> None:
    bench = Bench()
    drive = await bench.start("task")
    waiting = asyncio.create_task(asyncio.wait_for(asyncio.shield(drive.outcome), 60))
    await settle()
    waiting.cancel()
    bench.answers.release()
    assert (await drive.outcome).status is RunStatus.COMPLETED


async def test_a_run_that_waits_for_its_turn_can_be_cancelled() -> None:
    bench = Bench(max_running=1)
    first, second, third = [await bench.start(name) for name in ("first", "second", "third")]
    await settle()
    result = await bench.bench.cancel_run(second.run_id, by="me", reason="not any more")
    assert result.status is RunStatus.CANCELLED
    assert (await second.outcome).status is RunStatus.CANCELLED
    assert bench.dispatch.queued == 1
    bench.answers.release()
    bench.answers.release()
    assert {(await each.outcome).status for each in (first, third)} == {RunStatus.COMPLETED}
    assert bench.asked == ["first", "third"]


async def test_other_mail_that_comes_while_a_run_waits_is_kept_for_its_drive() -> None:
    bench, received = Bench(max_running=1), list[str]()

    async def read_mail(held: HeldRun, *rest: Any) -> None:
        await bench.answers.acquire()
        for _ in range(2):
            received.extend([row.kind for row in await held.receive()])
        await held.release()

    bench.dispatch.drive = read_mail  # type: ignore[assignment]  # a drive that shows what it gets
    first, second = [await bench.start(name) for name in ("first", "second")]
    for kind in ("one", "two"):
        await bench.bench.runs.post(first.run_id, "other", {})
        await bench.bench.runs.post(second.run_id, kind, {})
        bench.answers.release()
        await settle()
    await bench.bench.runs.post(second.run_id, "three", {})
    await second.outcome
    assert received == ["other", "other", "one", "two", "three"]


async def test_stopping_leaves_every_run_as_it_stands_and_free_to_be_taken() -> None:
    bench = Bench(max_running=1)
    drives = [await bench.start(name) for name in ("running", "queued")]
    await settle()
    await bench.dispatch.stop(timeout_s=5)
    assert all(drive.outcome.cancelled() for drive in drives)
    assert bench.statuses() == ["llm_request", "run_created"]
    assert bench.bench.runs.held == set()
    with pytest.raises(ServerStopping):
        await bench.start("late")


async def test_a_run_that_is_being_created_while_the_server_stops_is_let_go() -> None:
    bench = Bench()
    slow = asyncio.Event()

    async def create() -> ClaimedRun:
        task = Task(prompt="late", model_key="quality", budget=Budget.of(Profile.TASK))
        taken = await bench.bench.execute_task.create(task)
        await slow.wait()
        return taken

    starting = asyncio.create_task(bench.dispatch(create))
    await settle()
    await bench.dispatch.stop(timeout_s=0.2)
    slow.set()
    drive = await starting
    assert isinstance(drive, Drive)
    with pytest.raises(asyncio.CancelledError):
        await drive.outcome
    assert bench.bench.runs.held == set()
    assert bench.asked == []


async def test_a_drive_that_fails_frees_its_place(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(max_running=1)

    async def fail(*_: Any) -> None:
        raise StoreUnavailable("the disk has gone")

    bench.dispatch.drive = fail  # type: ignore[assignment]  # a store that fails in the middle
    drives = [await bench.start(name) for name in ("first", "second")]
    for drive in drives:
        with pytest.raises(StoreUnavailable):
            await drive.outcome
    await settle()
    assert bench.dispatch.running == 0
    assert caplog.text.count("the disk has gone") == 2


async def test_what_was_left_is_taken_up_in_turn_and_what_cannot_be_is_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(max_running=1)
    drives = [await bench.start(f"task {number}") for number in range(4)]
    await settle()
    await bench.dispatch.stop(timeout_s=5)
    runs = [drive.run_id for drive in drives]

    again = DispatchRuns(bench.dispatch.drive, bench.bench.cancel_run, 1, 0)
    resume = bench.bench.resume_run

    class Picky:
        async def take(self, run_id: RunId, *, by: Any) -> ClaimedRun | RunResult:
            if run_id == runs[1]:
                raise RunUndrivable("its workspace has gone")
            if run_id == runs[2]:
                raise RuntimeError("a bug of ours")
            return await resume.take(run_id, by=by)

    again.expect(runs)
    assert all(run_id in again for run_id in runs)
    assert again.queued == 4
    assert all(again.is_queued(run_id) for run_id in runs)
    taking = asyncio.create_task(ResumeUnfinishedRuns(Picky(), again)(runs))  # type: ignore[arg-type]  # as much of it as is used
    bench.answers.release()
    bench.answers.release()
    async with asyncio.timeout(60):
        await taking
        while again.running:
            await asyncio.sleep(0)
    await settle()
    assert bench.statuses() == ["run_complete", "run_created", "run_created", "run_complete"]
    assert "its workspace has gone" in caplog.text
    assert "a bug of ours" in caplog.text
    assert not any(run_id in again for run_id in runs)
    assert again.queued == 0


async def test_a_run_that_its_driver_is_just_letting_go_of_is_not_given_up() -> None:
    """It was kept from its answer for half a minute, as if it could not be resumed at all."""
    bench = Bench(max_running=1)

    class Held:
        async def take(self, run_id: RunId, *, by: Any) -> ClaimedRun | RunResult:
            raise RunHeld(f"run {run_id} is driven by somebody: {by}")

    resume = ResumeUnfinishedRuns(Held(), bench.dispatch)  # type: ignore[arg-type]  # as much of it as is used
    assert await resume([RunId("a run")]) == []


async def test_all_who_go_on_with_a_run_at_once_share_one_drive_whoever_was_first() -> None:
    bench = Bench(max_running=1)
    drive = await bench.start("task")
    await settle()
    await bench.dispatch.stop(timeout_s=5)
    again = DispatchRuns(bench.dispatch.drive, bench.bench.cancel_run, 1, 0)
    take = partial(bench.bench.resume_run.take, drive.run_id, by="person")
    again.expect([drive.run_id])
    taken_up = asyncio.create_task(again.when_free(drive.run_id, take))
    await asyncio.sleep(0)
    drives = await asyncio.gather(*(again.resume(drive.run_id, take) for _ in range(5)))
    await taken_up
    assert len({id(each) for each in drives}) == 1
    assert (again.running, again.queued) == (1, 0)
    await again.stop(timeout_s=5)
    assert again.running == 0
