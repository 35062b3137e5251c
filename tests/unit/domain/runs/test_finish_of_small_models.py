"""What is asked of a small model that calls a task done: what helps it, and no more."""

from dataclasses import replace

import pytest

from agent_fabric.domain.events import (
    Body,
    Event,
    PackStarted,
    RunCreated,
    SpecialistsRecruited,
    ToolCalled,
    ToolReturned,
)
from agent_fabric.domain.ids import CallId, LaneId, RunId, SpecialistId
from agent_fabric.domain.packs import FinishSpec
from agent_fabric.domain.runs.evolve import fold
from agent_fabric.domain.runs.finish import Doubts, doubts_about
from agent_fabric.domain.runs.task import Budget, Profile
from agent_fabric.testing.workbench import SETTINGS

WHO = SpecialistId("engineering")
LANE = LaneId(WHO)


def doubts(*work: ToolReturned, compact: bool = True) -> Doubts:
    bodies: list[Body] = [
        RunCreated(
            prompt="p",
            specialist_id=WHO,
            model_key="quality",
            network_allowed=False,
            profile=Profile.TASK,
            budget=Budget.of(Profile.TASK),
            workspace="/w",
            sandbox="C",
            policy_version="p",
            fabric_version="v",
        ),
        SpecialistsRecruited(
            specialist_id=WHO,
            specialist_ids=(WHO,),
            required_capabilities=(),
            routing_method="explicit",
            is_task_force=False,
        ),
        PackStarted(
            specialist_id=WHO,
            pack_index=0,
            system_prompt="p",
            opening="o",
            tools=(),
            finish=FinishSpec(parameters={}, needs_proof=True),
            model=replace(SETTINGS, compact=compact),
        ),
    ]
    for each in work:
        bodies += [ToolCalled(tool=each.tool, args={}, call_id=each.call_id), each]
    events = [
        Event(seq, 1.0, None if isinstance(body, RunCreated | SpecialistsRecruited | PackStarted) else LANE, "", body)
        for seq, body in enumerate(bodies)
    ]
    state = fold(RunId("run"), events)
    return doubts_about(state, state.lanes[LANE], {"summary": "done"})


def did(tool: str, *, wrote: str = "", changed: bool = False, proved: str = "") -> ToolReturned:
    files = (wrote,) if wrote else ()
    return ToolReturned(tool=tool, call_id=CallId("c"), result={}, wrote=files, changed=changed, proved=proved)


def test_a_text_that_nothing_can_run_is_not_asked_to_be_proved_but_is_marked() -> None:
    found = doubts(did("write_file", wrote="notes.md", changed=True))
    assert found.unproven
    assert not found.ask_for
    large = doubts(did("write_file", wrote="notes.md", changed=True), compact=False)
    assert large.unproven
    assert not large.ask_for
    assert doubts(did("write_file", wrote="settings.toml", changed=True), compact=False).ask_for


@pytest.mark.proves("AF-124")
def test_a_program_must_be_run_whatever_the_model() -> None:
    for compact in (True, False):
        wrote = did("write_file", wrote="app.py", changed=True)
        assert doubts(wrote, compact=compact).ask_for
        assert doubts(wrote, did("shell", proved="python3 app.py"), compact=compact) == Doubts()


def test_a_small_model_that_has_only_looked_is_asked_once_whether_that_is_all() -> None:
    found = doubts(did("look"))
    assert "changed nothing" in found.ask_for
    assert not found.unproven
    assert doubts(did("look"), compact=False) == Doubts()
