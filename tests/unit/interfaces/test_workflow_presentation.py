"""How workflows look: lines for people while they run, graphs, forms, and where values came from."""

import io
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_fabric.application.ports.approvals import ApprovalCard, ApprovalStatus
from agent_fabric.domain.approvals.answers import Question
from agent_fabric.domain.approvals.events import ApprovalRequested
from agent_fabric.domain.errors import ApprovalRefused, InvalidInputs
from agent_fabric.domain.events import Body, Event, ToolCalled
from agent_fabric.domain.ids import CallId, LaneId, RunId
from agent_fabric.domain.workflows.definition import WorkflowDefinition, definition_from
from agent_fabric.domain.workflows.events import (
    ChildFinished,
    SignalReceived,
    StepFinished,
    StepRetried,
    StepStarted,
    StepStatus,
    StepWaited,
    TimerFired,
)
from agent_fabric.interfaces.cli.approvals.approval_card import shown_card
from agent_fabric.interfaces.cli.runs.step_lines import StepLines, seconds
from agent_fabric.interfaces.cli.runs.view import LiveView
from agent_fabric.interfaces.cli.workflows.workflow_runs import dry_run
from agent_fabric.interfaces.cli.workflows.workflow_summary import how_to_go_on, workflow_summary
from agent_fabric.interfaces.views.approvals import fields_of, filled_in
from agent_fabric.interfaces.views.workflows.graph import graph_dot, graph_mermaid, graph_text
from agent_fabric.interfaces.views.workflows.lineage import fed_by, feeds, lineage_of, require_known
from unit.interfaces.test_presentation import Terminal

RUN, CHILD = RunId("run-0"), RunId("c1d2e3f4-child")
HARMFUL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]")
ANYTHING = st.text(st.characters())


def event(body: Body, lane: str | None = "fetch", ts: float = 0.0) -> Event:
    return Event(0, ts, None if lane is None else LaneId(lane), "", body)


def started(**more: Any) -> StepStarted:
    given: dict[str, Any] = {"step_id": "fetch", "action": "run-command", "attempt": 1, "inputs": {}, **more}
    return StepStarted(**given)


def finished(status: StepStatus = StepStatus.SUCCESS, **more: Any) -> StepFinished:
    given: dict[str, Any] = {"step_id": "fetch", "attempt": 1, **more}
    return StepFinished(status=status, **given)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (started(inputs={"command": "git log"}), "▸ fetch  run-command git log"),
        (started(attempt=2), "▸ fetch  run-command  (attempt 2)"),
        (started(action="workflow", child_run_id=CHILD), f"▸ fetch  workflow  run {CHILD}"),
        (finished(), "✓ fetch"),
        (finished(StepStatus.SKIPPED), "– fetch  skipped: its condition does not hold"),
        (finished(StepStatus.SKIPPED, error="needs 'a', which failed"), "– fetch  skipped: needs 'a', which failed"),
        (
            finished(StepStatus.FAILED, error="exit code 1", error_type="CommandFailed"),
            "✗ fetch  CommandFailed: exit code 1",
        ),
        (finished(reused_from=RUN), "= fetch  kept from run run-0"),
        (
            StepRetried(step_id="fetch", attempt=1, error="no", error_type="HttpError", delay_s=2.0),
            "✗ fetch  HttpError: no  (attempt 1, again in 2.0 s)",
        ),
        (StepWaited(step_id="fetch", attempt=1, seconds=90.0), "… fetch  waits 1 min 30 s"),
        (
            StepWaited(step_id="fetch", attempt=1, event="go", timeout_s=5.0),
            "… fetch  waits for the signal 'go', at most 5.0 s",
        ),
        (StepWaited(step_id="fetch", attempt=1, approvals=("1",)), "… fetch  waits, because its run needs a person"),
        (SignalReceived(name="go", by="ada"), "… signal 'go' from ada"),
        (TimerFired(step_id="fetch", purpose="wait"), None),
        (ChildFinished(step_id="fetch", child_run_id=CHILD, run_status="completed"), None),
    ],
)
def test_what_happens_to_a_step_is_one_line(body: Body, line: str | None) -> None:
    assert StepLines(io.StringIO()).line(RUN, event(body)) == line


