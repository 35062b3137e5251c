"""A log that people read, the newest run by name, and what a run changed in a project."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.testing.scripted_model import Call, Calls, Finish, Script, ScriptedModel
from e2e.fabric_process import Fabric, settings
from e2e.server_process import serving

pytestmark = pytest.mark.proves("DU-3")

TRY = Call("shell", {"command": "python3 calc.py"})
LOOK = Call("shell", {"command": "python3 -c 'print(1)'"})
LONG = "\n".join(f"line {number}" for number in range(400))
SCRIPT = Script(
    turns=(
        Calls(
            (Call("write_file", {"path": "calc.py", "content": "def add(a, b):\n    return a + b\n"}),), text="I begin."
        ),
        TRY,
        Finish(summary="calc.py adds.", artifacts=["calc.py"], next_steps=[], notes=""),
    ),
    named={
        "long": (Call("write_file", {"path": "long.txt", "content": LONG}), LOOK, Finish(summary="long")),
        "push": (Call("shell", {"command": "make deploy"}), Finish(summary="pushed")),
    },
)
PRICED = {"price": {"input": 1.0, "output": 2.0}}


async def test_a_log_is_a_transcript_with_times_and_costs(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url, model=PRICED))
        run_id = (await fabric("run", "write it", "--json")).json["_meta"]["run_id"]
        shown = await fabric("logs", "show", run_id)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(f"run {run_id} · owner local · sandbox ")
    said = [line.strip() for line in shown.out.splitlines()]
    wanted = [
        "write it",
        "I begin.",
        "path: calc.py",
        "return a + b",
        "command: python3 calc.py",
        "summary: calc.py adds.",
    ]
    places = [said.index(line) for line in wanted]
    assert places == sorted(places)
    assert any("tokens in, 0 cached" in line and "cost 0.00" in line for line in said)
    assert "You are a careful software engineer." in shown.out, "nothing is folded in a pipe"
    end = re.compile(r"^\d\d:\d\d:\d\d  completed  3 steps, [\d,]+ tokens, \d+\.\d s, cost 0\.00\d+$", re.MULTILINE)
    assert end.search(shown.out)
    assert "\x1b" not in shown.out


async def test_a_transcript_in_a_pipe_leaves_nothing_out(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        await fabric("run", "much [[script=long]]")
        shown = await fabric("logs", "show", "--last")
        some = await fabric("logs", "show", "--last", "--kinds", "llm_request,tool_call")
    assert all(f"            line {number}\n" in shown.out for number in range(400))
    assert [line.split()[1] for line in some.out.splitlines() if line[2:3] == ":"] == [
        *("llm_request", "call"),
        *("llm_request", "call"),
        *("llm_request", "call"),
    ]


async def test_what_was_asked_and_agreed_to_is_told(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        waiting = await fabric("run", "push [[script=push]]", "--json")
        (approval,) = waiting.json["_meta"]["approvals"]
        listed = await fabric("approvals", "list", "--last", "--json")
        assert [card["id"] for card in json.loads(listed.out)] == [approval]
        await fabric("approvals", "deny", approval, "--reason", "not on a Friday")
        await fabric("resume", "--last")
        shown = await fabric("logs", "show", "--last")
    assert f"asks  shell  {approval}\n" in shown.out
    assert "command: make deploy" in shown.out
    assert "answered  deny by " in shown.out
    assert "not on a Friday" in shown.out
    assert "resumed  by a person" in shown.out


async def test_the_newest_run_needs_no_id_in_any_command(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        await fabric("run", "first")
        run_id = (await fabric("run", "second", "--json")).json["_meta"]["run_id"]
        for command in ("resume", "verify", "diff", "undo", "files"):
            answer = await fabric(command, "--last", "--json")
            assert answer.code == 0, answer.err
            assert run_id in answer.out or command == "files"
        assert "has no file" in (await fabric("files", "--last", "calc.py")).err
        assert (await fabric("undo", "--last", "calc.py", "--redo")).code == 0
        assert (await fabric("files", "--last", "calc.py")).out == "def add(a, b):\n    return a + b\n"
        assert run_id in (await fabric("cancel", "--last")).out
        assert run_id in (await fabric("logs", "export", "--last")).out
        assert {call["run_id"] for call in json.loads((await fabric("audit", "list", "--last", "--json")).out)} == {
            run_id
        }
        both, neither = await fabric("verify", run_id, "--last"), await fabric("verify")
    assert both.code == neither.code == 2
    assert "its id, or --last" in both.err


async def test_the_newest_run_is_ones_own_at_a_server(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        home = Fabric(tmp_path / "server", settings(model.base_url))
        async with serving(home) as server:
            ours = Fabric(tmp_path / "ours", {}, server=server.url, environment={"FABRIC_TOKEN": server.token})
            key = (await ours("keys", "create", "ci", "--scope", "runs", "--json")).json["key"]
            theirs = replace(ours, environment={"FABRIC_TOKEN": key})
            mine = (await ours("run", "mine", "--json")).json["_meta"]["run_id"]
            other = (await theirs("run", "other", "--json")).json["_meta"]["run_id"]
            assert (await ours("verify", "--last", "--json")).json["run_id"] == mine
            found = await theirs("verify", "--last", "--json")
            assert found.code == 0, found
            assert found.json["run_id"] == other
            newest = await server.client.get("/runs/newest")
            assert newest.json()["run_id"] == other


@pytest.mark.parametrize("status", ["completed", "waiting"])
async def test_after_a_run_in_a_project_its_changes_are_summed_up(tmp_path: Path, status: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "old.py").write_text("x = 1\n")
    write, edit = (Call("write_file", {"path": path, "content": "x = 2\ny = 3\n"}) for path in ("new.py", "old.py"))
    end = Finish(summary="done") if status == "completed" else Call("shell", {"command": "make deploy"})
    async with ScriptedModel(
        [Call("read_file", {"path": "old.py"}), write, edit, Call("shell", {"command": "python3 new.py"}), end]
    ) as model:
        home = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
        fabric = Fabric(tmp_path / "fabric", settings(model.base_url), home=project, environment=home)
        ended = await fabric("run", "change it", "--here")
        assert ended.code == (0 if status == "completed" else 3), ended.err
        run_id = (await fabric("logs", "list", "--json")).json["runs"][0]["run_id"]
        assert ended.out.endswith(
            "changed: 2 files, +4 -1\n"
            "  created   +2 -0  new.py\n"
            "  modified  +2 -1  old.py\n"
            f"diff:  fabric diff {run_id}\n"
            f"undo:  fabric undo {run_id}\n"
        )
        alone = await fabric("run", "no project", "--json")
        assert "diff:" not in alone.out
