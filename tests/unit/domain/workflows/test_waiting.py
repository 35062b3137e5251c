"""Time, signals, people and other runs: what a workflow waits for, also across crashes."""

from collections.abc import Mapping
from typing import Any

import pytest

from agent_fabric.domain.approvals.answers import Decision, OnDoubt, Question
from agent_fabric.domain.approvals.events import ApprovalDecided
from agent_fabric.domain.events import RunFailed, RunResumed, RunWaited, ToolCalled
from agent_fabric.domain.ids import LaneId, RunId
from agent_fabric.domain.workflows.actions import AskAboutStep, AskPerson, CallStepTool, RunChild, StopStep, Wait
from agent_fabric.domain.workflows.child_run_ids import child_run_id
from agent_fabric.domain.workflows.decide import decide_workflow
from agent_fabric.domain.workflows.events import (
    ChildFinished,
    SignalReceived,
    StepFinished,
    StepStarted,
    StepWaited,
    TimerFired,
)
from workflow_world import RUN, Gave, World, of, step, workflow

RESUMED = RunResumed(by="person", driver="test")


def settled(world: World) -> World:
    """Drive as far as it goes without anything from outside."""
    while (action := world._next()) is not None and not isinstance(action, Wait):
        world._perform(action)
    return world


def waiting(world: World) -> Wait:
    (action,) = decide_workflow(settled(world).wf)
    assert isinstance(action, Wait)
    return action


def killed(world: World) -> World:
    """Forget everything but the log, and go on from there."""
    world.flights.clear()
    world.wf = world.folded(world.log)
    world.record(None, RESUMED)
    return world


@pytest.mark.proves("C35", "A33-050")
def test_a_wait_of_some_seconds_keeps_its_clock_through_a_crash() -> None:
    world = World(workflow(step("w", "wait", inputs={"seconds": 60})))
    assert waiting(world).until == 1_060
    world.now = 1_030
    assert waiting(killed(world)).until == 1_060
    assert world.wf.due(1_059) == []
    world.now = 1_060
    assert world.wf.due(world.now) == [("w", TimerFired(step_id="w", purpose="wait"))]
    assert of(world.run())["w"]["outputs"] == {"waited_for": "seconds"}


@pytest.mark.parametrize("until", [5_000, "1970-01-01T01:23:20Z", "1970-01-01T01:23:20", "1970-01-01T02:23:20+01:00"])
@pytest.mark.proves("C35")
def test_a_wait_until_a_moment(until: Any) -> None:
    world = World(workflow(step("w", "wait", inputs={"until": until})))
    assert waiting(world).until == 5_000
    assert of(world.run())["w"]["outputs"] == {"waited_for": "until"}


@pytest.mark.parametrize("inputs", [{"seconds": "soon"}, {"seconds": -1}, {"seconds": "nan"}, {"until": "tomorrow"}])
def test_a_wait_for_nonsense_fails_in_words(inputs: dict[str, Any]) -> None:
    got = of(World(workflow(step("w", "wait", inputs=inputs))).run())
    assert (got["w"]["status"], "must be a " in got["w"]["error"]) == ("failed", True)


@pytest.mark.proves("C35")
def test_a_signal_goes_to_who_has_waited_longest() -> None:
    steps = [step(name, "wait", inputs={"event": "go"}) for name in ("first", "second")]
    world = World(workflow(*steps))
    assert waiting(world).reason == "waits for the signal 'go'"
    world.record(None, SignalReceived(name="other"))
    world.record(None, SignalReceived(name="go", data={"n": 1}, by="me"))
    settled(world)
    assert list(world.finished()) == ["first"]
    assert world.finished()[LaneId("first")].outputs == {"waited_for": "event", "data": {"n": 1}, "by": "me"}


def test_a_signal_that_comes_early_is_kept_even_through_a_crash() -> None:
    world = World(workflow(step("a"), step("w", "wait", inputs={"event": "go"}, depends_on=["a"])))
    settled(world).record(None, SignalReceived(name="go", data={"n": 2}))
    world._land(LaneId("a"))
    killed(world)
    assert of(world.run())["w"]["outputs"]["data"] == {"n": 2}


