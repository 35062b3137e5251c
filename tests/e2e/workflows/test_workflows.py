"""`fabric workflow` as people and scripts meet it: real processes, real commands, real exit codes."""

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import ScriptedModel
from e2e.agents.test_agents import GREETER, RESULT
from e2e.cli.test_approvals import at_a_terminal
from e2e.fabric_process import Ended, Fabric, long_sleep, read_lines, running, settings, until

NO_MODEL = "http://127.0.0.1:9/v1"
"""Nobody listens there: no workflow here needs a model."""

GREET: Mapping[str, Any] = {
    "name": "greet",
    "version": "1.0.0",
    "description": "Greets somebody.",
    "inputs": {"who": {"type": "string", "required": True}, "times": {"type": "integer", "default": 2}},
    "outputs": {"said": "{{ say.stdout }}"},
    "steps": [
        {"id": "say", "action": "run-command", "command": "echo hello {{ inputs.who }}"},
        {
            "id": "count",
            "action": "transform",
            "inputs": {"n": "{{ inputs.times * 2 }}", "text": "{{ say.stdout }}"},
            "depends_on": ["say"],
        },
        {
            "id": "often",
            "action": "run-command",
            "command": ["echo", "{{ count.n }}"],
            "condition": "inputs.times > 9",
            "depends_on": ["count"],
        },
    ],
}
FAILS: Mapping[str, Any] = {
    "name": "fails",
    "version": "1.0.0",
    "steps": [
        {"id": "first", "action": "run-command", "command": "echo once"},
        {
            "id": "second",
            "action": "run-command",
            "command": "test -e mended",
            "depends_on": ["first"],
            "retry": {"max_attempts": 2, "delay_seconds": 0.1},
        },
        {"id": "third", "action": "transform", "inputs": {"x": 1}, "depends_on": ["second"]},
    ],
}
ASKS: Mapping[str, Any] = {
    "name": "asks",
    "version": "1.0.0",
    "steps": [
        {
            "id": "review",
            "action": "approve",
            "inputs": {
                "message": "Publish the thing",
                "form": {
                    "type": "object",
                    "properties": {
                        "channel": {"type": "string", "enum": ["stable", "beta"], "default": "beta"},
                        "count": {"type": "integer", "description": "How many.", "minimum": 1},
                    },
                    "required": ["count"],
                    "additionalProperties": False,
                },
            },
        },
        {
            "id": "publish",
            "action": "transform",
            "inputs": {"channel": "{{ review.form.channel }}", "next": "{{ review.form.count + 1 }}"},
            "depends_on": ["review"],
        },
    ],
}
WAITS: Mapping[str, Any] = {
    "name": "waits",
    "version": "1.0.0",
    "steps": [
        {"id": "hold", "action": "wait", "inputs": {"event": "deployed"}},
        {"id": "use", "action": "transform", "inputs": {"v": "{{ hold.data.version }}"}, "depends_on": ["hold"]},
    ],
}
CALLS: Mapping[str, Any] = {
    "name": "calls",
    "version": "1.0.0",
    "steps": [
        {"id": "child", "action": "workflow", "workflow": "asks"},
        {"id": "end", "action": "transform", "inputs": {"n": "{{ child.publish.next }}"}, "depends_on": ["child"]},
    ],
}
META = {
    "run_id",
    "idle_since_sent_back",
    "outcome",
    "effects",
    "sent_back",
    "status",
    "run_dir",
    "workspace",
    "specialist_ids",
    "routing_method",
    "model",
    "steps",
    "usage",
    "cost",
    "egress",
    "duration_s",
    "proof",
    "approvals",
    "continues",
    "node",
    "workflow",
    "forked_from",
    "waiting_for",
}


def fabric_with(folder: Path, *definitions: Mapping[str, Any], base_url: str = NO_MODEL) -> Fabric:
    """Return the command in a folder that has these workflows."""
    files = folder / "workflow-definitions"
    files.mkdir(parents=True)
    for each in definitions:
        (files / f"{each['name']}.json").write_text(json.dumps(each, indent=2))
    return Fabric(folder, settings(base_url))


