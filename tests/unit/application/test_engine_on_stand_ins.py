"""Use cases with every port replaced: no disk, no network, no model (AF-008)."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from agent_fabric.domain.errors import RecruitError, RunHeld, RunUndrivable
from agent_fabric.domain.events import PackStarted, RunResumed
from agent_fabric.domain.ids import CallId, LaneId, RunId, SpecialistId
from agent_fabric.domain.models.messages import LLMResponse, Message, Role, ToolCallRequest, Usage
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.task import Budget, Profile, RunStatus, Task, TaskForceMode
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def, tool_from
from agent_fabric.testing.fakes import MemoryWorkspaces
from agent_fabric.testing.workbench import Answer, Workbench, workbench

RUN = RunId("run-0")
ECHO = make_tool_def("echo", "Say it back.", {"text": {"type": "string"}})
FINISH = make_finish_tool_def({"summary": {"type": "string"}})


def echo_pack(_: str) -> BaseSpecialistPack:
    return BaseSpecialistPack(
        system_prompt="Echo.", tools=[(ECHO, tool_from(lambda text: {"said": text}))], finish=FINISH
    )


def answers(*turns: tuple[str, str] | str) -> Answer:
    """A model that says these things, one a turn; a pair is a tool call."""

    async def answer(messages: Sequence[Message]) -> LLMResponse:
        turn = turns[min(sum(message.role is Role.ASSISTANT for message in messages), len(turns) - 1)]
        if isinstance(turn, str):
            return LLMResponse(content=turn, usage=Usage(1, 1))
        call = ToolCallRequest(CallId("c"), *turn)
        return LLMResponse(content="", tool_calls=(call,), usage=Usage(1, 1))

    return answer


HAPPY = answers(("echo", '{"text": "hi"}'), ("finish_task", '{"summary": "said hi"}'))


@pytest.mark.proves("AF-008", "AF-050", "AF-054", "AF-056", "AF-060", "AF-065", "FC-020")
async def test_a_task_is_recruited_worked_on_and_finished() -> None:
    bench = workbench(echo_pack, HAPPY)
    result = await bench.run()
    assert result.status is RunStatus.COMPLETED
    assert result.payload == {"summary": "said hi"}
    assert bench.kinds() == [
        "run_created",
        "recruitment",
        "pack_start",
        "llm_request",
        "llm_response",
        "tool_call",
        "tool_result",
        "llm_request",
        "llm_response",
        "tool_call",
        "tool_result",
        "run_complete",
    ]
    assert [event.body.kind for event in bench.sink.events] == bench.kinds()


@pytest.mark.proves("C03", "FC-025")
async def test_observations_have_the_role_tool() -> None:
    seen: list[Sequence[Message]] = []

    async def answer(messages: Sequence[Message]) -> LLMResponse:
        seen.append(tuple(messages))
        return await HAPPY(messages)

    await workbench(echo_pack, answer).run()
    assert [message.role for message in seen[-1]] == [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.TOOL]
    assert seen[-1][:2] == seen[0]


@pytest.mark.proves("AF-057")
async def test_a_pack_does_not_execute_finish_task() -> None:
    with pytest.raises(KeyError):
        await echo_pack("").execute_tool("finish_task", {}, None)  # type: ignore[arg-type]  # never looked at


class Fragile(BaseSpecialistPack):
    """A pack that fails to open, and remembers whether it was closed."""

    def __init__(self, closed: list[str]) -> None:
        super().__init__(system_prompt="", tools=[], finish=FINISH)
        self.closed = closed

    async def aopen(self) -> None:
        raise OSError("no such server")

    async def aclose(self) -> None:
        self.closed.append("closed")


@pytest.mark.proves("AF-064")
async def test_a_pack_that_opened_half_way_is_closed_and_the_run_says_why_it_failed() -> None:
    closed: list[str] = []
    result = await workbench(lambda _: Fragile(closed), HAPPY).run()
    assert closed == ["closed"]
    assert result.error is not None
    assert "no such server" in result.error.message


@pytest.mark.proves("AF-066", "C33")
async def test_a_blocking_tool_does_not_stop_the_event_loop() -> None:
    gate = threading.Event()

    def slow(text: str) -> dict[str, Any]:
        assert gate.wait(60)
        return {"said": text}

    def pack(_: str) -> BaseSpecialistPack:
        return BaseSpecialistPack(system_prompt="", tools=[(ECHO, tool_from(slow))], finish=FINISH)

    bench = workbench(pack, HAPPY)
    running = asyncio.create_task(bench.run())
    while "tool_call" not in (bench.kinds() if bench.runs.logs else []):
        await asyncio.sleep(0)
    gate.set()
    assert (await running).status is RunStatus.COMPLETED


async def test_an_unknown_pack_is_refused_before_a_run_exists() -> None:
    bench = workbench(echo_pack, HAPPY)
    task = Task(
        prompt="x", specialist_ids=(SpecialistId("nobody"),), model_key="quality", budget=Budget.of(Profile.TASK)
    )
    with pytest.raises(RecruitError, match="nobody"):
        await bench.execute_task(task)
    assert bench.runs.logs == {}


async def hang(_: Sequence[Message]) -> LLMResponse:
    await asyncio.Event().wait()
    raise AssertionError


async def started(bench: Workbench) -> "asyncio.Task[Any]":
    task = asyncio.create_task(bench.run())
    while "llm_request" not in (bench.kinds() if bench.runs.logs else []):
        await asyncio.sleep(0)
    return task


class HangsAtFirst:
    """A model that never answers when it is asked for the first time."""

    def __init__(self) -> None:
        self.asked: list[Sequence[Message]] = []

    async def __call__(self, messages: Sequence[Message]) -> LLMResponse:
        self.asked.append(tuple(messages))
        return await (hang(messages) if len(self.asked) == 1 else HAPPY(messages))

    async def be_interrupted(self, bench: Workbench) -> None:
        """Start a run and cancel it while we are asked: the request is in the log before that."""
        task = await started(bench)
        while not self.asked:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_cancel_from_elsewhere_ends_a_run_whose_model_hangs() -> None:
    bench = workbench(echo_pack, hang)
    task = await started(bench)
    result = await bench.cancel_run(RUN, by="somebody", reason="enough")
    assert result.status is RunStatus.CANCELLED
    assert (await task).status is RunStatus.CANCELLED
    assert bench.kinds()[-1] == "run_cancelled"


async def test_a_run_that_nobody_drives_is_cancelled_on_the_spot() -> None:
    bench = workbench(echo_pack, hang)
    task = await started(bench)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await bench.cancel_run(RUN, by="somebody")).status is RunStatus.CANCELLED


async def test_an_interrupted_run_says_so_and_goes_on_when_resumed() -> None:
    model = HangsAtFirst()
    bench = workbench(echo_pack, model)
    await model.be_interrupted(bench)
    assert bench.kinds()[-1] == "run_interrupted"
    assert fold(RUN, bench.runs.logs[RUN]).status is RunStatus.INTERRUPTED
    result = await bench.resume_run(RUN)
    assert result.status is RunStatus.COMPLETED
    assert [event.body for event in bench.runs.logs[RUN] if isinstance(event.body, RunResumed)]


async def test_a_takeover_is_durable_before_a_pack_is_opened() -> None:
    bench = workbench(echo_pack, hang)
    task = await started(bench)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    seen: list[str] = []

    def pack_that_kills(_: str) -> BaseSpecialistPack:
        seen.extend(later.kinds())
        raise KeyboardInterrupt

    later = workbench(pack_that_kills, HAPPY, runs=bench.runs)
    with pytest.raises(KeyboardInterrupt):
        await later.resume_run(RUN)
    assert "run_resumed" in seen


async def test_a_second_driver_is_refused_while_the_first_lives() -> None:
    bench = workbench(echo_pack, hang)
    task = await started(bench)
    with pytest.raises(RunHeld):
        await bench.resume_run(RUN)
    assert not task.done()
    task.cancel()


async def test_a_settled_run_tells_its_result_again_without_being_touched() -> None:
    bench = workbench(echo_pack, HAPPY)
    first = await bench.run()
    length = len(bench.runs.logs[RUN])
    assert await bench.resume_run(RUN) == first
    assert len(bench.runs.logs[RUN]) == length


async def test_a_run_whose_workspace_is_elsewhere_is_not_taken() -> None:
    workspaces = MemoryWorkspaces()
    bench = workbench(echo_pack, hang, workspaces=workspaces)
    task = await started(bench)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    workspaces.missing.add(f"/memory/{RUN}/workspace")
    with pytest.raises(RunUndrivable, match="workspace"):
        await bench.resume_run(RUN)


async def test_prompt_tools_and_model_come_from_the_log_not_from_todays_pack() -> None:
    model = HangsAtFirst()
    bench = workbench(echo_pack, model)
    await model.be_interrupted(bench)

    def other_pack(_: str) -> BaseSpecialistPack:
        return BaseSpecialistPack(system_prompt="Different.", tools=[], finish=FINISH)

    later = workbench(other_pack, model, runs=bench.runs)
    result = await later.resume_run(RUN)
    assert model.asked[-1][0].content == "Echo."
    assert "no longer there" in model.asked[-1][-1].content  # the tool has gone, and the model is told
    assert result.status is RunStatus.COMPLETED
    assert sum(isinstance(event.body, PackStarted) for event in bench.runs.logs[RUN]) == 1


def two(first: Answer, second: Answer) -> tuple[dict[str, Any], Answer]:
    """Two packs whose models answer differently."""

    def pack(name: str) -> Any:
        return lambda _: BaseSpecialistPack(
            system_prompt=name, tools=[(ECHO, tool_from(lambda text: {"said": text}))], finish=FINISH
        )

    async def answer(messages: Sequence[Message]) -> LLMResponse:
        return await (first if messages[0].content == "one" else second)(messages)

    return {"one": pack("one"), "two": pack("two")}, answer


BROKEN = answers("")  # never says anything


@pytest.mark.proves("AF-051", "AF-137", "AF-145")
async def test_specialists_in_turn_know_what_came_of_those_before() -> None:
    seen: list[str] = []

    async def second(messages: Sequence[Message]) -> LLMResponse:
        seen.append(messages[1].content)
        return await HAPPY(messages)

    bench = workbench(*two(HAPPY, second))
    result = await bench.run(packs=["one", "two"])
    assert result.status is RunStatus.COMPLETED
    assert "said hi" in seen[0]
    assert list(result.payload["specialists"]) == ["one", "two"]
    assert bench.kinds().count("pack_start") == 2
    assert "task_force_parallel" not in bench.kinds()


@pytest.mark.proves("AF-052", "AF-136")
async def test_parallel_specialists_really_work_at_the_same_time() -> None:
    both = asyncio.Barrier(2)

    async def meet(messages: Sequence[Message]) -> LLMResponse:
        async with asyncio.timeout(60):
            await both.wait()  # passes only when both models are being asked at once
        return await HAPPY(messages)

    bench = workbench(*two(meet, meet))
    result = await bench.run(packs=["two", "one"], mode=TaskForceMode.PARALLEL)
    assert result.status is RunStatus.COMPLETED
    assert result.specialist_ids == ("one", "two"), "in the order of the configuration"
    kinds = bench.kinds()
    assert kinds[:3] == ["run_created", "recruitment", "task_force_parallel"]


@pytest.mark.parametrize("mode", TaskForceMode)
async def test_one_specialist_failing_does_not_lose_the_others_work(mode: TaskForceMode) -> None:
    bench = workbench(*two(BROKEN, HAPPY))
    result = await bench.run(packs=["one", "two"], mode=mode)
    assert result.status is RunStatus.FAILED
    assert result.error is not None
    assert result.error.code == "task_force_incomplete"
    assert result.payload["specialists"] == {"two": {"summary": "said hi"}}
    assert result.payload["failed_specialists"]["one"]["code"] == "model_answer_empty"


@pytest.mark.parametrize("mode", TaskForceMode)
async def test_a_pack_that_cannot_open_does_not_stop_the_others(mode: TaskForceMode) -> None:
    packs, answer = two(HAPPY, HAPPY)
    bench = workbench({**packs, "one": lambda _: Fragile([])}, answer)
    result = await bench.run(packs=["one", "two"], mode=mode)
    assert list(result.payload["specialists"]) == ["two"]
    assert "no such server" in result.payload["failed_specialists"]["one"]["message"]


async def test_when_all_fail_the_run_fails_as_one_would() -> None:
    bench = workbench(*two(BROKEN, BROKEN))
    result = await bench.run(packs=["one", "two"], mode=TaskForceMode.PARALLEL)
    assert result.error is not None
    assert result.error.code == "model_answer_empty"


@pytest.mark.proves("AF-053")
async def test_the_step_limit_is_each_specialists_own() -> None:
    bench = workbench(*two(HAPPY, answers(("echo", '{"text": "a"}'), ("echo", '{"text": "b"}'))))
    result = await bench.run(packs=["one", "two"], mode=TaskForceMode.PARALLEL, max_steps=3)
    assert list(result.payload["specialists"]) == ["one"]
    assert result.payload["failed_specialists"]["two"]["code"] == "budget_exhausted"


async def test_a_killed_task_force_goes_on_lane_by_lane() -> None:
    hangs = True

    async def second(messages: Sequence[Message]) -> LLMResponse:
        return await (hang(messages) if hangs and len(messages) > 2 else HAPPY(messages))

    bench = workbench(*two(HAPPY, second))
    task = asyncio.create_task(bench.run(packs=["one", "two"], mode=TaskForceMode.PARALLEL))
    while not bench.runs.logs or not one_is_done(bench):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    hangs = False
    before = len(bench.runs.logs[RUN])
    result = await bench.resume_run(RUN)
    assert result.status is RunStatus.COMPLETED
    assert {event.lane for event in bench.runs.logs[RUN][before:]} == {None, "two"}, "what is done stays done"


def one_is_done(bench: Workbench) -> bool:
    lane = fold(RUN, bench.runs.logs[RUN]).lanes.get(LaneId("one"))
    return lane is not None and lane.payload is not None and "two" in fold(RUN, bench.runs.logs[RUN]).lanes


async def test_a_run_whose_pack_is_not_here_is_left_alone_until_it_is() -> None:
    bench = workbench(echo_pack, hang)
    task = await started(bench)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    elsewhere = workbench({"other": echo_pack}, HAPPY, runs=bench.runs)
    length = len(bench.runs.logs[RUN])
    with pytest.raises(RunUndrivable, match="testing"):
        await elsewhere.resume_run(RUN)
    assert len(bench.runs.logs[RUN]) == length
    assert (await workbench(echo_pack, HAPPY, runs=bench.runs).resume_run(RUN)).status is RunStatus.COMPLETED


@pytest.mark.parametrize("mode", TaskForceMode)
async def test_a_pack_that_is_none_loses_only_its_own_lane(mode: TaskForceMode) -> None:
    def unsound(_: str) -> BaseSpecialistPack:
        pack = BaseSpecialistPack(system_prompt="one", tools=[], finish=FINISH)
        pack.finish = None  # type: ignore[assignment]  # an author's mistake
        return pack

    packs, answer = two(HAPPY, HAPPY)
    result = await workbench({**packs, "one": unsound}, answer).run(packs=["one", "two"], mode=mode)
    assert list(result.payload["specialists"]) == ["two"]
    failed = result.payload["failed_specialists"]["one"]
    assert failed["code"] == "pack_broken"
    assert "`finish`" in failed["message"]


async def test_out_of_time_nothing_more_is_begun_and_the_budget_is_blamed() -> None:
    async def slow(messages: Sequence[Message]) -> LLMResponse:
        bench.clock.time += 10
        return await HAPPY(messages)

    bench = workbench(*two(slow, slow))
    result = await bench.run(packs=["one", "two"], mode=TaskForceMode.PARALLEL, max_seconds=15)
    assert result.error is not None
    assert result.error.code == "budget_exhausted"
    assert "llm_error" not in bench.kinds()
    assert "pack_failed" not in bench.kinds()
