"""The policy from the command line: checked, shown, and held against real past runs."""

import json
from pathlib import Path

import pytest

from agent_fabric.domain.ids import RunId
from agent_fabric.domain.runs.changes import FolderSnapshot
from agent_fabric.infrastructure.runs.changes.exposed_files import ExposedFiles
from agent_fabric.infrastructure.runs.changes.folder_snapshots import SnapshotTaker
from agent_fabric.testing.scripted_model import Call, Finish, ScriptedModel
from e2e.fabric_process import Fabric, settings

NO_CAT = {"rules": [{"id": "no-cat", "verdict": "block", "commands": ["cat"], "matches": ["env cat x"]}]}
UNREACHED = "http://127.0.0.1:9/v1"


def fabric(folder: Path, base_url: str = UNREACHED, **policy: object) -> Fabric:
    return Fabric(folder, settings(base_url, policy=policy))


@pytest.mark.proves("A33-084")
async def test_a_command_is_explained_part_by_part_and_the_exit_code_tells(tmp_path: Path) -> None:
    command = fabric(tmp_path, rules=[{"id": "no-jq", "verdict": "block", "commands": ["jq"], "reason": "Use python."}])
    allowed = await command("policy", "check", "ls | wc -l")
    asked = await command("policy", "check", "make test && git push")
    blocked = await command("policy", "check", "bash -c 'git push; jq . x'", "--json")
    assert (allowed.code, asked.code, blocked.code) == (0, 3, 1)
    assert "ask   git push" in asked.out
    assert "outward_effect" in asked.out
    told = json.loads(blocked.out)
    assert (told["verdict"], told["rule"], told["subject"], told["reason"]) == (
        "block",
        "no-jq",
        "jq . x",
        "Use python.",
    )
    assert [part["verdict"] for part in told["parts"]] == ["allow", "ask", "block"]
    assert told["policy_version"].startswith("builtin-")
    without_box = await command("policy", "check", "touch x", "--level", "C")
    assert without_box.code == 3
    assert "no wall" in without_box.out


@pytest.mark.proves("DU-1")
async def test_a_check_says_that_a_call_would_run_outside_the_box(tmp_path: Path) -> None:
    command, forbidden = fabric(tmp_path / "a"), fabric(tmp_path / "b", outside="never")
    for each in (command, forbidden):
        each.folder.mkdir()
    pushes, compound, inside, never = [
        await run("policy", "check", line)
        for run, line in (
            (command, "git push origin main"),
            (command, "make test && git push"),
            (command, "ls"),
            (forbidden, "git push origin main"),
        )
    ]
    told = "Once approved, it runs outside the box, with your network access and credentials.\n"
    assert pushes.out.endswith(told)
    assert "In the box it is refused: 'git push' needs the network" in compound.out
    assert "outside the box" not in inside.out + never.out
    as_json = [
        json.loads((await command("policy", "check", line, "--json")).out)
        for line in ("git push", "make test && git push", "ls")
    ]
    assert [found["outside"] for found in as_json] == [True, False, False]
    assert [bool(found["outside_refusal"]) for found in as_json] == [False, True, False]


async def test_a_check_without_a_box_looks_at_the_git_settings_of_this_folder(tmp_path: Path) -> None:
    command = Fabric(tmp_path, settings(UNREACHED), environment={"HOME": f"{tmp_path}-home"})
    git = tmp_path / ".git"
    for folder in (git / "objects", git / "refs"):
        folder.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text("[core]\n\tbare = false\n")
    assert (await command("policy", "check", "git status", "--level", "C")).code == 0
    (git / "config").write_text("[core]\n\tfsmonitor = ./other\n")
    assert (await command("policy", "check", "git status", "--level", "C")).code == 3
    assert (await command("policy", "check", "git status", "--level", "A")).code == 0


async def test_mistakes_are_explained(tmp_path: Path) -> None:
    command = fabric(tmp_path)
    level = await command("policy", "check", "ls", "--level", "Z")
    assert (level.code, "There is no level 'Z'" in level.err) == (2, True)
    missing = await command("policy", "simulate", str(tmp_path / "none.yaml"))
    assert (missing.code, "does not exist" in missing.err) == (2, True)
    (tmp_path / "wrong.yaml").write_text("rules:\n- id: a\n  verdict: ask\n  commands: [a]\n  matches: [b]\n")
    wrong = await command("policy", "simulate", str(tmp_path / "wrong.yaml"), "--json")
    assert wrong.code == 2
    assert "does not fit its example 'b'" in json.loads(wrong.out)["error"]["message"]
    when = await command("policy", "simulate", str(tmp_path / "wrong.yaml"), "--since", "yesterday")
    assert (when.code, "30d" in when.err) == (2, True)


async def test_the_rules_in_force_are_shown_with_their_origin(tmp_path: Path) -> None:
    (tmp_path / ".fabric").mkdir()
    (tmp_path / ".fabric/team.json").write_text(json.dumps(NO_CAT))
    (tmp_path / "policy.yaml").write_text("rules: [not read]")
    command = fabric(tmp_path, files=["team.json"], profile="node")
    assert (await command("config", "trust")).code == 0
    shown = json.loads((await command("policy", "show", "--json")).out)
    assert shown["profile"] == "node"
    assert [(rule["id"], rule["commands"]) for rule in shown["rules"]] == [("no-cat", ["cat"])]
    assert shown["rules"][0]["origin"].endswith("team.json")
    text = (await command("policy", "show")).out
    assert "no-cat" in text
    assert "only reads runs without a question; everything else asks" in text


async def test_past_calls_are_decided_once_more(tmp_path: Path) -> None:
    script = (
        Call("write_file", {"path": "a.txt", "content": "x"}),
        Call("shell", {"command": "ls | wc -l"}),
        Call("shell", {"command": "ls && cat a.txt"}),
        Finish(summary="done"),
    )
    async with ScriptedModel(script) as model:
        command = fabric(tmp_path, model.base_url)
        ran = await command("run", "--json", "look around")
        assert ran.code == 0, ran.err
    (tmp_path / "stricter.json").write_text(json.dumps(NO_CAT))
    told = json.loads((await command("policy", "simulate", str(tmp_path / "stricter.json"), "--json")).out)
    assert (told["runs"], told["calls"]) == (1, 3)
    [change] = told["changes"]
    assert change["args"] == {"command": "ls && cat a.txt"}
    assert (change["before"]["verdict"], change["after"]["rule"]) == ("allow", "no-cat")
    shown = await command("policy", "simulate", str(tmp_path / "stricter.json"), "--since", "1h")
    assert "1 of 3 calls in 1 run would be decided differently" in shown.out


async def test_a_person_vouches_for_files_that_an_exposed_run_wrote(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    notes = ExposedFiles(tmp_path / ".fabric" / "changes" / "exposed")
    notes.may_write(str(project), RunId("w"), RunId("w"))
    (project / "notes.md").write_text("text")
    empty, full = FolderSnapshot(), SnapshotTaker(None, FolderSnapshot())(project)
    notes.wrote(str(project), RunId("w"), empty, full)
    command = Fabric(tmp_path, settings(UNREACHED), home=project, environment={"HOME": str(tmp_path)})
    told = await command("policy", "vouch", "notes.md")
    assert (told.code, told.out) == (0, "notes.md\n")
    again = await command("policy", "vouch", "notes.md", "--json")
    assert json.loads(again.out) == {"vouched": []}
    assert not notes.exposing(str(project), (".",), reader=RunId("r"))
