"""When steps start, what a failure does to the others, and what the whole comes to."""

from collections.abc import Mapping
from typing import Any

import pytest

from agent_fabric.domain.events import RunCancelled, RunCompleted, RunFailed, ToolErred
from agent_fabric.domain.ids import LaneId
from agent_fabric.domain.workflows.actions import CallStepTool, StopStep, Wait
from agent_fabric.domain.workflows.decide import decide_workflow
from agent_fabric.domain.workflows.events import StepFinished, StepRetried, StepStarted, StepStatus
from agent_fabric.domain.workflows.fork import results_to_keep
from workflow_world import Gave, World, of, step, workflow


def failing(*lanes: str) -> Any:
    def script(lane: LaneId, _: int, args: Mapping[str, Any]) -> Gave:
        return Gave(error_type="Broken", error="on purpose") if lane in lanes else Gave(dict(args))

    return script


def begun_together(plain: Mapping[str, Any]) -> set[str]:
    """Return the steps that are under way before anything has come back."""
    return begin_all(World(plain))


def begin_all(world: World) -> set[str]:
    """Let everything begin that may; return what is under way."""
    while (action := world._next()) is not None and not isinstance(action, Wait):
        world._perform(action)
    return set(world.flights)


A, B, C = step("a"), step("b", depends_on=["a"]), step("c")


@pytest.mark.proves("C37", "A33-052")
def test_a_step_starts_as_soon_as_its_own_dependencies_are_done() -> None:
    slow = step("slow")
    world = World(workflow(A, slow, B))
    assert begin_all(world) == {"a", "slow"}
    world._land(LaneId("a"))
    assert begin_all(world) == {"slow", "b"}


@pytest.mark.proves("C37", "A33-054")
def test_in_parallel_mode_a_group_waits_for_the_whole_group_before_it() -> None:
    world = World(workflow(A, step("slow"), B, mode="parallel"))
    begin_all(world)
    world._land(LaneId("a"))
    assert world._next() is None or isinstance(world._next().bodies[0], StepFinished)
    world._perform(world._next())
    assert world._next() is None, "slow belongs to the same group as a"
    world._land(LaneId("slow"))
    world.run()
    assert world.place("b", StepStarted) > world.place("slow", StepFinished)


def test_in_sequential_mode_one_step_runs_at_a_time_in_the_order_of_the_file() -> None:
    world = World(workflow(C, A, step("b")), seed=3)
    world.plain["execution"]["mode"] = "sequential"
    world.__post_init__()
    world.run()
    assert world.started() == ["c", "a", "b"]
    assert world.most_at_once == 1


@pytest.mark.proves("A33-053")
def test_four_steps_are_at_work_at_once_unless_the_file_says_otherwise() -> None:
    assert len(begun_together(workflow(*(step(f"s{n}") for n in range(9))))) == 4
    assert len(begun_together(workflow(*(step(f"s{n}") for n in range(40)), parallel_limit=32))) == 32


@pytest.mark.proves("A33-053")
@pytest.mark.parametrize("limit", [1, 3])
def test_the_limit_counts_over_all_groups_and_items(limit: int) -> None:
    group = step("g", "parallel-group", steps=[step(f"g{n}") for n in range(5)])
    each = step("e", "for-each", inputs={"items": list(range(5)), "parallel": 5}, steps=[step("x")])
    world = World(workflow(group, each, *(step(f"s{n}") for n in range(5)), parallel_limit=limit))
    world.run()
    assert world.most_at_once == limit


def test_steps_that_only_wait_do_not_take_up_room() -> None:
    waits = [step(f"w{n}", "wait", inputs={"seconds": 5}) for n in range(3)]
    ask = step("ask", "approve", inputs={"message": "?"})
    assert begun_together(workflow(*waits, ask, A, parallel_limit=1)) == {"a"}


def test_items_of_a_for_each_run_side_by_side_but_one_by_one_in_sequential_mode() -> None:
    each = step("e", "for-each", inputs={"items": [1, 2, 3]}, steps=[step("x")])
    assert begun_together(workflow(each)) == {"e[0].x", "e[1].x", "e[2].x"}
    assert begun_together(workflow(each, mode="sequential")) == {"e[0].x"}
    two = step("e", "for-each", inputs={"items": [1, 2, 3], "parallel": 2}, steps=[step("x")])
    assert begun_together(workflow(two)) == {"e[0].x", "e[1].x"}


def test_of_an_exclusive_agent_only_one_is_at_work() -> None:
    steps = [step(f"s{n}", "invoke-agent", agent="writer") for n in range(3)]
    world = World(workflow(*steps, step("o", "invoke-agent", agent="other")), exclusive=frozenset({"writer"}))
    assert begin_all(world) == {"s0", "o"}
    assert of(world.run())["s2"]["status"] == "success"
    assert world.started() == ["s0", "o", "s1", "s2"]