def test_a_wait_that_takes_too_long_fails() -> None:
    world = World(workflow(step("w", "wait", inputs={"event": "never", "timeout": 30})))
    assert waiting(world).until == 1_030
    got = of(world.run())
    assert got["w"]["error"] == "took longer than 30 s"
    assert world.finished()[LaneId("w")].error_type == "TimeoutError"


@pytest.mark.proves("C35")
def test_a_wait_for_a_person_asks_and_tells_who_agreed() -> None:
    world = World(workflow(step("w", "wait", inputs={"approval": "Go on?"})))
    action = decide_workflow(world.wf)[0]
    assert isinstance(action, AskPerson)
    assert (action.message, action.form, action.timeout_s) == ("Go on?", {}, None)
    assert waiting(world).approvals == (world.wf.asked[0].approval_id,)
    assert of(world.run())["w"]["outputs"] == {
        "waited_for": "approval",
        "approved": True,
        "by": "someone",
        "reason": "",
    }


def test_a_question_is_asked_once_even_if_the_program_dies_right_before_it() -> None:
    world = World(workflow(step("a", "approve", inputs={"message": "{{ inputs.m }}"}, timeout=60)), inputs={"m": "ok?"})
    action = decide_workflow(world.wf)[0]
    assert isinstance(action, AskPerson)
    assert action.started is not None
    assert action.timeout_s == 60
    world.record(LaneId("a"), action.started)
    again = decide_workflow(killed(world).wf)[0]
    assert isinstance(again, AskPerson)
    assert (again.started, again.message) == (None, "ok?")
    settled(world)
    assert not [action for action in decide_workflow(killed(world).wf) if isinstance(action, AskPerson)]


def test_a_question_that_nobody_answers_in_time_fails_the_step() -> None:
    world = World(workflow(step("a", "approve", inputs={"message": "?"}, timeout=60)), waits_for_nobody=True)
    got = of(world.run())
    assert got["a"]["error"] == "took longer than 60 s"
    assert world.wf.asked == []


def test_a_call_that_needs_agreement_runs_when_it_has_it() -> None:
    world = World(workflow(step("a", inputs={"n": 1})), asks=frozenset({"a"}))
    waiting(world)
    assert world.bodies(ToolCalled) == []
    world.decide(LaneId("a"), Gave())
    (action,) = decide_workflow(world.wf)
    assert isinstance(action, CallStepTool)
    assert action.started is None
    assert world.wf.call_of(LaneId("a")).number == action.attempt == 1
    assert of(world.run())["a"]["status"] == "success"


@pytest.mark.parametrize(("decision", "error_type"), [(Decision.DENY, "Denied"), (Decision.EXPIRED, "ApprovalExpired")])
def test_a_call_that_is_refused_is_not_made_and_not_tried_again(decision: Decision, error_type: str) -> None:
    world = World(
        workflow(step("a", retry={"max_attempts": 5})),
        asks=frozenset({"a"}),
        answers=lambda *_: Gave(decision=decision),
    )
    world.run()
    assert world.bodies(ToolCalled) == []
    assert world.finished()[LaneId("a")].error_type == error_type


def test_an_answer_to_something_else_changes_nothing() -> None:
    world = World(workflow(step("a")), asks=frozenset({"a"}))
    settled(world)
    asked = world.wf.asked[0]
    world.decide(LaneId("a"), Gave())
    before = world.folded(world.log)
    (stale,) = world.bodies(ApprovalDecided)
    world.record(LaneId("a"), stale)
    assert asked.approval_id == stale.approval_id
    assert world.wf.steps[LaneId("a")].phase is before.steps[LaneId("a")].phase


def in_doubt(**more: Any) -> World:
    world = settled(World(workflow(step("a", inputs={"n": 1}, **more), step("b", depends_on=["a"]))))
    return killed(world)