def test_a_step_tells_how_long_it_took_over_all_attempts() -> None:
    lines = StepLines(io.StringIO())
    lines.line(RUN, event(started(), ts=10.0))
    assert lines.is_step(RUN, LaneId("fetch"))
    lines.line(RUN, event(started(attempt=2), ts=12.0))
    assert lines.line(RUN, event(finished(attempt=2), ts=13.25)) == "✓ fetch  3.2 s"
    assert not lines.is_step(RUN, LaneId("fetch"))


def test_marks_are_plain_where_the_stream_knows_only_ascii() -> None:
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    assert StepLines(ascii_only).line(RUN, event(finished())) == "+ fetch"


@pytest.mark.parametrize(
    ("duration", "said"),
    [(0.04, "0.0 s"), (59.0, "59.0 s"), (60.0, "1 min"), (200.0, "3 min 20 s"), (7500.0, "2 h 5 min")],
)
def test_durations_are_written_as_people_read_them(duration: float, said: str) -> None:
    assert seconds(duration) == said


def shown_live(events: Sequence[tuple[RunId, Sequence[Event]]], *, verbose: bool = False) -> list[str]:
    stream = io.StringIO()
    view = LiveView(stream, verbose=verbose)
    for run_id, batch in events:
        view.publish(run_id, batch)
    return stream.getvalue().splitlines()


def test_a_step_that_ends_in_the_same_breath_has_one_line() -> None:
    assert shown_live([(RUN, [event(started()), event(finished())])]) == ["✓ fetch  0.0 s"]
    assert len(shown_live([(RUN, [event(started())]), (RUN, [event(finished())])])) == 2


def test_lines_of_a_run_that_works_for_a_step_are_indented_under_its_id() -> None:
    deeper = RunId("99887766-deeper")
    lines = shown_live(
        [
            (RUN, [event(started(child_run_id=CHILD))]),
            (CHILD, [event(started(child_run_id=deeper), "inner")]),
            (deeper, [event(finished(), "deep")]),
            (CHILD, [event(finished(), "inner")]),
            (RUN, [event(finished())]),
        ]
    )
    assert lines[1].startswith("    c1d2e3f4  ▸ inner")
    assert lines[2] == "        99887766  ✓ deep"
    assert lines[3].startswith("    c1d2e3f4  ✓ inner")
    assert lines[4].startswith("✓ fetch")


@given(ANYTHING, ANYTHING)
def test_nothing_in_a_step_steers_the_terminal(name: str, text: str) -> None:
    bodies: list[Body] = [
        started(inputs={"command": text}, action=name),
        StepRetried(step_id=name, attempt=1, error=text, error_type=name, delay_s=0.0),
        StepWaited(step_id=name, attempt=1, event=text),
        SignalReceived(name=name, by=text),
        finished(StepStatus.FAILED, error=text, error_type=name),
    ]
    for verbose in (False, True):
        shown = "\n".join(shown_live([(RUN, [event(each, name)]) for each in bodies], verbose=verbose))
        assert not HARMFUL.search(shown)


DEFINITION = {
    "name": "demo",
    "version": "1",
    "inputs": {"n": {"type": "integer", "default": 2}},
    "steps": [
        {"id": "a", "action": "run-command", "command": 'echo "{{ inputs.n }}"'},
        {"id": "b", "action": "transform", "inputs": {"x": "{{ a.stdout }}"}, "depends_on": ["a"]},
        {
            "id": "c",
            "action": "conditional",
            "condition": 'b.x == "1"',
            "depends_on": ["b"],
            "then": [{"id": "d", "action": "transform", "inputs": {"y": 1}}],
            "else": [
                {"id": "e", "action": "transform", "inputs": {"y": 2}},
                {"id": "f", "action": "wait", "inputs": {"seconds": 1}},
            ],
        },
        {
            "id": "g",
            "action": "for-each",
            "inputs": {"items": [1, 2]},
            "steps": [{"id": "h", "action": "run-command", "command": "echo {{ item }}"}],
        },
        {
            "id": "p",
            "action": "parallel-group",
            "depends_on": ["g"],
            "steps": [
                {"id": "q", "action": "transform", "inputs": {"z": 1}},
                {"id": "r", "action": "transform", "inputs": {"z": 2}, "depends_on": ["q"]},
            ],
        },
    ],
}


def definition(plain: Mapping[str, Any] = DEFINITION) -> WorkflowDefinition:
    return definition_from(plain)


