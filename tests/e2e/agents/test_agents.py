"""Agents from the command line: real processes, a real store, a scripted model."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.runs.new_task import task_from
from agent_fabric.config.loader import read_config
from agent_fabric.domain.runs.task import RunStatus
from agent_fabric.testing.scripted_model import Call, Calls, Entry, Finish, Hang, Say, ScriptedModel, Status, Turn
from e2e.fabric_process import Ended, Fabric, local_fabric, read_lines, settings, until

GREETER = """\
---
name: greeter
version: 1.1.0
role: worker
description: Greets people.
inputs:
  name: {type: string, required: true, description: Whom to greet.}
  times: {type: integer, default: 1}
outputs:
  greeting: string
  length: integer
---
You greet people. Be kind to {{ inputs.name }}.
"""
RESULT = Finish(greeting="Hello, Ada!", length=11)


def fabric(tmp_path: Path, model: ScriptedModel, *, greeter: str = GREETER, **more: Any) -> Fabric:
    folder = tmp_path / "agent-definitions"
    folder.mkdir()
    (folder / "greeter.md").write_text(greeter)
    return Fabric(tmp_path, settings(model.base_url, **more))


def payload(command: Fabric, kind: str) -> dict[str, Any]:
    """Return the first event of a kind of the only run."""
    (run_dir,) = command.run_dirs()
    found: dict[str, Any] = next(line["payload"] for line in read_lines(run_dir) if line["kind"] == kind)
    return found


async def run(
    tmp_path: Path, entries: list[Entry], *arguments: str, **more: Any
) -> tuple[Ended, Fabric, ScriptedModel]:
    """Run the greeter."""
    async with ScriptedModel(entries) as model:
        command = fabric(tmp_path, model, **more)
        return await command("agents", "run", "greeter", *(arguments or ("-i", "name=Ada")), "--json"), command, model


@pytest.mark.proves("A33-020", "A33-023", "A33-024")
async def test_an_agent_without_tools_is_asked_once_and_gives_its_outputs(tmp_path: Path) -> None:
    ended, command, model = await run(tmp_path, [RESULT], "-i", "name=Ada", "-i", "times=2")
    assert ended.code == 0, ended.err
    assert (ended.json["greeting"], ended.json["length"]) == ("Hello, Ada!", 11)
    assert "unproven" not in ended.json
    assert ended.json["_meta"]["specialist_ids"] == ["greeter"]
    (request,) = model.requests
    assert [each["function"]["name"] for each in request.body["tools"]] == ["finish_task"]
    system, user = request.body["messages"]
    assert system["content"].startswith("You greet people. Be kind to Ada.")
    assert user["content"] == "name: Ada\ntimes: 2"
    frozen = payload(command, "run_created")["agent"]
    assert (frozen["name"], frozen["version"], frozen["capabilities"]) == ("greeter", "1.1.0", [])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-i", "times=2"), "name is missing: Whom to greet."),
        (("-i", "nme=Ada"), "there is no input 'nme'"),
        (("-i", "name=Ada", "-i", "times=two"), "times must be integer"),
        (("-i", "name"), "has no value"),
        (("-i", "name=@nowhere.txt"), "cannot be read"),
    ],
)
async def test_wrong_inputs_are_explained_and_nothing_is_run(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    ended, command, model = await run(tmp_path, [RESULT], *arguments)
    assert ended.code == 2
    assert ended.json["error"]["code"] == "inputs_invalid"
    assert message in ended.json["error"]["message"]
    assert ended.json["error"]["hint"]
    assert not command.run_dirs()
    assert not model.requests


async def test_an_input_can_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "who.txt").write_text("Ada\nLovelace")
    ended, command, _ = await run(tmp_path, [RESULT], "-i", "name=@who.txt")
    assert ended.code == 0
    assert payload(command, "run_created")["prompt"] == "name: Ada\nLovelace\ntimes: 1"


async def test_a_missing_output_is_sent_back_and_mended(tmp_path: Path) -> None:
    ended, command, _ = await run(tmp_path, [Finish(greeting="Hello!"), Finish(greeting="Hello!", length="6"), RESULT])
    assert ended.code == 0
    assert ended.json["length"] == 11
    errors = [
        line["payload"]["error_message"] for line in read_lines(command.run_dirs()[0]) if line["kind"] == "tool_error"
    ]
    assert "length is missing" in errors[0]
    assert "length must be integer" in errors[1]


async def test_words_instead_of_outputs_are_asked_for_again_and_then_fail(tmp_path: Path) -> None:
    ended, _, model = await run(tmp_path, [Say("Hello, Ada!")] * 3)
    assert ended.code == 1
    assert ended.json["error"]["code"] == "outputs_missing"
    assert len(model.requests) == 3
    assert "length is missing" in model.requests[1].body["messages"][-1]["content"]


async def test_where_one_text_is_asked_for_plain_words_are_that_text(tmp_path: Path) -> None:
    ended, _, _ = await run(tmp_path, [Say("Hello, Ada!")], greeter=GREETER.replace("  length: integer\n", ""))
    assert ended.code == 0
    assert ended.json["greeting"] == "Hello, Ada!"


@pytest.mark.proves("A33-022")
async def test_capabilities_limit_the_tools(tmp_path: Path) -> None:
    looking = GREETER.replace("inputs:", "capabilities: [file-read]\ninputs:", 1)
    entries: list[Entry] = [
        Calls((Call("shell", {"command": "touch made"}), Call("write_file", {"path": "made", "content": "x"}))),
        Call("list_files", {"path": "."}),
        RESULT,
    ]
    ended, command, model = await run(tmp_path, entries, greeter=looking)
    assert ended.code == 0
    offered = {each["function"]["name"] for each in model.requests[0].body["tools"]}
    assert offered == {"read_file", "list_files", "search_files", "finish_task"}
    errors = [line["payload"]["tool"] for line in read_lines(command.run_dirs()[0]) if line["kind"] == "tool_error"]
    assert errors == ["shell", "write_file"]
    assert not (Path(ended.json["_meta"]["workspace"]) / "made").exists()


async def test_limits_of_the_agent_hold(tmp_path: Path) -> None:
    limited = GREETER.replace("inputs:", "constraints: {max_tokens: 10, timeout: 5}\ninputs:", 1)
    ended, command, _ = await run(tmp_path, [Say("x"), RESULT], greeter=limited)
    assert ended.code == 1
    assert ended.json["error"]["code"] == "budget_exhausted"
    budget = payload(command, "run_created")["budget"]
    assert (budget["max_tokens"], budget["max_seconds"]) == (10, 5)


async def test_an_agent_is_tried_again_as_often_as_it_allows(tmp_path: Path) -> None:
    patient = GREETER.replace("inputs:", "constraints: {retries: 2}\ninputs:", 1)
    refused = Status(400)
    ended, command, _ = await run(tmp_path, [Turn(RESULT, (refused, refused))], greeter=patient)
    assert ended.code == 0, ended.out
    assert len(command.run_dirs()) == 3


async def test_a_run_goes_on_when_the_file_of_its_agent_is_gone(tmp_path: Path) -> None:
    looking = GREETER.replace("inputs:", "capabilities: [file-read]\ninputs:", 1)
    entries: list[Entry] = [
        Call("list_files", {"path": "."}),
        Turn(Call("search_files", {"pattern": "x"}), (Hang(),)),
        RESULT,
    ]
    async with ScriptedModel(entries) as model:
        command = fabric(tmp_path, model, greeter=looking)
        started = await command.start("agents", "run", "greeter", "-i", "name=Ada", "--json")
        await model.wait_for_requests(2, timeout_s=30)
        started.process.kill()
        await started.ended()
        (tmp_path / "agent-definitions" / "greeter.md").unlink()
        ended = await command("resume", "--last", "--json")
    assert ended.code == 0, ended.err
    assert ended.json["greeting"] == "Hello, Ada!"
    kinds = [line["kind"] for line in read_lines(command.run_dirs()[0])]
    assert kinds.count("tool_result") == 3


async def test_agents_are_listed_shown_and_checked(tmp_path: Path) -> None:
    async with ScriptedModel([RESULT]) as model:
        command = fabric(tmp_path, model)
        (tmp_path / "agent-definitions" / "broken.yaml").write_text(
            "name: broken\nrole: nobody\nprompts: {system: x}\n"
        )
        listed = await command("agents", "list", "--json")
        shown = await command("agents", "show", "greeter", "--json")
        in_words = await command("agents", "show", "greeter")
        checked = await command("agents", "validate")
        one = await command("agents", "validate", str(tmp_path / "agent-definitions" / "greeter.md"), "--json")
        unknown = await command("agents", "run", "greter", "--json")
        broken = await command("agents", "run", "broken")
    assert [(each["name"], each["usable"]) for each in listed.json["agents"]] == [("broken", False), ("greeter", True)]
    assert shown.json["inputs"]["times"] == {"type": "integer", "description": "", "required": False, "default": 1}
    assert "name (string, required): Whom to greet." in in_words.out
    assert checked.code == 2
    assert "broken.yaml:2:1: role must be one of" in checked.out
    assert (one.code, one.json["valid"]) == (0, True)
    assert (unknown.code, unknown.json["error"]["code"]) == (2, "definition_not_found")
    assert unknown.json["error"]["hint"] == "Did you mean 'greeter'?"
    assert broken.code == 2
    assert "Traceback" not in broken.err
    assert "not the text 'nobody'" in broken.err


async def test_the_notes_of_a_project_reach_the_model_and_the_record(tmp_path: Path) -> None:
    entries: list[Entry] = [Call("list_files", {"path": "."}), Finish(summary="done")]
    async with ScriptedModel(entries) as model:
        project = tmp_path / "project"
        project.mkdir()
        (project / "AGENTS.md").write_text("Always use tabs.")
        configured = settings(model.base_url)
        task = task_from(read_config({}, overrides=configured).config, "look", pack="engineering", project=project)
        async with local_fabric(tmp_path, configured) as engine:
            result = await engine.execute_task(task)
            run_dir = Path(engine.records.layout.run_dir(result.run_id))
    assert result.status is RunStatus.COMPLETED, result.error
    assert "Always use tabs." in model.requests[0].body["messages"][0]["content"]
    started = next(line["payload"] for line in read_lines(run_dir) if line["kind"] == "pack_start")
    assert "Always use tabs." in started["system_prompt"]


@pytest.mark.proves("A33-141")
async def test_the_agent_of_the_guide_works_as_written(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[3] / "docs/guides/agents.md").read_text(encoding="utf-8")
    text = guide.split("`agent-definitions/greeter.md`:\n\n```markdown\n")[1].split("```")[0]
    async with ScriptedModel([Finish(greeting="Hello, Ada!")]) as model:
        command = fabric(tmp_path, model, greeter=text)
        checked = await command("agents", "validate")
        ended = await command("agents", "run", "greeter", "-i", "name=Ada", "--json")
        in_words = await command("agents", "run", "greeter", "-i", "name=Ada")
    assert "greeting: Hello, Ada!" in in_words.out
    assert (checked.code, checked.out) == (0, "1 file checked: no problems\n")
    assert (ended.code, ended.json["greeting"]) == (0, "Hello, Ada!")


@pytest.mark.parametrize("kind", ["agent", "workflow"])
def test_the_form_of_files_is_printed_for_editors(kind: str) -> None:
    command = [sys.executable, "-m", "agent_fabric.interfaces.cli.main", "schema", kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert json.loads(done.stdout)["title"]


async def test_two_processes_share_an_agent_of_which_only_one_may_be(tmp_path: Path) -> None:
    single = GREETER.replace("inputs:", "constraints: {parallel_allowed: false}\ninputs:", 1)
    async with ScriptedModel([Turn(RESULT, (Hang(),))]) as model:
        command = fabric(tmp_path, model, greeter=single)
        first = await command.start("agents", "run", "greeter", "-i", "name=Ada", "--json")
        await model.wait_for_requests(1, timeout_s=30)
        second = await command.start("agents", "run", "greeter", "-i", "name=Ada", "--json")
        await until(lambda: len(command.run_dirs()) == 2, "the second run is there", timeout_s=30)
        assert len(model.requests) == 1
        first.process.terminate()
        assert (await first.ended()).code == 130
        assert (await second.ended()).code == 0
