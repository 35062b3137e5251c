"""What each action gives, and what makes it fail."""

from collections.abc import Mapping
from typing import Any

import pytest

from agent_fabric.domain.approvals.answers import Decision
from agent_fabric.domain.events import ToolCalled, ToolReturned
from agent_fabric.domain.ids import LaneId
from agent_fabric.domain.workflows.events import StepFinished, StepStarted
from workflow_world import Gave, World, of, step, workflow


def giving(**by_lane: Gave) -> Any:
    def script(lane: LaneId, _: int, args: Mapping[str, Any]) -> Gave:
        return by_lane.get(lane, Gave(dict(args)))

    return script


def run(*steps: Mapping[str, Any], inputs: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    world = World(workflow(*steps), inputs=inputs or {}, **more)
    return of(world.run())


@pytest.mark.proves("A33-047", "A33-051")
def test_transform_gives_its_inputs_and_they_keep_their_types() -> None:
    got = run(
        step(
            "t",
            "transform",
            inputs={"list": "{{ inputs.l }}", "text": "<{{ inputs.n }}>", "deep": {"n": "{{ inputs.n }}"}},
        ),
        inputs={"l": [1, {"a": None}], "n": 2},
    )
    assert got["t"]["outputs"] == {"list": [1, {"a": None}], "text": "<2>", "deep": {"n": 2}}


def test_own_outputs_are_added_to_what_the_action_gave() -> None:
    got = run(step("t", inputs={"n": 2}, outputs={"twice": "{{ result.n * 2 }}", "said": "it is {{ result.n }}"}))
    assert got["t"]["outputs"] == {"n": 2, "twice": 4, "said": "it is 2"}


def test_an_output_that_has_no_value_fails_the_step_which_is_not_tried_again() -> None:
    world = World(workflow(step("t", inputs={"n": 2}, outputs={"x": "{{ result.m }}"}, retry={"max_attempts": 3})))
    got = of(world.run())
    assert got["t"]["status"] == "failed"
    assert "m" in got["t"]["error"]
    assert world.finished()[LaneId("t")].error_type == "ExpressionError"
    assert len(world.bodies(ToolCalled)) == 1


@pytest.mark.proves("A33-046")
def test_validate_passes_its_inputs_on_if_everything_fits() -> None:
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    check = step(
        "v",
        "validate",
        inputs={"data": "{{ inputs.d }}", "schema": schema, "rules": ["data.n > 1", "limit > data.n"], "limit": 9},
    )
    got = run(check, inputs={"d": {"n": 2}})
    assert got["v"]["outputs"]["data"] == {"n": 2}
    assert got["v"]["outputs"]["limit"] == 9


def test_validate_names_everything_that_is_wrong() -> None:
    schema = {"type": "object", "required": ["n"]}
    rules = [{"rule": "data.m == 1", "message": "m must be one"}, "data.m > 5", "{{ data.m == 2 }}"]
    got = run(step("v", "validate", inputs={"data": {"m": 2}, "schema": schema, "rules": rules}))
    assert got["v"]["error"] == "data.n is missing; m must be one; data.m > 5 does not hold"


def test_validate_names_what_the_schema_says_even_if_a_rule_has_no_value() -> None:
    inputs = {"data": {"m": "2"}, "schema": {"properties": {"m": {"type": "integer"}}}, "rules": ["data.n == 1"]}
    got = run(step("v", "validate", inputs=inputs))
    assert got["v"]["error"] == "data.m must be integer, not string; data.n == 1: 'data' has no field 'n' (it has: m)"


@pytest.mark.parametrize("schema", [{"type": "strng"}, {"minimum": "5"}, {"pattern": "^v"}, "text", {"enum": 5}])
def test_a_schema_that_cannot_be_judged_by_fails_the_step_and_nothing_else(schema: object) -> None:
    got = run(
        step("v", "validate", inputs={"data": 5, "schema": "{{ inputs.schema }}"}),
        step("w", "approve", inputs={"message": "?", "form": {"properties": {"a": "{{ inputs.schema }}"}}}),
        inputs={"schema": schema},
    )
    assert got["v"]["error"].startswith("schema")


@pytest.mark.proves("A33-048")
def test_conditional_runs_one_branch_and_tells_which() -> None:
    def choose(n: int) -> dict[str, Any]:
        return run(
            step(
                "c",
                "conditional",
                condition="inputs.n > 3",
                then=[
                    step("big", "transform", inputs={"v": 1}),
                    step("after", "transform", inputs={"v": "{{ big.v + 1 }}"}),
                ],
                **{"else": [step("small", "transform", inputs={"v": 9})]},
            ),
            step("end", "transform", inputs={"v": "{{ after.v | default('none') }}"}, depends_on=["c"]),
            inputs={"n": n},
        )

    got = choose(4)
    assert got["c"]["outputs"] == {"branch": "then", "big": {"v": 1}, "after": {"v": 2}}
    assert (got["small"]["status"], got["end"]["outputs"]) == ("skipped", {"v": 2})
    got = choose(3)
    assert got["c"]["outputs"] == {"branch": "else", "small": {"v": 9}}
    assert (got["big"]["status"], got["end"]["outputs"]) == ("skipped", {"v": "none"})


def test_a_conditional_without_the_branch_it_needs_chooses_none() -> None:
    got = run(step("c", "conditional", condition="{{ false }}", then=[step("x", "transform", inputs={})]))
    assert got["c"]["outputs"] == {"branch": "none"}
    assert got["c"]["status"] == "success"


@pytest.mark.proves("A33-049")
def test_a_group_gives_the_outputs_of_its_steps_which_later_steps_see_too() -> None:
    got = run(
        step(
            "g",
            "parallel-group",
            steps=[step("a", inputs={"n": 1}), step("b", inputs={"n": "{{ a.n + 1 }}"}, depends_on=["a"])],
        ),
        step("end", "transform", inputs={"v": "{{ g.b.n + b.n }}"}, depends_on=["g"]),
    )
    assert got["g"]["outputs"] == {"a": {"n": 1}, "b": {"n": 2}}
    assert got["end"]["outputs"] == {"v": 4}


def test_for_each_gives_a_list_and_its_steps_see_item_index_and_each_other() -> None:
    body = [
        step("x", inputs={"v": "{{ item * 10 + index }}"}),
        step("y", "transform", inputs={"v": "{{ x.v + inputs.n }}"}),
    ]
    world = World(workflow(step("e", "for-each", inputs={"items": [5, 6]}, steps=body)), inputs={"n": 100})
    got = of(world.run())
    assert got["e"]["outputs"] == {
        "results": [{"x": {"v": 50}, "y": {"v": 150}}, {"x": {"v": 61}, "y": {"v": 161}}],
        "count": 2,
    }
    assert [lane for lane in got if lane.startswith("e[")] == ["e[0].x", "e[0].y", "e[1].x", "e[1].y"]
    assert set(world.run()["outputs"]) == {"e"}, "what belongs to one item is no output of the workflow"


def test_for_each_in_for_each_has_lanes_that_tell_both_items() -> None:
    inner = step(
        "i", "for-each", inputs={"items": "{{ item }}"}, steps=[step("x", "transform", inputs={"v": "{{ item }}"})]
    )
    got = run(step("o", "for-each", inputs={"items": [[1], [2, 3]]}, steps=[inner]))
    assert got["o[1].i[1].x"]["outputs"] == {"v": 3}
    assert got["o"]["outputs"]["results"][1]["i"]["results"] == [{"x": {"v": 2}}, {"x": {"v": 3}}]


@pytest.mark.parametrize(
    ("inputs", "said"), [({"items": "text"}, "must be a list"), ({"items": [1, 2, 3], "max_items": 2}, "at most 2")]
)
def test_for_each_refuses_what_is_no_list_or_too_long(inputs: dict[str, Any], said: str) -> None:
    got = run(step("e", "for-each", inputs=inputs, steps=[step("x", "transform", inputs={})]))
    assert (got["e"]["status"], said in got["e"]["error"]) == ("failed", True)


def test_an_empty_list_an_empty_group_and_an_empty_branch_succeed() -> None:
    got = run(
        step("e", "for-each", inputs={"items": []}, steps=[step("x", "transform", inputs={})]),
        step("g", "parallel-group", steps=[]),
    )
    assert got["e"]["outputs"] == {"results": [], "count": 0}
    assert got["g"]["status"] == "success"


@pytest.mark.proves("A33-045")
def test_a_command_fails_by_its_exit_code_and_says_what_it_said() -> None:
    got = run(
        step("ok", "run-command", command="true"),
        step("bad", "run-command", command="false", depends_on=["ok"]),
        script=giving(
            ok=Gave({"exit_code": 0, "stdout": "fine", "stderr": "", "changed_files": []}),
            bad=Gave({"exit_code": 2, "stdout": "", "stderr": "no such thing\n"}),
        ),
    )
    assert got["ok"]["outputs"] == {"exit_code": 0, "stdout": "fine", "stderr": ""}
    assert got["bad"]["error"] == "exit code 2: no such thing"
    assert got["bad"]["outputs"]["exit_code"] == 2


def test_a_command_that_took_too_long_is_a_timeout() -> None:
    world = World(
        workflow(step("c", "run-command", command="sleep 9")),
        script=giving(
            c=Gave({"exit_code": -9, "stdout": "", "stderr": "", "timed_out": True, "hint": "Ended after 1 s."})
        ),
    )
    assert "Ended after 1 s" in of(world.run())["c"]["error"]
    assert world.finished()[LaneId("c")].error_type == "TimeoutError"


def test_an_output_that_was_cut_for_models_is_whole_for_later_steps() -> None:
    world = World(workflow(step("c", "run-command", command="x")))
    world.run()
    returned = world.bodies(ToolReturned)[0]
    assert isinstance(returned, ToolReturned)
    world = World(workflow(step("c")))
    world.waits_for_nobody = True
    lane = LaneId("c")
    world.record(lane, StepStarted(step_id="c", action="work", attempt=1, inputs={}))
    world.record(lane, ToolCalled(tool="work", args={}, call_id=returned.call_id))
    world.record(lane, ToolReturned(tool="work", result={"cut": 1}, call_id=returned.call_id, whole='{"all": [1, 2]}'))
    assert of(world.run())["c"]["outputs"] == {"all": [1, 2]}


def test_an_http_answer_of_400_or_more_fails_unless_it_is_expected() -> None:
    answers = giving(a=Gave({"status": 404, "body": ""}), b=Gave({"status": 404, "body": ""}), c=Gave({"status": 200}))
    world = World(
        workflow(
            step("a", "http-request", inputs={"url": "http://h/x"}),
            step("b", "http-request", inputs={"url": "http://h/x", "accept_status": [404]}),
            step("c", "http-request", inputs={"url": "http://h/x"}),
            continue_on_error=True,
        ),
        script=answers,
    )
    got = of(world.run())
    assert got["a"]["error"] == "http://h/x answered 404"
    assert world.finished()[LaneId("a")].error_type == "HttpError"
    assert (got["b"]["status"], got["c"]["status"]) == ("success", "success")
    assert {(each.tool, "accept_status" in each.args) for each in world.bodies(ToolCalled)} == {("http_request", False)}


def test_a_custom_action_is_the_tool_of_that_name() -> None:
    world = World(workflow(step("a", "post-message", inputs={"to": "{{ inputs.who }}"})), inputs={"who": "me"})
    world.run()
    called = world.bodies(ToolCalled)[0]
    assert (called.tool, called.args, called.call_id) == ("post-message", {"to": "me"}, "a#1")


def test_a_form_that_is_filled_in_is_an_output() -> None:
    form = {"type": "object", "required": ["version"], "properties": {"version": {"type": "string"}}}
    ask = step("a", "approve", inputs={"message": "Publish?", "form": form})
    got = run(ask, answers=lambda *_: Gave({"version": "1.0"}))
    assert got["a"]["outputs"] == {"approved": True, "by": "someone", "reason": "", "form": {"version": "1.0"}}
    got = run(ask, answers=lambda *_: Gave({"version": 1}))
    assert "form.version must be string" in got["a"]["error"]


def test_a_no_fails_the_step_unless_an_answer_is_all_it_wants() -> None:
    got = run(
        step("a", "approve", inputs={"message": "?", "required": False}),
        step("b", "approve", inputs={"message": "?"}, depends_on=["a"]),
        answers=lambda *_: Gave(decision=Decision.DENY),
    )
    assert got["a"]["outputs"]["approved"] is False
    assert got["b"]["error"] == "refused by someone"


def test_what_fed_an_input_and_an_output_is_recorded() -> None:
    world = World(
        workflow(
            step("a", inputs={"n": 1}),
            step(
                "b",
                inputs={"text": "{{ a.n }} {{ inputs.t }}", "plain": 3},
                outputs={"o": "{{ result.plain }}"},
                depends_on=["a"],
            ),
        ),
        inputs={"t": "x"},
    )
    world.run()
    started = next(body for body in world.bodies(StepStarted) if body.step_id == "b")
    assert started.reads == {"text": ("a.n", "inputs.t")}
    finished = next(body for body in world.bodies(StepFinished) if body.step_id == "b")
    assert finished.reads == {"o": ("result.plain",)}


def test_secrets_stay_references_and_run_and_workflow_are_known() -> None:
    got = run(step("a", "transform", inputs={"s": "{{ secrets.TOKEN }}", "w": "{{ workflow.name }} {{ run.id }}"}))
    assert got["a"]["outputs"]["s"] == "${secret:TOKEN}"
    assert got["a"]["outputs"]["w"].startswith("w 1111")


@pytest.mark.parametrize(
    "form", [5, "x", {"properties": 5}, {"properties": {"a": 5}}, {"type": "object", "required": 5}, {"a": 5}]
)
def test_a_form_that_nobody_could_fill_in_fails_its_step_and_not_the_program(form: Any) -> None:
    got = run(step("a", "approve", inputs={"message": "?", "form": "{{ inputs.form }}"}), inputs={"form": form})
    assert got["a"]["status"] == "failed"
    assert "form must be" in got["a"]["error"]


def test_a_schema_out_of_data_that_makes_no_sense_fails_its_step_and_not_the_program() -> None:
    check = step("v", "validate", inputs={"data": {"a": 1}, "schema": "{{ inputs.schema }}"})
    got = run(check, inputs={"schema": {"properties": {"a": 5}}})
    assert got["v"]["status"] == "failed"
    assert "schema.properties.a must be a JSON Schema" in got["v"]["error"]