@pytest.mark.proves("A33-059")
def test_a_call_in_doubt_is_made_again_only_if_that_does_no_harm() -> None:
    (action,) = decide_workflow(in_doubt(idempotent=True).wf)
    assert isinstance(action, CallStepTool)
    assert (action.started, action.call.call_id) == (None, "a#1")
    (action,) = decide_workflow(in_doubt().wf)
    assert isinstance(action, AskAboutStep)
    assert action.call.arguments == '{"n": 1}'


@pytest.mark.proves("WB-12")
def test_a_call_in_doubt_is_skipped_if_its_run_was_told_so() -> None:
    world = in_doubt()
    world.wf.on_doubt = OnDoubt.SKIP
    got = of(world.run())
    assert (got["a"]["status"], got["b"]["status"]) == ("skipped", "success")
    assert "may have happened" in got["a"]["error"]
    assert (world.wf.asked, len(world.bodies(ToolCalled))) == ([], 2)


def test_a_person_can_have_it_made_again_count_it_as_done_or_skip_it() -> None:
    def answered(decision: Decision) -> tuple[World, dict[str, Any]]:
        world = settled(in_doubt())
        assert world.wf.asked[0].question is Question.DID_IT_HAPPEN
        world.decide(LaneId("a"), Gave(decision=decision))
        return world, of(world.run())

    world, got = answered(Decision.APPROVE)
    assert (got["a"]["outputs"], len(world.bodies(ToolCalled))) == ({"n": 1}, 3)
    world, got = answered(Decision.DONE)
    assert got["a"]["outputs"] == {"counted_as_done": True, "by": "someone", "reason": ""}
    world, got = answered(Decision.DENY)
    assert (got["a"]["status"], got["b"]["status"]) == ("skipped", "success")
    world, got = answered(Decision.EXPIRED)
    assert got["a"]["status"] == "failed"


def test_a_second_crash_asks_a_second_time() -> None:
    world = settled(in_doubt())
    first = world.wf.asked[0]
    world.decide(LaneId("a"), Gave())
    settled(world)
    killed(world)
    assert isinstance(decide_workflow(world.wf)[0], AskAboutStep)
    assert world.wf.call_of(LaneId("a")).attempt == 2
    assert settled(world).wf.asked[0].approval_id != first.approval_id


def test_a_retry_keeps_its_count_and_its_delay_through_a_crash() -> None:
    world = World(
        workflow(step("a", retry={"max_attempts": 2, "delay_seconds": 100})),
        script=lambda *_: Gave(error_type="Broken", error="x"),
    )
    settled(world)._land(LaneId("a"))
    settled(world)
    due = world.wf.next_due
    assert waiting(killed(world)).until == due
    world.run()
    assert world.finished()[LaneId("a")].attempt == 2


AGENT = step("a", "invoke-agent", agent="writer", inputs={"topic": "{{ inputs.t }}"})


@pytest.mark.proves("A33-044")
def test_an_agent_is_a_run_of_its_own_whose_result_is_the_output() -> None:
    world = World(workflow(AGENT), inputs={"t": "x"}, script=lambda *_: Gave({"summary": "done"}))
    (action,) = decide_workflow(world.wf)
    assert isinstance(action, RunChild)
    assert (action.kind, action.name, action.inputs, action.begun) == ("agent", "writer", {"topic": "x"}, False)
    assert action.started.child_run_id == child_run_id(RUN, LaneId("a"), 1)
    settled(world)
    assert world.wf.open_children == {"a": action.started.child_run_id}
    assert decide_workflow(world.wf) == (), "it is at work"
    assert of(world.run())["a"]["outputs"] == {"summary": "done"}
    assert world.wf.open_children == {}


def test_after_a_crash_a_child_is_continued_never_in_doubt() -> None:
    world = settled(World(workflow(AGENT), inputs={"t": "x"}))
    (action,) = decide_workflow(killed(world).wf)
    assert isinstance(action, RunChild)
    assert action.begun
    assert of(world.run())["a"]["status"] == "success"
    assert len(world.bodies(StepStarted)) == 1


