"""What the engine does about models that call tools badly, forget, or are elsewhere."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from agent_fabric.domain.events import ModelAnswered, PackStarted
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.events import ToolCallRecovered
from agent_fabric.domain.models.messages import LLMResponse, Message, ModelPrice, ToolCallRequest, ToolDialect, Usage
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.domain.tools.specs import Effect
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def, make_tool_def, tool_from
from agent_fabric.testing.workbench import SETTINGS, Answer, Workbench, workbench

LOOK = LLMResponse(content="", tool_calls=(ToolCallRequest(CallId("1"), "look", "{}"),), usage=Usage(100, 10))
FINISH = LLMResponse(
    content="", tool_calls=(ToolCallRequest(CallId("2"), "finish_task", '{"summary": "4"}'),), usage=Usage(100, 10)
)
BROKEN = LLMResponse(content='{"name": "look"', problem="the call is not valid JSON", dialect=ToolDialect.SCHEMA)


def pack(_: str) -> BaseSpecialistPack:
    long = "Look around. This is said at length, because long descriptions are what small models do not need."
    spec = make_tool_def("look", long, {}, effect=Effect.READS)
    return BaseSpecialistPack(
        system_prompt="A long prompt.",
        compact_prompt="Short.",
        tools=[(spec, tool_from(lambda: {"seen": "x" * 5_000}))],
        finish=make_finish_tool_def(
            {"summary": {"type": "string"}, "notes": {"type": "string"}}, required=("summary",)
        ),
    )


def answering(*answers: LLMResponse) -> Answer:
    """Give these answers in turn, the last for ever."""
    left = list(answers)

    async def answer(messages: Sequence[Message]) -> LLMResponse:
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def bodies(bench: Workbench, kind: type[Any]) -> list[Any]:
    return [event.body for log in bench.runs.logs.values() for event in log if isinstance(event.body, kind)]


@pytest.mark.proves("C01")
async def test_a_call_that_cannot_be_made_is_told_once_and_the_model_gets_another_chance() -> None:
    bench = workbench(pack, answering(BROKEN, LOOK, FINISH))
    assert (await bench.run()).status is RunStatus.COMPLETED
    assert bench.kinds().count("guidance") == 1
    assert bodies(bench, ModelAnswered)[0].tool_dialect == "schema"


async def test_a_model_that_never_makes_a_usable_call_fails_its_run_instead_of_completing_it() -> None:
    bench = workbench(pack, answering(BROKEN))
    result = await bench.run()
    assert result.status is RunStatus.FAILED
    assert result.error is not None
    assert (result.error.code, bench.kinds().count("guidance")) == ("tool_call_unusable", 1)
    assert "fabric models probe" in result.error.hint


async def test_a_model_that_only_answers_is_asked_to_work_twice_and_then_its_answer_is_marked() -> None:
    bench = workbench(pack, answering(FINISH))
    result = await bench.run("What is 2+2?")
    assert (result.status, result.payload["summary"], result.steps) == (RunStatus.COMPLETED, "4", 3)
    assert "without using any tool" in result.payload["unproven"]


@pytest.mark.proves("C01")
async def test_a_call_that_was_read_from_the_text_is_logged_as_such() -> None:
    bench = workbench(pack, answering(replace(LOOK, recovered=True, model="m"), FINISH))
    await bench.run()
    assert bodies(bench, ToolCallRecovered) == [ToolCallRecovered(tools=("look",), model="m")]


async def test_a_small_model_gets_short_prompts_short_tools_and_little_of_an_output_and_the_log_says_so() -> None:
    seen: list[Sequence[Message]] = []

    async def answer(messages: Sequence[Message]) -> LLMResponse:
        seen.append(list(messages))
        return LOOK if len(seen) == 1 else FINISH

    bench = workbench(pack, answer, settings=replace(SETTINGS, compact=True))
    await bench.run()
    (started,) = bodies(bench, PackStarted)
    assert started.system_prompt == seen[0][0].content == "Short."
    assert started.tools[0].description == "Look around."
    assert list(started.finish.parameters["properties"]) == ["summary"]
    assert len(seen[-1][-1].content) < 2_500


async def test_usage_what_was_known_and_what_it_cost_are_summed_up() -> None:
    price = ModelPrice(input=1.0, output=10.0, cached_input=0.1)
    answers = answering(replace(LOOK, usage=Usage(1_000_000, 100_000, 500_000)), FINISH)
    result = await workbench(pack, answers, settings=replace(SETTINGS, price=price)).run()
    assert result.usage == Usage(1_000_100, 100_010, 500_000)
    assert result.cost == pytest.approx(1.5502)


@pytest.mark.proves("C10")
async def test_a_result_names_the_other_machines_that_were_asked() -> None:
    there = replace(SETTINGS, base_url="https://models.example/v1")
    assert (await workbench(pack, answering(LOOK, FINISH), settings=there).run()).egress == ("models.example",)
    cloud = replace(SETTINGS, remote=True, model="big:cloud")
    assert (await workbench(pack, answering(LOOK, FINISH), settings=cloud).run()).egress == (
        "big:cloud through Ollama",
    )
    here = replace(SETTINGS, base_url="http://localhost:8000/v1")
    assert (await workbench(pack, answering(LOOK, FINISH), settings=here).run()).egress == ()