def test_the_graph_as_text_tells_levels_branches_and_what_is_waited_for() -> None:
    assert graph_text(definition()).splitlines() == [
        '  1  a    run-command     echo "{{ inputs.n }}"',
        "  1  g    for-each        [1, 2]",
        "  .    h  run-command     echo {{ item }}",
        "  2  b    transform  after a",
        "  2  p    parallel-group  after g",
        "  1    q  transform",
        "  2    r  transform  after q",
        '  3  c    conditional  if b.x == "1"  after b',
        "      then:",
        "  .    d  transform",
        "      else:",
        "  .    e  transform",
        "  .    f  wait            1",
    ]


def test_the_graph_for_other_programs_has_every_step_and_every_arrow() -> None:
    mermaid = graph_mermaid(definition())
    for arrow in (
        "s_a --> s_b",
        "s_b --> s_c",
        "s_c -.->|then| s_d",
        "s_c -.->|else| s_e",
        "s_e --> s_f",
        "s_q --> s_r",
    ):
        assert f"  {arrow}\n" in mermaid
    assert 's_c{"c<br/>b.x == #34;1#34;"}' in mermaid
    dot = graph_dot(definition())
    assert '"a" -> "b";' in dot
    assert '"c" -> "d" [style=dashed, label="then"];' in dot
    assert r'label="c\nb.x == \"1\""' in dot


def test_in_sequential_mode_steps_are_drawn_one_after_another() -> None:
    sequential = definition({**DEFINITION, "execution": {"mode": "sequential"}})
    assert "  s_a --> s_b\n" in graph_mermaid(sequential)
    assert "  s_c --> s_g\n" in graph_mermaid(sequential)
    assert graph_text(sequential).splitlines()[0].startswith("  .  a")


def test_a_dry_run_resolves_what_the_inputs_tell_and_lists_what_is_inside() -> None:
    result = dry_run(definition(), {"n": 3})
    entries = {each["step_id"]: each for each in result["step_results"]}
    assert list(entries) == ["a", "g", "h", "b", "p", "q", "r", "c", "d", "e", "f"]
    assert entries["a"]["command"] == "echo 3"
    assert entries["b"]["inputs"] == {"x": "{{ a.stdout }}"}
    assert entries["h"]["command"] == "echo {{ item }}"
    assert entries["c"]["condition"] == 'b.x == "1"'
    assert (result["status"], result["outputs"], result["steps_executed"]) == ("skipped", {}, [])


def test_a_dry_run_leaves_as_written_whatever_needs_a_step_that_has_not_run() -> None:
    base = "{{ inputs.since or a.stdout | default('') | trim }}..HEAD"
    steps = [
        {"id": "a", "action": "run-command", "command": "git describe", "condition": "not inputs.since"},
        {"id": "b", "action": "run-command", "command": f"git log {base}", "depends_on": ["a"]},
        {
            "id": "c",
            "action": "transform",
            "depends_on": ["b"],
            "condition": "b is defined and inputs.n > 1",
            "inputs": {
                "none": "{{ b.x | default(none) }}",
                "half": "{{ inputs.n }}: {{ b.stdout | default('') }}",
                "run": "{{ run.id }}",
                "inside": [{"known": "{{ inputs.n + 1 }}", "of": "{{ workflow.name }}"}],
            },
        },
        {"id": "d", "action": "transform", "depends_on": ["b"], "condition": "inputs.n > 5 and b.stdout"},
        {
            "id": "e",
            "action": "for-each",
            "inputs": {"items": [1]},
            "steps": [{"id": "f", "action": "transform", "inputs": {"at": "{{ index | default(0) }}"}}],
        },
    ]
    plain = {"name": "dry", "inputs": {"n": "integer", "since": "string"}, "steps": steps}

    def foreseen(**inputs: Any) -> dict[str, Any]:
        return {each["step_id"]: each for each in dry_run(definition(plain), inputs)["step_results"]}

    unknown = foreseen(n=2, since="")
    assert unknown["a"]["condition"] is True
    assert unknown["b"]["command"] == f"git log {base}"
    assert unknown["c"]["condition"] == "b is defined and inputs.n > 1"
    assert unknown["c"]["inputs"] == {
        "none": "{{ b.x | default(none) }}",
        "half": "{{ inputs.n }}: {{ b.stdout | default('') }}",
        "run": "{{ run.id }}",
        "inside": [{"known": 3, "of": "dry"}],
    }
    assert unknown["d"]["condition"] is False, "the inputs alone decide that"
    assert unknown["f"]["inputs"] == {"at": "{{ index | default(0) }}"}
    assert foreseen(n=2, since="v1")["b"]["command"] == "git log v1..HEAD"