def test_a_child_that_waits_for_somebody_lets_its_parent_wait() -> None:
    world = settled(World(workflow(AGENT, step("b"), parallel_limit=1), inputs={"t": "x"}))
    world.flights.clear()
    world.record(LaneId("a"), StepWaited(step_id="a", attempt=1, approvals=("q1",)))
    settled(world)
    assert set(world.flights) == {"b"}, "what waits takes up no room"
    world._land(LaneId("b"))
    assert waiting(world).approvals == ("q1",)
    (action,) = decide_workflow(killed(world).wf)
    assert isinstance(action, RunChild)


def test_many_children_left_alone_are_continued_a_few_at_a_time() -> None:
    steps = [step(f"s{n}", "invoke-agent", agent="x") for n in range(20)]
    world = World(workflow(*steps, parallel_limit=3))
    for _ in range(20):
        settled(world)
        for lane in list(world.flights):
            del world.flights[lane]
            world.record(lane, StepWaited(step_id=lane, attempt=1))
    killed(world)
    assert len(decide_workflow(world.wf)) == 3
    world.run()
    assert world.most_at_once == 3
    assert len(world.finished()) == 20


@pytest.mark.parametrize(
    ("status", "code", "error_type"),
    [("failed", "budget_exhausted", "budget_exhausted"), ("cancelled", "", "Cancelled")],
)
def test_a_child_that_fails_fails_its_step(status: str, code: str, error_type: str) -> None:
    world = settled(World(workflow(AGENT), inputs={"t": "x"}))
    child = world.wf.open_children[LaneId("a")]
    world.flights.clear()
    world.record(LaneId("a"), ChildFinished(step_id="a", child_run_id=RunId("another"), run_status="completed"))
    assert decide_workflow(world.wf) == (), "that was not its child"
    world.record(
        LaneId("a"), ChildFinished(step_id="a", child_run_id=child, run_status=status, error="x", error_type=code)
    )
    world.run()
    assert world.finished()[LaneId("a")].error_type == error_type


def test_a_workflow_as_a_step_gives_its_declared_outputs_else_all() -> None:
    call = step("a", "workflow", workflow="other", inputs={})
    payload: dict[str, Any] = {
        "outputs": {"x": {"n": 1}},
        "step_results": [],
        "steps_executed": [],
        "status": "success",
    }
    assert of(World(workflow(call), script=lambda *_: Gave(payload)).run())["a"]["outputs"] == {"x": {"n": 1}}
    payload = {**payload, "result": {"n": 2}}
    assert of(World(workflow(call), script=lambda *_: Gave(payload)).run())["a"]["outputs"] == {"n": 2}


def test_each_attempt_has_a_child_of_its_own() -> None:
    world = World(
        workflow({**AGENT, "retry": {"max_attempts": 2}}),
        inputs={"t": "x"},
        script=lambda _, attempt, __: Gave({"n": attempt}) if attempt > 1 else Gave(error_type="x", error="x"),
    )
    world.run()
    assert len({body.child_run_id for body in world.bodies(StepStarted)}) == 2


def test_a_child_that_takes_too_long_is_stopped_and_may_be_tried_again() -> None:
    world = World(workflow({**AGENT, "timeout": 10, "retry": {"max_attempts": 2}}), inputs={"t": "x"}, patient=True)
    settled(world)
    assert world.wf.next_due == 1_010
    world.now = 1_010
    for lane, fired in world.wf.due(world.now):
        world.record(lane, fired)
    (action,) = decide_workflow(world.wf)
    assert isinstance(action, StopStep)
    assert (action.reason, action.ended.error_type) == ("took longer than 10 s", "TimeoutError")
    assert of(world.run())["a"]["status"] == "success"
    assert len(world.bodies(StepStarted)) == 2


