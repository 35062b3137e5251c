"""What a model thinks is logged beside its answer, or dropped, and no one takes it for the answer."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from agent_fabric.domain.events import ModelAnswered
from agent_fabric.domain.ids import CallId
from agent_fabric.domain.models.events import ModelReasoned
from agent_fabric.domain.models.messages import LLMResponse, Message, ToolCallRequest, Usage
from agent_fabric.domain.models.thoughts import MAX_KEPT_CHARS
from agent_fabric.infrastructure.packs.base import BaseSpecialistPack, make_finish_tool_def
from agent_fabric.testing.workbench import SETTINGS, Workbench, workbench

pytestmark = pytest.mark.proves("CP-13")

SECRET = "ghp_" + "a1B2" * 9
FINISH = ToolCallRequest(CallId("1"), "finish_task", '{"summary": "done"}')


def pack(_: str) -> BaseSpecialistPack:
    return BaseSpecialistPack(
        system_prompt="Work.", tools=[], finish=make_finish_tool_def({"summary": {"type": "string"}})
    )


async def asked(thoughts: str, *, keeps: bool) -> tuple[Workbench, list[Sequence[Message]]]:
    seen: list[Sequence[Message]] = []
    answers = [
        LLMResponse(content="", thoughts=thoughts, usage=Usage(1, 1)),
        LLMResponse(content="", tool_calls=(FINISH,)),
    ]

    async def answer(messages: Sequence[Message]) -> LLMResponse:
        seen.append(list(messages))
        return answers.pop(0)

    bench = workbench(pack, answer, settings=replace(SETTINGS, keeps_reasoning=keeps))
    await bench.run()
    return bench, seen


def thoughts_of(bench: Workbench) -> list[ModelReasoned]:
    bodies = [event.body for log in bench.runs.logs.values() for event in log]
    found = [each for each in bodies if isinstance(each, ModelReasoned)]
    for each in found:
        assert isinstance(bodies[bodies.index(each) - 1], ModelAnswered)
    return found


async def test_thoughts_are_logged_behind_their_answer_and_no_model_is_told() -> None:
    bench, seen = await asked(f"I could use {SECRET} for it.", keeps=True)
    (thought,) = thoughts_of(bench)
    assert thought.text.startswith("I could use ")
    assert SECRET not in thought.text
    assert not any("I could use" in message.content for message in seen[-1])


async def test_thoughts_are_dropped_where_that_is_configured() -> None:
    bench, _ = await asked("I could.", keeps=False)
    assert thoughts_of(bench) == []


async def test_of_endless_thoughts_the_beginning_is_kept() -> None:
    bench, _ = await asked("So it is. " * 10_000, keeps=True)
    (thought,) = thoughts_of(bench)
    assert (len(thought.text), thought.chars) == (MAX_KEPT_CHARS, 100_000)