def test_a_condition_that_does_not_hold_skips_a_step_and_those_who_depend_on_it_run() -> None:
    got = of(World(workflow(step("a", condition="inputs.n > 3"), B), inputs={"n": 1}).run())
    assert (got["a"]["status"], got["a"]["error"], got["b"]["status"]) == ("skipped", None, "success")


def test_nothing_inside_a_skipped_container_runs() -> None:
    group = step("g", "parallel-group", condition="{{ false }}", steps=[step("x")])
    world = World(workflow(group, A))
    assert of(world.run())["x"]["status"] == "skipped"
    assert world.started() == ["a"]


def test_a_condition_without_a_value_fails_the_step_and_names_what_is_missing() -> None:
    world = World(workflow(step("a", condition="inputs.nothing > 3")), inputs={"n": 1})
    assert "nothing" in of(world.run())["a"]["error"]
    assert world.finished()[LaneId("a")].error_type == "ExpressionError"


def test_a_step_sees_only_what_is_sure_to_be_done_before_it() -> None:
    """Else its result would depend on who was faster."""
    peek = step("peek", "transform", inputs={"v": "{{ a.n | default('unknown') }}"})
    slow = step("slow", "transform", inputs={"v": "{{ peek.v }}"}, depends_on=["peek"])
    for seed in range(5):
        got = of(World(workflow(step("a", inputs={"n": 1}), step("z"), peek, slow), seed=seed).run())
        assert got["slow"]["outputs"] == {"v": "unknown"}
    got = of(World(workflow(step("a", inputs={"n": 1}), peek, mode="sequential")).run())
    assert got["peek"]["outputs"] == {"v": 1}


def test_with_continue_on_error_only_what_needs_the_failed_step_is_skipped() -> None:
    steps = [A, B, step("b2", depends_on=["b"]), C]
    result = World(workflow(*steps, continue_on_error=True), script=failing("a")).run()
    got = of(result)
    assert [got[name]["status"] for name in ("a", "b", "b2", "c")] == ["failed", "skipped", "skipped", "success"]
    assert got["b"]["error"] == got["b2"]["error"] == "needs 'a', which failed"
    assert result["status"] == "partial"


def test_without_it_nothing_new_starts_and_what_is_at_work_comes_to_its_end() -> None:
    world = World(workflow(A, C, step("later", depends_on=["c"]), parallel_limit=2), script=failing("a"))
    begin_all(world)
    world._land(LaneId("a"))
    result = world.run()
    got = of(result)
    assert [got[name]["status"] for name in ("a", "c", "later")] == ["failed", "success", "skipped"]
    assert got["later"]["error"] == "not started, because 'a' failed"
    assert (result["status"], result["steps_executed"]) == ("failed", ["a", "c"])


def test_fail_fast_stops_what_is_at_work() -> None:
    world = World(workflow(A, C, fail_fast=True), script=failing("a"))
    begin_all(world)
    world._land(LaneId("a"))
    world._perform(world._next())
    stops = [action for action in decide_workflow(world.wf) if isinstance(action, StopStep)]
    assert [(stop.lane, stop.reason) for stop in stops] == [("c", "was ended because 'a' failed")]
    got = of(world.run())
    assert got["c"]["status"] == "failed"
    assert world.finished()[LaneId("c")].error_type == "Cancelled"


def test_after_a_failure_nobody_is_left_waiting_and_no_question_stays_open() -> None:
    waits = [step("w", "wait", inputs={"event": "never"}), step("p", "approve", inputs={"message": "?"})]
    world = World(
        workflow(*waits, A, step("r", retry={"max_attempts": 9, "delay_seconds": 60})), script=failing("a", "r")
    )
    begin_all(world)
    world._land(LaneId("r"))
    world._perform(world._next())
    world._land(LaneId("a"))
    result = world.run()
    assert world.wf.asked == []
    assert result["status"] == "failed"
    assert {lane: body.error_type for lane, body in world.finished().items()} == {
        "a": "Broken",
        "w": "Cancelled",
        "p": "Cancelled",
        "r": "Broken",
    }


def test_a_failure_inside_fails_every_container_around_it() -> None:
    inner = step("i", "for-each", inputs={"items": [1]}, steps=[step("x"), step("y")])
    group = step("g", "parallel-group", steps=[inner, step("beside")])
    got = of(World(workflow(group, continue_on_error=True), script=failing("i[0].x")).run())
    assert got["i"]["error"] == "item 0: step 'x' failed: on purpose"
    assert got["g"]["error"].startswith("step 'i' failed: item 0")
    assert got["beside"]["status"] == "success"
    assert got["i[0].y"]["status"] == "success", "y does not need x"