def card(
    form: Mapping[str, Any] | None, question: Question = Question.ANSWER, call_id: str = "review#1"
) -> ApprovalCard:
    return ApprovalCard(
        approval_id="0123456789ab",
        run_id=RUN,
        call_id=call_id,
        tool="approve",
        args={"message": "Publish\nit?", **({} if form is None else {"form": form})},
        question=question,
        reason="Publish it?",
        rule="step review",
        subject="review",
        alike="",
        agent="workflow:demo",
        target="/here",
        sandbox="A",
        untrusted=(),
        policy_version="1",
        args_hash="",
        created_at=0.0,
        expires_at=0.0,
        status=ApprovalStatus.PENDING,
    )


FORM = {
    "type": "object",
    "properties": {
        "channel": {"type": "string", "enum": ["stable", "beta"], "default": "beta"},
        "count": {"type": "integer", "description": "How many.", "required": True},
        "note": {"type": ["string", "null"]},
    },
}


def test_a_question_of_a_workflow_shows_its_message_and_its_form() -> None:
    lines = shown_card(card(FORM), io.StringIO()).splitlines()
    assert lines[0] == "a workflow asks · 0123456789ab · approve · step review"
    assert lines[1:3] == ["  │ Publish", "  │ it?"]
    assert lines[3:6] == [
        "  fill in: channel (stable | beta, default beta)",
        "  fill in: count (integer, required): How many.",
        "  fill in: note (any)",
    ]
    assert not any(line.startswith("  why:") for line in lines)


def test_a_form_takes_its_own_values_and_insists_on_the_others() -> None:
    assert filled_in(card(FORM), {"count": 1}) == {"channel": "beta", "count": 1}
    assert filled_in(card(FORM), {"count": 1, "channel": "stable"}) == {"channel": "stable", "count": 1}
    with pytest.raises(ApprovalRefused, match="count") as refused:
        filled_in(card(FORM), None)
    assert "--set count=" in refused.value.hint
    assert filled_in(card(None), None) is None
    assert filled_in(card(None, Question.MAY_IT_RUN), {"command": "ls"}) == {"command": "ls"}


@pytest.mark.parametrize(
    "form", [{}, {"properties": []}, {"properties": {"a": 1}}, {"properties": None, "required": 1}, []]
)
def test_a_form_that_makes_no_sense_has_no_fields(form: Any) -> None:
    assert fields_of(card(form)) == []


def test_what_is_typed_into_a_field_has_its_type() -> None:
    channel, count, note = fields_of(card(FORM))
    assert (count.value_of("3"), channel.value_of("3"), note.value_of("free")) == (3, "3", "free")
    assert "must be one of stable, beta" in channel.problem_with("gamma")
    with pytest.raises(InvalidInputs):
        count.value_of("many")


LINEAGE = [
    event(started(reads={"command": ("inputs.who",)}), "say"),
    event(finished(outputs={"stdout": "", "exit_code": 0}), "say"),
    event(started(action="transform", reads={"text": ("say.stdout",), "n": ("inputs.n",)}), "count"),
    event(finished(outputs={"text": "", "n": 1}), "count"),
    event(started(reads={"items": ("count.text",)}, action="for-each"), "each"),
    event(started(reads={"command": ("item", "count.n")}), "each[0].one"),
    event(finished(reads={"short": ("result.stdout",)}, outputs={"short": ""}), "each[0].one"),
]


@pytest.mark.proves("A33-111")
def test_lineage_goes_both_ways_and_through_steps() -> None:
    steps = lineage_of(LINEAGE)
    assert fed_by(steps, "count.text") == ["say.stdout", "inputs.who"]
    assert fed_by(steps, "count.n") == ["inputs.n"]
    assert feeds(steps, "inputs.who") == ["say", "count.text", "each", "each[0].one", "each.results"]
    assert feeds(steps, "inputs.n") == ["count.n", "each[0].one", "each.results"]
    sources = ["each.items", "count.n", "count.text", "inputs.n", "say.stdout", "inputs.who"]
    assert fed_by(steps, "each[0].one.short") == sources
    require_known(steps, "each[0].one.short")
    require_known(steps, "inputs.who")
    with pytest.raises(InvalidInputs, match="nothing"):
        require_known(steps, "nothing.here")
    with pytest.raises(InvalidInputs, match="The step 'count' gave no 'txt'"):
        require_known(steps, "count.txt")


