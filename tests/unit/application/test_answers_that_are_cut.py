"""Answers that are longer than they may be: the model is told, the run goes on, and the log says what was cut."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agent_fabric.domain.events import ContextCompacted, Event, GuidanceGiven, ModelAnswered
from agent_fabric.domain.ids import CallId, RunId
from agent_fabric.domain.models.messages import (
    SHOWN_OF_CUT,
    LLMResponse,
    Message,
    Role,
    ToolCallRequest,
    Usage,
    cut_answer,
)
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.domain.tools.specs import Effect
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def, tool_from
from agent_fabric.testing.workbench import SETTINGS, Answer, Workbench, workbench

pytestmark = pytest.mark.proves("WB-3")

MOST = 20_000
LIMITED = replace(SETTINGS, max_answer_chars=MOST)
PROSE = "It was looked at again and again, and then once more. "
LONG = LLMResponse(content=PROSE * 1_000)
LONG_CALL = LLMResponse(content="", tool_calls=(ToolCallRequest(CallId("9"), "look", f'{{"at": "{"x" * 30_000}"}}'),))
LOOK = LLMResponse(content="", tool_calls=(ToolCallRequest(CallId("1"), "look", '{"at": "it"}'),), usage=Usage(100, 10))
FINISH = LLMResponse(
    content="", tool_calls=(ToolCallRequest(CallId("2"), "finish_task", '{"summary": "4"}'),), usage=Usage(100, 10)
)


class Looked:
    """What the tool was called with."""

    def __init__(self) -> None:
        self.at: list[str] = []

    def pack(self, _: str) -> BaseSpecialistPack:
        def look(at: str) -> dict[str, str]:
            self.at.append(at)
            return {"seen": at}

        spec = make_tool_def("look", "Look.", {"at": {"type": "string"}}, effect=Effect.READS)
        finish = make_finish_tool_def({"summary": {"type": "string"}})
        return BaseSpecialistPack(system_prompt="Work.", tools=[(spec, tool_from(look))], finish=finish)


def answering(answers: Sequence[LLMResponse], asked: list[Sequence[Message]]) -> Answer:
    left = list(answers)

    async def answer(messages: Sequence[Message]) -> LLMResponse:
        asked.append(list(messages))
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def events(bench: Workbench) -> list[Event]:
    return [event for log in bench.runs.logs.values() for event in log]


async def test_a_cut_answer_is_told_to_the_model_and_the_run_goes_on() -> None:
    looked, asked = Looked(), list[Sequence[Message]]()
    bench = workbench(looked.pack, answering([LONG, LOOK, FINISH], asked), settings=LIMITED)
    result = await bench.run()
    assert (result.status, looked.at) == (RunStatus.COMPLETED, ["it"])
    (cut, *_) = [event.body for event in events(bench) if isinstance(event.body, ModelAnswered)]
    assert (cut.cut, cut.finish_reason, cut.content) == (MOST, "length", LONG.content[:MOST])
    assert (cut.usage.completion_tokens, cut.usage_estimated) == (MOST // 4, True)
    (told,) = [event.body for event in events(bench) if isinstance(event.body, GuidanceGiven)]
    assert (told.reason, told.message) == ("answer_cut", cut.problem)
    assert "at most 20,000 characters" in told.message
    *_, said, guidance = asked[1]
    assert guidance == Message(Role.USER, told.message)
    assert SHOWN_OF_CUT < len(said.content) < SHOWN_OF_CUT + 200  # the rest would fill its window


async def test_the_call_of_a_cut_answer_is_not_made() -> None:
    looked, asked = Looked(), list[Sequence[Message]]()
    bench = workbench(looked.pack, answering([LONG_CALL, LOOK, FINISH], asked), settings=LIMITED)
    assert (await bench.run()).status is RunStatus.COMPLETED
    assert looked.at == ["it"]


async def test_a_model_whose_answers_never_end_is_given_up() -> None:
    asked: list[Sequence[Message]] = []
    result = await workbench(Looked().pack, answering([LONG], asked), settings=LIMITED).run()
    assert result.status is RunStatus.FAILED
    assert result.error is not None
    assert (result.error.code, len(asked)) == ("model_answer_too_long", 3)
    assert "max_answer_chars" in result.error.hint


async def test_folding_the_log_again_gives_the_same_conversation() -> None:
    bench = workbench(Looked().pack, answering([LONG, LOOK, FINISH], []), settings=LIMITED)
    await bench.run()
    log = events(bench)
    (lane,) = fold(RunId("again"), log).lanes.values()
    assert all(len(message.content) < SHOWN_OF_CUT + 600 for message in lane.messages)


async def test_a_cut_summary_does_not_stand_for_a_conversation() -> None:
    window = replace(LIMITED, context_window=1_000, max_tokens=100)
    looks = [
        replace(LOOK, tool_calls=(ToolCallRequest(CallId(str(n)), "look", f'{{"at": "{n}"}}'),), usage=Usage(900, 10))
        for n in range(3)
    ]
    asked: list[Sequence[Message]] = []

    async def answer(messages: Sequence[Message]) -> LLMResponse:
        asked.append(list(messages))
        if "calls look" in messages[-1].content:  # asked to sum up
            return LONG
        return looks.pop(0) if looks else FINISH

    bench = workbench(Looked().pack, answer, settings=window)
    await bench.run()
    compacted = [event.body for event in events(bench) if isinstance(event.body, ContextCompacted)]
    assert compacted
    assert not any(body.by_model for body in compacted)
    assert all(len(body.summary) < 5_000 for body in compacted)


async def test_a_secret_in_a_long_answer_is_hidden_and_others_get_their_turn_meanwhile() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    secret = "ghp_" + "a1B2" * 9
    long = LLMResponse(content=f"{PROSE * 2_000}{secret} {PROSE * 300}")
    bench = workbench(Looked().pack, answering([LOOK, long], []))
    counting = asyncio.create_task(count())
    result = await bench.run()
    counting.cancel()
    assert secret not in result.payload["summary"]
    assert result.payload["summary"] == long.content.replace(secret, "[secret: token]").strip()
    assert turns > len(long.content) // 20_000


def test_an_answer_of_just_the_limit_is_the_very_same() -> None:
    answer = LLMResponse(content="x" * 10, tool_calls=(ToolCallRequest(CallId("1"), "look", "{}"),))
    assert cut_answer(answer, 12) is answer
    assert cut_answer(answer, 11).tool_calls == ()