def test_failed_items_leave_null_and_the_rest_stands() -> None:
    each = step("e", "for-each", inputs={"items": [1, 2, 3]}, steps=[step("x", inputs={"n": "{{ item }}"})])
    got = of(World(workflow(each, continue_on_error=True), script=failing("e[1].x")).run())
    assert got["e"]["status"] == "failed"
    assert got["e"]["outputs"]["results"] == [{"x": {"n": 1}}, None, {"x": {"n": 3}}]


def test_the_first_failed_item_stops_new_items() -> None:
    each = step("e", "for-each", inputs={"items": list(range(9)), "parallel": 1}, steps=[step("x"), step("y")])
    world = World(workflow(each), script=failing("e[1].x"))
    result = world.run()
    assert world.started() == ["e", "e[0].x", "e[0].y", "e[1].x"]
    assert result["status"] == "failed"


def test_the_message_names_the_step_and_the_hint_says_how_to_go_on() -> None:
    world = World(workflow(A), script=failing("a"))
    world.run()
    ending = world.ending
    assert isinstance(ending, RunFailed)
    assert (ending.code, ending.message) == ("workflow_failed", "The step 'a' failed: on purpose")
    assert "fabric workflow resume" in ending.hint
    assert ending.payload["status"] == "failed"


def test_a_cancelled_workflow_does_nothing_more() -> None:
    world = World(workflow(A))
    world.record(None, RunCancelled(by="me", reason=""))
    assert decide_workflow(world.wf) == ()


@pytest.mark.proves("A33-060")
def test_a_step_is_tried_again_after_its_delay_as_often_as_it_says() -> None:
    retry = {"max_attempts": 3, "delay_seconds": 10, "backoff": 2}
    world = World(workflow(step("a", retry=retry)), script=failing("a"))
    world.run()
    starts = [event.ts for event in world.log if isinstance(event.body, StepStarted)]
    assert [body.delay_s for body in world.bodies(StepRetried)] == [10, 20]
    assert starts[1] - starts[0] >= 10
    assert starts[2] - starts[1] >= 20
    assert world.finished()[LaneId("a")].attempt == 3


def test_success_at_a_later_attempt_is_success() -> None:
    def script(_: LaneId, attempt: int, __: Mapping[str, Any]) -> Gave:
        return Gave({"n": attempt}) if attempt == 2 else Gave(error_type="Broken", error="x")

    got = of(World(workflow(step("a", retry={"max_attempts": 3})), script=script).run())
    assert (got["a"]["status"], got["a"]["outputs"]) == ("success", {"n": 2})


@pytest.mark.parametrize(
    ("on", "error_type", "attempts"),
    [
        ([], "Broken", 3),
        (["Broken"], "Broken", 3),
        (["Other"], "Broken", 1),
        ([], "PermissionError", 1),
        (["Denied"], "Denied", 1),
    ],
)
def test_only_errors_worth_it_are_tried_again(on: list[str], error_type: str, attempts: int) -> None:
    world = World(
        workflow(step("a", retry={"max_attempts": 3, "on": on})),
        script=lambda *_: Gave(error_type=error_type, error="x"),
    )
    world.run()
    assert len(world.bodies(ToolErred)) == attempts


def test_a_huge_backoff_stays_within_the_longest_delay() -> None:
    retry = {"max_attempts": 100, "delay_seconds": 86400, "backoff": 100, "max_delay_seconds": 5}
    world = World(workflow(step("a", retry=retry)), script=failing("a"))
    world.run()
    assert {body.delay_s for body in world.bodies(StepRetried)} == {5}


def test_steps_that_wait_for_each_other_end_the_run_instead_of_hanging() -> None:
    world = World(workflow(step("a", depends_on=["b"]), B))
    world.run()
    assert isinstance(world.ending, RunFailed)
    assert "wait for each other: a, b" in world.ending.message


def test_a_dry_run_runs_nothing_and_lists_every_step_with_what_is_known() -> None:
    world = World(
        workflow(
            step("a", "run-command", command="echo {{ inputs.n }}"),
            step(
                "b", inputs={"x": "{{ inputs.n }}", "y": "{{ a.stdout }}"}, depends_on=["a"], condition="inputs.n > 1"
            ),
            step("g", "parallel-group", steps=[step("inside")]),
            step("e", "for-each", inputs={"items": []}, steps=[step("each", inputs={"n": "{{ item }}"})]),
            dry_run=True,
        ),
        inputs={"n": 2},
    )
    result = world.run()
    assert isinstance(world.ending, RunCompleted)
    assert result["status"] == "skipped"
    assert world.started() == []
    got = of(result)
    assert got["a"]["command"] == "echo 2"
    assert (got["b"]["inputs"], got["b"]["condition"]) == ({"x": 2, "y": "{{ a.stdout }}"}, True)
    assert "inside" in got
    assert got["each"]["inputs"] == {"n": "{{ item }}"}