async def only_question(fabric: Fabric) -> dict[str, Any]:
    ended = await fabric("approvals", "list", "--json")
    (card,) = json.loads(ended.out)
    assert isinstance(card, dict)
    return card


@pytest.mark.proves("A33-041", "A33-057", "A33-058", "A33-142")
async def test_a_file_in_the_folder_is_a_workflow_whose_json_result_has_exactly_the_promised_keys(
    tmp_path: Path,
) -> None:
    fabric = fabric_with(tmp_path, GREET)
    ended = await fabric("workflow", "run", "greet", "-i", "who=Ada L", "--json")
    assert (ended.code, ended.err) == (0, "")
    shown = ended.json
    assert set(shown) == {"outputs", "steps_executed", "step_results", "duration_ms", "status", "result", "_meta"}
    assert set(shown["_meta"]) == META
    assert [set(each) for each in shown["step_results"]] == [
        {"step_id", "status", "outputs", "error", "duration_ms"} for _ in range(3)
    ]
    assert [(each["step_id"], each["status"]) for each in shown["step_results"]] == [
        ("say", "success"),
        ("count", "success"),
        ("often", "skipped"),
    ]
    assert shown["outputs"] == {
        "say": {"exit_code": 0, "stdout": "hello Ada L\n", "stderr": ""},
        "count": {"n": 4, "text": "hello Ada L\n"},
    }
    assert shown["steps_executed"] == ["say", "count"]
    assert (shown["status"], shown["result"]) == ("success", {"said": "hello Ada L\n"})
    assert isinstance(shown["duration_ms"], int)
    assert (shown["_meta"]["status"], shown["_meta"]["waiting_for"]) == ("completed", [])


@pytest.mark.proves("A33-041")
async def test_a_file_anywhere_can_be_run_in_yaml_too_with_inputs_from_files(tmp_path: Path) -> None:
    fabric = fabric_with(tmp_path / "home")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    file = elsewhere / "mine.yaml"
    file.write_text(
        "name: mine\nversion: 1.0.0\ninputs: {text: {type: string, required: true}, n: {type: integer, default: 1}}\n"
        'steps:\n  - id: a\n    action: transform\n    inputs: {text: "{{ inputs.text }}", n: "{{ inputs.n }}"}\n'
    )
    (elsewhere / "long.txt").write_text("from a file")
    (elsewhere / "inputs.json").write_text('{"n": 7, "text": "not this"}')
    ended = await fabric(
        *("workflow", "run", str(file), "--json"),
        *("--inputs", str(elsewhere / "inputs.json"), "-i", f"text=@{elsewhere / 'long.txt'}"),
    )
    assert ended.code == 0, ended.out
    assert ended.json["outputs"]["a"] == {"text": "from a file", "n": 7}


async def test_progress_shows_each_step_without_colours_where_nobody_looks(tmp_path: Path) -> None:
    fabric = fabric_with(tmp_path, GREET)
    ended = await fabric("workflow", "run", "greet", "-i", "who=Bob")
    assert ended.code == 0
    assert "\x1b" not in ended.err + ended.out
    lines = ended.err.splitlines()
    assert "workflow greet 1.0.0" in lines[0]
    assert lines[1] == "▸ say  run-command echo hello Bob"
    assert lines[2].startswith("✓ say  ")
    assert lines[-1] == "– often  skipped: its condition does not hold"
    assert "success · 2 steps done, 1 skipped" in ended.out
    assert "said: hello Bob" in ended.out


