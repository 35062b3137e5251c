"""Runs of agents: one without tools may finish at once, and what it was is read back from the log."""

import json
from dataclasses import asdict
from typing import Any

import pytest

from agent_fabric.domain.events import (
    Body,
    Event,
    GuidanceGiven,
    ModelAnswered,
    PackStarted,
    RunCreated,
    RunFailed,
    SpecialistsRecruited,
    ToolErred,
    ToolReturned,
)
from agent_fabric.domain.ids import CallId, LaneId, RunId, SpecialistId
from agent_fabric.domain.models.events import PlainAnswerAccepted
from agent_fabric.domain.models.messages import ToolCallRequest, Usage
from agent_fabric.domain.packs.contents import FinishSpec
from agent_fabric.domain.runs.actions import Record
from agent_fabric.domain.runs.decide import decide
from agent_fabric.domain.runs.event_versions import body_from, version_of
from agent_fabric.domain.runs.evolve import evolve, fold
from agent_fabric.domain.runs.state import RunState
from agent_fabric.domain.runs.task import AgentBrief, Budget, Profile
from agent_fabric.domain.tools.specs import Effect, ToolSpec
from agent_fabric.testing.workbench import SETTINGS

WHO = SpecialistId("x")
TEXT = {"type": "string"}
LOOK = ToolSpec(name="look", description="d", parameters={}, effect=Effect.READS)
BRIEF = AgentBrief(
    name="x",
    version="1.0.0",
    system_prompt="s",
    prompt="p",
    finish={"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
    capabilities=("file-read", "mcp:y"),
    timeout_s=3.5,
)
CREATED = RunCreated(
    prompt="p",
    specialist_id=WHO,
    specialist_ids=(WHO,),
    model_key="quality",
    network_allowed=True,
    profile=Profile.TASK,
    budget=Budget.of(Profile.TASK),
    workspace="/w",
    sandbox="C",
    policy_version="p",
    fabric_version="v",
    agent=BRIEF,
)


def run(*properties: str, tools: tuple[ToolSpec, ...] = ()) -> RunState:
    """Return a run whose agent has begun and must give these texts."""
    finish = {"type": "object", "properties": dict.fromkeys(properties, TEXT), "required": list(properties)}
    recruited = SpecialistsRecruited(
        specialist_id=WHO,
        specialist_ids=(WHO,),
        required_capabilities=(),
        routing_method="explicit",
        is_task_force=False,
    )
    started = PackStarted(
        specialist_id=WHO,
        pack_index=0,
        system_prompt="s",
        opening="p",
        tools=tools,
        finish=FinishSpec(parameters=finish),
        model=SETTINGS,
    )
    bodies: tuple[Body, ...] = (CREATED, recruited, started)
    return fold(RunId("r"), [Event(seq, 0.0, None, "", body) for seq, body in enumerate(bodies)])


def answer(state: RunState, text: str = "", **finish: Any) -> list[Any]:
    """Let the model answer, with words or by finishing, and return what is recorded about it."""
    calls = (ToolCallRequest(CallId(f"c{state.next_seq}"), "finish_task", json.dumps(finish)),) if finish else ()
    said = ModelAnswered(
        content=text, tool_calls=calls, usage=Usage(1, 1, 0), model="m", finish_reason="stop", duration_s=0.0
    )
    evolve(state, Event(state.next_seq, 0.0, LaneId(WHO), "", said))
    (action,) = decide(state)
    assert isinstance(action, Record)
    for body in action.bodies:
        evolve(state, Event(state.next_seq, 0.0, action.lane, "", body))
    return list(action.bodies)


def test_the_agent_of_a_run_is_read_back_from_its_log() -> None:
    payload = json.loads(json.dumps(asdict(CREATED)))
    assert body_from("run_created", version_of("run_created"), payload) == CREATED
    del payload["agent"]  # as older programs wrote it
    older = body_from("run_created", 1, payload)
    assert isinstance(older, RunCreated)
    assert older.agent is None
    assert CREATED.task.agent == BRIEF


@pytest.mark.proves("A33-022")
def test_an_agent_without_tools_may_finish_at_once() -> None:
    _, returned = answer(run("greeting"), greeting="Hello!")
    assert isinstance(returned, ToolReturned)
    assert returned.result == {"greeting": "Hello!"}


def test_an_agent_with_tools_is_asked_to_use_them_first() -> None:
    state = run("greeting", tools=(LOOK,))
    assert isinstance(answer(state, greeting="Hello!")[1], ToolErred)
    assert isinstance(answer(state, greeting="Hello!")[1], ToolErred)
    assert "unproven" in answer(state, greeting="Hello!")[1].result


def test_words_are_the_only_text_that_was_asked_for() -> None:
    (accepted,) = answer(run("greeting"), "Hello!")
    assert accepted == PlainAnswerAccepted(payload={"greeting": "Hello!"})


@pytest.mark.parametrize(
    "text",
    [
        '{"greeting": "Hi!", "language": "en"}',
        '```json\n{"greeting": "Hi!", "language": "en"}\n```',
        '{"name": "greet", "arguments": {"greeting": "Hi!", "language": "en"}}',
    ],
)
def test_a_result_that_is_written_out_as_json_is_taken(text: str) -> None:
    (accepted,) = answer(run("greeting", "language"), text)
    assert accepted == PlainAnswerAccepted(payload={"greeting": "Hi!", "language": "en"})


@pytest.mark.parametrize("text", ['{"name": "greeting", "arguments": {"greeting": "Ada"}', '{"other": "x"}', "{"])
def test_a_call_that_went_wrong_is_no_text(text: str) -> None:
    (guidance,) = answer(run("greeting"), text)
    assert isinstance(guidance, GuidanceGiven)
    assert "greeting is missing" in guidance.message


def test_words_are_not_enough_where_more_was_promised() -> None:
    state = run("greeting", "language")
    for _ in range(2):
        (guidance,) = answer(state, "Hello!")
        assert isinstance(guidance, GuidanceGiven)
        assert "greeting is missing; language is missing" in guidance.message
    (failed,) = answer(state, "Hello!")
    assert isinstance(failed, RunFailed)
    assert failed.code == "outputs_missing"