@pytest.mark.proves("A33-057", "A33-058")
def test_the_result_has_the_agreed_fields_in_the_order_of_the_definition() -> None:
    result = World(workflow(C, A, B)).run()
    assert set(result) == {"outputs", "steps_executed", "step_results", "duration_ms", "status"}
    assert [each["step_id"] for each in result["step_results"]] == ["c", "a", "b"]
    assert set(result["step_results"][0]) == {"step_id", "status", "outputs", "error", "duration_ms"}
    assert isinstance(result["duration_ms"], int)


def test_declared_outputs_are_computed_and_one_without_a_value_fails_the_workflow() -> None:
    world = World(workflow(step("a", inputs={"n": 2}), outputs={"twice": {"value": "{{ a.n * 2 }}"}}))
    assert world.run()["result"] == {"twice": 4}
    world = World(workflow(step("a", condition="false"), outputs={"n": {"value": "{{ a.n }}"}}))
    result = world.run()
    assert (result["status"], result["result"]) == ("failed", {"n": None})
    assert isinstance(world.ending, RunFailed)
    assert "output 'n' has no value" in world.ending.message


def test_all_skipped_is_skipped() -> None:
    world = World(workflow(step("a", condition="false")))
    assert world.run()["status"] == "skipped"
    assert isinstance(world.ending, RunCompleted)


def test_results_of_an_earlier_run_are_taken_over_wherever_they_stand() -> None:
    each = step("e", "for-each", inputs={"items": [1, 2]}, steps=[step("x", inputs={"n": "{{ item }}"}), step("y")])
    group = step("g", "parallel-group", steps=[step("i", inputs={"n": 7})], depends_on=["a"])
    last = step("z", inputs={"n": "{{ i.n + a.n }}"}, depends_on=["g"])
    whole = World(workflow(step("a", inputs={"n": 1}), group, each, last))
    whole.run()
    kept = [
        event for event in whole.log if isinstance(event.body, StepFinished) and event.lane not in ("z", "e", "e[1].y")
    ]
    for events in (kept, kept[::-1]):
        world = World(whole.plain)
        for event in events:
            assert isinstance(event.body, StepFinished)
            body = StepFinished(
                step_id=event.body.step_id,
                attempt=1,
                status=StepStatus.SUCCESS,
                outputs=event.body.outputs,
                reused_from=world.wf.run_id,
            )
            world.record(event.lane, body)
        result = world.run()
        assert sorted(world.started()) == ["e", "e[1].y", "z"]
        assert of(result)["z"]["outputs"] == {"n": 8}
        assert {lane: each["outputs"] for lane, each in of(result).items()} == {
            lane: each["outputs"] for lane, each in of(whole.run()).items()
        }


def test_a_call_that_was_refused_at_once_is_judged_like_any_other() -> None:
    world = World(workflow(A))
    action = decide_workflow(world.wf)[0]
    assert isinstance(action, CallStepTool)
    assert action.started is not None
    erred = ToolErred(
        tool="work", error_type="UnknownTool", error_message="there is no tool", call_id=action.call.call_id
    )
    world.record(LaneId("a"), action.started, erred)
    assert of(world.run())["a"]["error"] == "there is no tool"


def test_an_attempt_that_waits_for_room_when_another_step_fails_is_not_made() -> None:
    steps = [
        step("w", "wait", inputs={"seconds": 1}),
        step("b", depends_on=["w"]),
        step("r", retry={"max_attempts": 3}),
    ]
    world = World(workflow(*steps, parallel_limit=1), script=failing("b", "r"))
    assert begin_all(world) == {"r"}
    world.now += 1
    for lane, fired in world.wf.due(world.now):
        world.record(lane, fired)
    assert begin_all(world) == {"r"}
    world._land(LaneId("r"))
    assert begin_all(world) == {"b"}
    assert world.run()["status"] == "failed"
    assert world.started() == ["w", "r", "b"]
    assert world.finished()[LaneId("r")].error_type == "Broken"


def test_what_was_taken_over_twice_is_still_whole() -> None:
    group = step("g", "parallel-group", steps=[step("i", inputs={"n": 7})])
    last = step("z", inputs={"n": "{{ i.n }}"}, depends_on=["g"])
    world = World(workflow(group, last), script=failing("z"))
    world.run()
    for script in (failing("z"), failing()):
        kept = results_to_keep(world.wf)
        world = World(world.plain, script=script)
        for lane, body in kept:
            world.record(lane, body)
        result = world.run()
        assert world.started() == ["z"]
    assert result["outputs"]["z"] == {"n": 7}
    assert dict(results_to_keep(world.wf, "g")) == {}