def test_lineage_tells_the_items_of_a_list_apart_and_looks_into_groups() -> None:
    lanes = {
        "fetch": (started(reads={"command": ("inputs.who",)}), {"stdout": ""}),
        "group": (started(action="parallel-group"), {"left": {}}),
        "left": (started(action="transform", reads={"n": ("fetch.stdout",)}), {"n": 1}),
        "each": (started(action="for-each", reads={"items": ("group.left.n",)}), {"results": [], "count": 2}),
        "each[0].one": (started(action="transform", reads={"n": ("item",)}), {"n": 1}),
        "each[0].two": (started(action="transform", reads={"n": ("one.n",)}), {"n": 1}),
        "each[1].one": (started(action="transform", reads={"n": ("inputs.other",)}), {"n": 1}),
        "end": (started(action="transform", reads={"all": ("each.results",)}), {"all": []}),
    }
    steps = lineage_of(
        event(body, lane) for lane, (begun, outputs) in lanes.items() for body in (begun, finished(outputs=outputs))
    )
    assert fed_by(steps, "each[0].two.n") == [
        *("each[0].one.n", "each.items", "group.left.n", "left.n", "fetch.stdout", "inputs.who")
    ]
    assert "inputs.other" in fed_by(steps, "end.all")
    assert feeds(steps, "each[0].one.n") == ["each[0].two.n", "each.results", "end.all"]
    assert fed_by(steps, "each.count") == ["group.left.n", "left.n", "fetch.stdout", "inputs.who"]


def result(**more: Any) -> dict[str, Any]:
    meta = {
        "run_id": "run-0",
        "status": "completed",
        "workspace": "/w",
        "approvals": [],
        "waiting_for": [],
        **more.pop("meta", {}),
    }
    step: dict[str, Any] = {"step_id": "a", "status": "success", "outputs": {}, "error": None, "duration_ms": 1}
    return {
        "outputs": {"a": {"x": 1}},
        "steps_executed": ["a"],
        "step_results": [step],
        "duration_ms": 1500,
        "status": "success",
        "_meta": meta,
        **more,
    }


def test_a_summary_tells_why_a_workflow_failed_in_which_no_step_did() -> None:
    error = {"code": "workflow_failed", "message": "The output 'said' has no value", "hint": ""}
    assert "error: The output 'said' has no value\n" in workflow_summary(result(error=error), io.StringIO())


def test_a_summary_tells_declared_outputs_before_those_of_steps() -> None:
    assert "  a.x: 1\n" in workflow_summary(result(), io.StringIO())
    told = workflow_summary(result(result={"said": "hello"}), io.StringIO())
    assert "  said: hello\n" in told
    assert "a.x" not in told
    assert "success · 1 step done · 1.5 s" in told
    many = result(outputs={f"s{n}": {"x": n} for n in range(100)})
    assert "  s99.x: 99\n" in workflow_summary(many, io.StringIO())
    assert "… and 81 more; see all with --json" in workflow_summary(many, Terminal())


def test_a_text_of_several_lines_keeps_its_lines_and_nothing_is_called_so() -> None:
    told = workflow_summary(result(result={"report": "# Disks\n\n| a | b |\n", "full": []}), io.StringIO())
    assert "  report:\n    # Disks\n\n    | a | b |\n  full: (empty)\n" in told