@pytest.mark.proves("A33-016")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "greet"), "who is missing"),
        (("run", "greet", "-i", "who=a", "-i", "times=many"), "times must be integer"),
        (("run", "greet", "-i", "who=a", "-i", "whoo=b"), "Did you mean 'who'?"),
        (("run", "greet", "-i", "who"), "has no value"),
        (("run", "greet", "-i", "who=@nowhere"), "cannot be read"),
        (("run", "greet", "--inputs", "nowhere.json"), "cannot be read"),
        (("run", "greeet", "-i", "who=a"), "Did you mean 'greet'?"),
        (("run", "nowhere.yaml"), "there is no such file"),
        (("show", "nothing"), "There is no workflow"),
        (("graph", "greet", "--format", "pdf"), "There is no format"),
        (("resume", "ffff"), "no runs"),
        (("signal", "ffff", "x", "--data", "[1]"), "must be a JSON object"),
    ],
)
async def test_wrong_usage_is_explained_with_exit_code_two(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    fabric = fabric_with(tmp_path, GREET)
    for as_json in ((), ("--json",)) if arguments[0] != "graph" else ((),):
        ended = await fabric("workflow", *arguments, *as_json)
        assert ended.code == 2, ended
        assert said in (ended.json["error"]["message"] + ended.json["error"]["hint"] if as_json else ended.err)
        assert "Traceback" not in ended.err
    assert fabric.run_dirs() == []


async def test_a_broken_file_is_told_with_line_and_step_and_hides_no_other(tmp_path: Path) -> None:
    fabric = fabric_with(tmp_path, GREET)
    broken = tmp_path / "workflow-definitions" / "broken.yaml"
    broken.write_text(
        "name: broken\nversion: 1.0.0\nsteps:\n  - id: a\n    action: run-comand\n    command: ls\n"
        '  - id: b\n    action: transform\n    inputs: {x: "{{ nope.y }}"}\n    depends_on: [c]\n'
    )
    ended = await fabric("workflow", "validate")
    assert ended.code == 2
    lines = ended.out.splitlines()
    assert lines[0] == "workflow-definitions/broken.yaml:5:5: step 'a': there is no action 'run-comand'"
    assert lines[1] == "    Did you mean 'run-command'?"
    assert "\nworkflow-definitions/broken.yaml:9:" in ended.out
    assert "\nworkflow-definitions/broken.yaml:10:" in ended.out
    assert lines[-1] == "2 files checked: 1 wrong"
    told = (await fabric("workflow", "validate", str(broken), "--json")).json
    assert set(told) == {"valid", "files", "problems", "notes"}
    assert [(each["line"], each["step"]) for each in told["problems"]] == [(5, "a"), (9, "b"), (10, "b")]
    assert (await fabric("workflow", "validate", "greet")).code == 0
    refused = await fabric("workflow", "run", "broken")
    assert refused.code == 2
    assert f"{broken}:5:5: step 'a'" in refused.err
    listed = (await fabric("workflow", "list", "--json")).json["workflows"]
    assert [(each["name"], each["usable"]) for each in listed] == [("broken", False), ("greet", True)]
    assert "cannot be used: there is no action" in (await fabric("workflow", "list")).out


@pytest.mark.proves("A33-042")
async def test_triggers_are_shown(tmp_path: Path) -> None:
    fabric = fabric_with(tmp_path, {**GREET, "triggers": {"schedule": "0 3 * * *", "on_event": ["pushed"]}})
    assert "[schedule 0 3 * * *; on_event pushed]" in (await fabric("workflow", "list")).out
    (listed,) = (await fabric("workflow", "list", "--json")).json["workflows"]
    assert [(each["kind"], each["armed"]) for each in listed["triggers"]] == [
        ("manual", True),
        ("schedule", True),
        ("on_event", True),
    ]
    assert "on_event pushed" in (await fabric("workflow", "show", "greet")).out


@pytest.mark.proves("A33-055")
async def test_a_dry_run_makes_no_run_and_tells_every_step_and_command(tmp_path: Path) -> None:
    fabric = fabric_with(tmp_path, GREET)
    ended = await fabric("workflow", "run", "greet", "-i", "who=Ada L", "--dry-run")
    assert ended.code == 0
    assert "$ echo hello 'Ada L'" in ended.out
    assert "n: 4" in ended.out
    assert "text: {{ say.stdout }}" in ended.out
    assert "if inputs.times > 9 (does not hold)" in ended.out
    shown = (await fabric("workflow", "run", "greet", "-i", "who=Ada L", "--dry-run", "--json")).json
    assert shown["status"] == "skipped"
    assert [each["step_id"] for each in shown["step_results"]] == ["say", "count", "often"]
    assert shown["_meta"] == {"run_id": None, "status": None, "dry_run": True}
    assert fabric.run_dirs() == []


@pytest.mark.proves("A33-059")
async def test_after_a_failure_resuming_keeps_what_is_done_in_a_new_run(tmp_path: Path) -> None:
    fabric = fabric_with(tmp_path, FAILS)
    failed = await fabric("workflow", "run", "fails")
    assert failed.code == 1
    assert "✗ second  CommandFailed: exit code 1" in failed.err
    assert "(attempt 1 of 2, again in 0.1 s)" in failed.err
    assert "failed: second: exit code 1" in failed.out
    (run_dir,) = fabric.run_dirs()
    assert f"fabric workflow resume {run_dir.name}" in failed.out
    (run_dir / "workspace" / "mended").touch()
    resumed = await fabric("workflow", "resume", run_dir.name, "--json")
    assert resumed.code == 0, resumed.err
    assert f"A new run continues from run {run_dir.name} and keeps 1 result: first" in resumed.err
    assert resumed.json["_meta"]["forked_from"] == run_dir.name
    assert resumed.json["_meta"]["run_id"] != run_dir.name
    assert resumed.json["status"] == "success"
    new = Path(resumed.json["_meta"]["run_dir"])
    commands = [each["payload"]["args"]["command"] for each in read_lines(new) if each["kind"] == "tool_call"]
    assert commands == ["test -e mended"]
    again = await fabric("workflow", "resume", new.name, "--from", "third", "--json")
    assert again.code == 0
    assert [each["kind"] for each in read_lines(Path(again.json["_meta"]["run_dir"]))].count("tool_call") == 0
    unknown = await fabric("workflow", "resume", new.name, "--from", "thrid")
    assert (unknown.code, "Did you mean 'third'?" in unknown.err) == (2, True)


async def test_partial_success_is_exit_code_one(tmp_path: Path) -> None:
    steps = [
        {"id": "bad", "action": "run-command", "command": "false"},
        {"id": "good", "action": "transform", "inputs": {"x": 1}},
    ]
    definition = {"name": "partly", "version": "1.0.0", "steps": steps, "execution": {"continue_on_error": True}}
    ended = await fabric_with(tmp_path, definition)("workflow", "run", "partly", "--json")
    assert (ended.code, ended.json["status"]) == (1, "partial")
    assert ended.json["outputs"] == {"good": {"x": 1}}
    assert ended.json["error"]["code"] == "workflow_failed"


@pytest.mark.proves("A33-050")
async def test_a_signal_from_another_process_lets_a_waiting_workflow_go_on(tmp_path: Path) -> None:
    fabric = fabric_with(tmp_path, WAITS)
    ended = await fabric("workflow", "run", "waits", "--json")
    assert ended.code == 3
    run_id = ended.json["_meta"]["run_id"]
    assert ended.json["status"] == "waiting"
    assert ended.json["_meta"]["waiting_for"] == [{"kind": "signal", "step_id": "hold", "name": "deployed"}]
    assert [each["status"] for each in ended.json["step_results"]] == ["waiting", "pending"]
    assert f"waits for a signal: fabric workflow signal {run_id} deployed" in ended.err
    told = await fabric("workflow", "signal", run_id, "deployed", "--data", '{"version": "1.2"}')
    assert told.code == 0
    assert f"fabric resume {run_id}" in told.out
    resumed = await fabric("resume", run_id, "--json")
    assert (resumed.code, resumed.json["outputs"]["use"]) == (0, {"v": "1.2"})
    late = await fabric("workflow", "signal", run_id, "deployed")
    assert (late.code, "has ended" in late.err) == (1, True)


@pytest.mark.proves("A33-050")
async def test_a_form_is_answered_without_a_terminal(tmp_path: Path) -> None:
    fabric = fabric_with(tmp_path, ASKS)
    ended = await fabric("workflow", "run", "asks", "--json")
    assert ended.code == 3
    card = await only_question(fabric)
    assert ended.json["_meta"]["approvals"] == [card["id"]]
    assert f"fabric approvals approve|deny {card['id']}" in ended.err
    assert (card["question"], card["args"]["message"]) == ("answer", "Publish the thing")
    shown = (await fabric("approvals", "show", card["id"])).out
    assert "a workflow asks" in shown
    assert "fill in: channel (stable | beta, default beta)" in shown
    assert "fill in: count (integer, required): How many." in shown
    for arguments, code, said in (
        ((), 1, "count"),
        (("--set", "count=x"), 2, "count must be integer"),
        (("--set", "count=0"), 1, "at least 1"),
        (("--set", "cuont=1"), 2, "Did you mean 'count'?"),
        (("--set", "count=1", "--args", '{"count": 2}'), 2, "Use one of the two"),
        (("--args", '{"count": 1, "more": 2}'), 1, "more is not known"),
    ):
        wrong = await fabric("approvals", "approve", card["id"], *arguments)
        assert (wrong.code, said in wrong.err) == (code, True), wrong
    assert (await fabric("approvals", "approve", card["id"], "--set", "count=3")).code == 0
    resumed = await fabric("resume", "--last", "--json")
    assert (resumed.code, resumed.json["outputs"]["publish"]) == (0, {"channel": "beta", "next": 4})


async def test_a_denial_fails_the_workflow_and_says_why(tmp_path: Path) -> None:
    fabric = fabric_with(tmp_path, ASKS)
    await fabric("workflow", "run", "asks")
    card = await only_question(fabric)
    assert (await fabric("approvals", "deny", card["id"], "--reason", "not on a Friday")).code == 0
    ended = await fabric("resume", "--last")
    assert ended.code == 1
    assert "not on a Friday" in ended.out


async def test_a_question_of_a_child_is_told_and_its_answer_goes_on_with_the_whole(tmp_path: Path) -> None:
    fabric = fabric_with(tmp_path, ASKS, CALLS)
    ended = await fabric("workflow", "run", "calls", "--json")
    assert ended.code == 3, ended
    card = await only_question(fabric)
    top = ended.json["_meta"]["run_id"]
    assert card["run_id"] != top
    assert ended.json["_meta"]["approvals"] == [card["id"]]
    (waited,) = ended.json["_meta"]["waiting_for"]
    assert waited == {"kind": "run", "step_id": "child", "run_id": card["run_id"], "approvals": [card["id"]]}
    answered = await fabric("approvals", "approve", card["id"], "--set", "count=3")
    assert f"fabric resume {top}" in answered.out
    resumed = await fabric("resume", top, "--json")
    assert (resumed.code, resumed.json["outputs"]["end"]) == (0, {"n": 4}), resumed


@pytest.mark.parametrize("name", ["asks", "calls"])
@pytest.mark.parametrize(
    ("typed", "code", "expected"),
    [
        ("y\n\n3\n", 0, "channel: beta"),
        ("yes\nnone\nstable\nmany\n0\n7\n", 0, "next: 8"),
        ("n\nnot today\n", 1, "not today"),
        ("l\n", 3, "fabric approvals show"),
    ],
)
async def test_at_a_terminal_forms_are_filled_in_field_by_field(
    tmp_path: Path, name: str, typed: str, code: int, expected: str
) -> None:
    fabric = fabric_with(tmp_path, ASKS, CALLS)
    ended, screen = await at_a_terminal(fabric, typed, ("workflow", "run", name))
    assert "Publish the thing" in screen
    assert expected in screen, screen
    assert ended == code, screen


async def test_children_have_their_own_lines_with_their_run(tmp_path: Path) -> None:
    inner = {"name": "inner", "version": "1.0.0", "steps": [{"id": "deep", "action": "run-command", "command": "true"}]}
    outer = {"name": "outer", "version": "1.0.0", "steps": [{"id": "call", "action": "workflow", "workflow": "inner"}]}
    ended = await fabric_with(tmp_path, inner, outer)("workflow", "run", "outer")
    assert ended.code == 0, ended
    lines = ended.err.splitlines()
    child = next(line for line in lines if line.startswith("▸ call")).rpartition("run ")[2]
    assert f"    {child[:8]}  ▸ deep  run-command true" in lines
    assert [line for line in lines if line.startswith(f"    {child[:8]}  ✓ deep")]
    assert lines[-1].startswith("✓ call")


@pytest.mark.proves("A33-044")
async def test_an_agent_of_a_step_works_in_its_own_run_and_its_tokens_count(tmp_path: Path) -> None:
    calls = {"id": "greet", "action": "invoke-agent", "agent": "greeter", "inputs": {"name": "{{ inputs.who }}"}}
    definition = {
        "name": "hello",
        "version": "1.0.0",
        "inputs": {"who": {"type": "string", "required": True}},
        "outputs": {"said": "{{ greet.greeting }}"},
        "steps": [calls],
    }
    async with ScriptedModel([RESULT]) as model:
        fabric = fabric_with(tmp_path, definition, base_url=model.base_url)
        (tmp_path / "agent-definitions").mkdir()
        (tmp_path / "agent-definitions" / "greeter.md").write_text(GREETER)
        ended = await fabric("workflow", "run", "hello", "-i", "who=Ada", "--json", "--verbose")
        assert ended.code == 0, ended
        assert ended.json["result"] == {"said": "Hello, Ada!"}
        assert ended.json["_meta"]["usage"]["completion_tokens"] > 0
        lines = ended.err.splitlines()
        child = next(line for line in lines if line.startswith("▸ greet")).rpartition("run ")[2]
        assert [line for line in lines if line.startswith(f"    {child[:8]}  ") and "greeter" in line]
        listed = (await fabric("logs", "list", "--json")).json["runs"]
        assert {each["run_id"] for each in listed} == {child, ended.json["_meta"]["run_id"]}


@pytest.mark.proves("A33-111")
async def test_lineage_tells_which_output_fed_which_input(tmp_path: Path) -> None:
    fabric = fabric_with(tmp_path, GREET)
    run_id = (await fabric("workflow", "run", "greet", "-i", "who=a", "--json")).json["_meta"]["run_id"]
    steps = {each["step_id"]: each for each in (await fabric("workflow", "lineage", run_id, "--json")).json["steps"]}
    assert steps["say"]["inputs"] == {"command": ["inputs.who"]}
    assert steps["count"]["inputs"] == {"n": ["inputs.times"], "text": ["say.stdout"]}
    of_text = (await fabric("workflow", "lineage", run_id, "count.text", "--json")).json
    assert of_text["fed_by"] == ["say.stdout", "inputs.who"]
    of_input = (await fabric("workflow", "lineage", run_id, "inputs.who", "--json")).json
    assert of_input["feeds"] == ["say", "count.text"]
    assert "text from say.stdout" in (await fabric("workflow", "lineage", run_id)).out
    assert (await fabric("workflow", "lineage", run_id, "sya.stdout")).code == 2


async def test_cancelling_ends_a_workflow_under_way_with_its_command(tmp_path: Path) -> None:
    sleep = long_sleep()
    definition = {"name": "long", "version": "1.0.0", "steps": [{"id": "s", "action": "run-command", "command": sleep}]}
    fabric = fabric_with(tmp_path, definition)
    started = await fabric.start("workflow", "run", "long", "--json")
    await until(lambda: running(sleep), "the command to start")
    (run_dir,) = fabric.run_dirs()
    cancelled = await fabric("workflow", "cancel", run_dir.name, "--reason", "enough", "--json")
    assert cancelled.code == 0
    assert (cancelled.json["status"], cancelled.json["_meta"]["status"]) == ("failed", "cancelled")
    ended = await started.ended()
    assert (ended.code, ended.json["error"]["code"]) == (1, "cancelled")
    await until(lambda: not running(sleep), "the command to end")


async def test_interrupted_it_exits_130_and_resume_asks_what_became_of_the_command(tmp_path: Path) -> None:
    sleep = long_sleep()
    definition = {"name": "long", "version": "1.0.0", "steps": [{"id": "s", "action": "run-command", "command": sleep}]}
    fabric = fabric_with(tmp_path, definition)
    started = await fabric.start("workflow", "run", "long", "--json")
    await until(lambda: running(sleep), "the command to start")
    started.process.send_signal(signal.SIGINT)
    ended: Ended = await started.ended()
    assert (ended.code, ended.json["status"]) == (130, "interrupted")
    resumed = await fabric("workflow", "resume", ended.json["_meta"]["run_id"], "--json")
    assert resumed.code == 3, resumed
    card = await only_question(fabric)
    assert card["question"] == "did_it_happen"
    for told in (resumed.err, (await fabric("resume", "--last")).out):
        assert f"fabric approvals approve|done|deny {card['id']}\n  (approve: run it again; done: it has" in told
    assert f"{card['id']} · shell · step s\n" in (await fabric("approvals", "show", card["id"])).out
    assert (await fabric("approvals", "done", card["id"])).code == 0
    done = await fabric("resume", "--last", "--json")
    assert (done.code, done.json["outputs"]["s"]["counted_as_done"]) == (0, True), done


async def test_in_the_foreground_the_command_stays_for_a_timer(tmp_path: Path) -> None:
    steps = [{"id": "nap", "action": "wait", "inputs": {"seconds": 0.5}}]
    ended = await fabric_with(tmp_path, {"name": "nap", "version": "1.0.0", "steps": steps})("workflow", "run", "nap")
    assert ended.code == 0
    assert "… nap  waits 0.5 s" in ended.err


@pytest.mark.parametrize("form", ["text", "mermaid", "dot"])
async def test_a_graph_names_every_step(tmp_path: Path, form: str) -> None:
    ended = await fabric_with(tmp_path, GREET)("workflow", "graph", "greet", "--format", form)
    assert ended.code == 0
    assert all(name in ended.out for name in ("say", "count", "often"))


async def test_followed_logs_show_the_steps_of_a_workflow(tmp_path: Path) -> None:
    fabric = fabric_with(tmp_path, GREET)
    run_id = (await fabric("workflow", "run", "greet", "-i", "who=a", "--json")).json["_meta"]["run_id"]
    ended = await fabric("logs", "show", run_id, "--follow", "--jsonl", "--kinds", "step_started,step_finished")
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert [(each["kind"], each["lane"], each["payload"]["step_id"]) for each in lines][:2] == [
        ("step_started", "say", "say"),
        ("step_finished", "say", "say"),
    ]
    assert lines[1]["payload"]["status"] == "success"
    listed = await fabric("logs", "list")
    assert "workflow greet: Greets somebody." in listed.out


async def test_a_run_that_is_no_workflow_is_told_apart(tmp_path: Path) -> None:
    fabric = fabric_with(tmp_path, GREET)
    await fabric("run", "something", "--no-ensure")
    (run_dir,) = fabric.run_dirs()
    for arguments in (("resume", run_dir.name), ("cancel", run_dir.name), ("lineage", run_dir.name)):
        ended = await fabric("workflow", *arguments)
        assert (ended.code, "is not a workflow" in ended.err) == (2, True), ended