def test_a_container_that_takes_too_long_stops_everything_inside() -> None:
    inner = step("i", "parallel-group", steps=[step("y"), step("w", "wait", inputs={"event": "never"})])
    group = step("g", "parallel-group", timeout=10, steps=[step("x"), inner, step("later", depends_on=["x"])])
    world = settled(World(workflow(group, step("beside"), continue_on_error=True), waits_for_nobody=True))
    world.now = 1_010
    got = of(world.run())
    assert got["g"]["error"] == "took longer than 10 s"
    assert {lane: body.error_type for lane, body in world.finished().items()} == {
        "x": "Cancelled",
        "y": "Cancelled",
        "w": "Cancelled",
        "i": "Cancelled",
        "g": "TimeoutError",
        "beside": "",
    }
    assert got["later"]["status"] == "skipped"


def test_the_whole_has_a_timeout_that_stops_everything() -> None:
    world = settled(World(workflow(step("a"), step("b", depends_on=["a"]), timeout=10)))
    assert world.wf.next_due == 1_010
    world.now = 1_011
    result = world.run()
    assert isinstance(world.ending, RunFailed)
    assert world.ending.code == "TimeoutError"
    assert (result["status"], of(result)["b"]["status"]) == ("failed", "skipped")
    assert world.finished()[LaneId("a")].error_type == "Cancelled"


def test_time_in_which_nobody_drives_the_run_does_not_count() -> None:
    world = settled(World(workflow(step("a"), step("p", "approve", inputs={"message": "?"}), timeout=10), patient=True))
    world.now = 1_004
    world._land(LaneId("a"))
    settled(world)
    world.record(None, RunWaited(reason="a person"))
    assert world.wf.next_due is None
    world.now = 9_000
    killed(world)
    assert world.wf.driven_s == pytest.approx(4)
    assert world.wf.deadline == 9_006
    world.now = 9_003
    assert world.run()["status"] == "success"


def test_a_moment_that_nobody_waits_for_any_more_changes_nothing() -> None:
    world = settled(World(workflow(step("w", "wait", inputs={"event": "go", "timeout": 5}), step("a"))))
    world.record(None, SignalReceived(name="go"))
    settled(world)
    assert world.wf.next_due is None
    before = len(world.finished())
    world.record(LaneId("w"), TimerFired(step_id="w", purpose="timeout"))
    assert len(world.finished()) == before


def test_a_crash_between_a_start_and_what_follows_from_it_leaves_nothing_undone() -> None:
    lonely: Mapping[str, Mapping[str, Any]] = {
        "t": step("t", "transform", inputs={"n": 1}),
        "v": step("v", "validate", inputs={"data": 1, "rules": ["data == 1"]}),
        "w": step("w", "wait", inputs={"seconds": 1}),
        "c": step("c", "run-command", command="echo"),
        "g": step("g", "parallel-group", steps=[]),
    }
    for name, one in lonely.items():
        world = World(workflow(one), crash_at=frozenset({0}))
        world.run()
        assert world.crashes == 1
        assert world.finished()[LaneId(name)].status.value == "success"
        assert len(world.bodies(StepStarted)) == len(world.bodies(StepFinished)) == 1


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"seconds": -1}, "seconds must be a number from 0 to 3162240000, not -1"),
        ({"seconds": 1e300}, "seconds must be a number"),
        ({"seconds": 10**400}, "seconds must be a number"),
        ({"seconds": True}, "seconds must be a number"),
        ({"until": 1_767_225_600_000}, "until must be a moment, not 1767225600000 (Write 2026-12-24T18:00:00Z, or"),
        ({"until": "tomorrow"}, "until must be a moment, not 'tomorrow'"),
        ({"event": "x", "timeout": 1e300}, "timeout must be a number"),
    ],
)
def test_a_wait_that_nobody_could_tell_the_end_of_fails_its_step(inputs: dict[str, Any], told: str) -> None:
    given = {name: "{{ inputs." + name + " }}" for name in inputs}
    got = of(World(workflow(step("w", "wait", inputs=given)), inputs=inputs).run())
    assert got["w"]["status"] == "failed"
    assert got["w"]["error"].startswith(told)
    assert len(got["w"]["error"]) < 200