def test_a_workflow_that_waits_tells_every_way_to_go_on() -> None:
    waits = [
        {"kind": "signal", "step_id": "a", "name": "go"},
        {"kind": "time", "step_id": "b", "until": 0.0},
        {"kind": "run", "step_id": "c", "run_id": "child", "approvals": []},
        {"kind": "approval", "step_id": "d", "approval_id": "1234"},
    ]
    lines = how_to_go_on(result(meta={"status": "waiting", "approvals": ["1234"], "waiting_for": waits}))
    assert lines[0] == "needs a person: fabric approvals show 1234, then fabric approvals approve|deny 1234"
    assert lines[1] == "waits for a signal: fabric workflow signal run-0 go"
    assert lines[3:] == ["waits for run child", "Resume with: fabric resume run-0"]
    assert how_to_go_on(result()) == []
    at_server = how_to_go_on(result(meta={"status": "waiting", "waiting_for": waits}), served=True)
    follow = "fabric logs show run-0 --follow"
    assert at_server[-1] == f"The server continues the run by itself. Watch it: {follow}"


def test_a_call_that_may_have_happened_offers_all_three_answers_and_says_what_they_mean() -> None:
    waiting = result(meta={"status": "waiting", "approvals": ["1234", "5678"]})
    doubtful, usual, _ = how_to_go_on(waiting, in_doubt={"1234"})
    assert doubtful.splitlines() == [
        "needs a person: fabric approvals show 1234, then fabric approvals approve|done|deny 1234",
        "  (approve: run it again; done: it has happened; deny: skip it)",
    ]
    assert usual.endswith("approve|deny 5678")
    lines = shown_card(card(None, Question.DID_IT_HAPPEN, call_id="deploy#1"), io.StringIO()).splitlines()
    assert lines[0] == "it may have happened · 0123456789ab · approve · step deploy"
    assert "  answers: approve: run it again; done: it has happened; deny: skip it" in lines


def asked(question: Question, agent: str = "workflow:demo", **more: Any) -> ApprovalRequested:
    given: dict[str, Any] = {
        "approval_id": "1234",
        "call_id": "deploy#1",
        "tool": "shell",
        "args": {"command": "git push"},
        "reason": "Really?",
        "rule": "r",
        "subject": "shell",
        "alike": "",
        "target": "/here",
        "sandbox": "A",
        "untrusted": (),
        "policy_version": "1",
        "binding": "",
        "args_hash": "",
        "expires_at": 0.0,
    }
    return ApprovalRequested(question=question, agent=agent, **{**given, **more})


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (asked(Question.DID_IT_HAPPEN), "deploy: it may have happened: shell git push"),
        (asked(Question.DID_IT_HAPPEN, "engineering", call_id="call_0"), "it may have happened: shell git push"),
        (asked(Question.MAY_IT_RUN, subject="git push"), "deploy: shell: git push"),
        (asked(Question.ANSWER), "deploy: Really?"),
    ],
)
def test_progress_says_which_step_asks_and_about_what(body: ApprovalRequested, line: str) -> None:
    (shown,) = shown_live([(RUN, [event(body, "deploy")])])
    assert shown.strip() == f"asks a person: {line}"


def test_a_step_that_another_process_began_has_its_line_when_this_one_goes_on_with_it() -> None:
    args = {"command": "make"}
    called = ToolCalled(call_id=CallId("fetch#1"), tool="shell", args=args)
    assert shown_live([(RUN, [event(called, ts=5.0)]), (RUN, [event(finished(), ts=6.0)])]) == [
        "▸ fetch  run-command make",
        "✓ fetch  1.0 s",
    ]
    of_a_model = ToolCalled(call_id=CallId("call_0"), tool="shell", args=args)
    assert shown_live([(RUN, [event(of_a_model, "engineering")])]) == []


@pytest.mark.parametrize("status", ["failed", "waiting", "partial"])
def test_an_output_without_a_value_is_not_told_of_a_workflow_that_did_not_succeed(status: str) -> None:
    told = workflow_summary(result(result={"text": None, "n": 0}, status=status), io.StringIO())
    assert "null" not in told
    assert "  n: 0\n" in told
    assert "text: null" in workflow_summary(result(result={"text": None}), io.StringIO())


@given(ANYTHING)
def test_a_summary_of_a_workflow_holds_nothing_that_steers_a_terminal(text: str) -> None:
    failed = {"step_id": text, "status": "failed", "outputs": {}, "error": text, "duration_ms": 1}
    shown = result(
        outputs={text: {"x": text}},
        step_results=[failed],
        status="failed",
        error={"code": "c", "message": text, "hint": text},
        meta={
            "status": "waiting",
            "waiting_for": [{"kind": "signal", "step_id": text, "name": text}],
        },
    )
    assert not HARMFUL.search(workflow_summary(shown, io.StringIO()))
