"""Encrypted runs as people meet them: the command line, a server, a kill, and a folder that tells nothing."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.application.runs.new_task import task_from
from agent_fabric.config.loader import read_config
from agent_fabric.domain.runs.task import Budget, Profile
from agent_fabric.infrastructure.runs.log.jsonl_log import JsonlRunLog
from agent_fabric.testing.scripted_model import Call, Finish, Hang, Say, Script, ScriptedModel, Turn
from e2e.fabric_process import Fabric, local_fabric, settings
from integration.http.served import served, task
from integration.persistence.sealed_folder import leaks

PROMPT, COMMAND, LONG, SUMMARY = (f"MARKER-{name}-5f0e" for name in ("prompt", "command", "long", "summary"))
MARKERS = [PROMPT, COMMAND, LONG, SUMMARY]
# What it prints is not in a file of the workspace: those are not encrypted.
PRINT = Call("shell", {"command": f"echo {COMMAND}; for i in $(seq 400); do echo {LONG} $i; done"})
DONE = Finish(summary=SUMMARY, artifacts=[], next_steps=[], notes="")
SCRIPT = Script(turns=(PRINT, DONE), named={"hang": (PRINT, Turn(DONE, faults=(Hang(),)))})


def keys_of(fabric: Fabric) -> Path:
    return (fabric.home or fabric.folder) / ".local" / "share" / "agent-fabric" / "encryption.keys"


async def test_an_encrypted_run_survives_a_kill_and_leaves_nothing_to_read(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        configured = settings(model.base_url, log={"file": str(tmp_path / "operations.log"), "level": "debug"})
        fabric = Fabric(tmp_path, configured, home=tmp_path / "home")
        process = await fabric.start("run", f"{PROMPT} [[script=hang]]", "--encrypt")
        await model.wait_for_requests(2, timeout_s=30)
        process.process.kill()
        await process.process.communicate()
        assert leaks(fabric.root, MARKERS) == []
        (run_dir,) = fabric.run_dirs()
        resumed = await fabric("resume", run_dir.name, "--json")
    assert resumed.code == 0, resumed.err
    assert resumed.json["summary"] == SUMMARY
    assert leaks(fabric.root, MARKERS) == []
    assert leaks(tmp_path, MARKERS) == [], "nor does the operations log tell anything"
    assert not (run_dir / "runlog.jsonl").exists()
    assert keys_of(fabric).stat().st_mode & 0o077 == 0

    shown = await fabric("logs", "show", run_dir.name)
    assert all(marker in shown.out for marker in MARKERS)
    listed = await fabric("logs", "list")
    assert PROMPT in listed.out
    assert (await fabric("verify", run_dir.name)).code == 0
    assert (await fabric("audit", "verify")).code == 0

    keys_of(fabric).rename(tmp_path / "kept.keys")
    for command in (["logs", "show", run_dir.name, "--json"], ["resume", run_dir.name, "--json"]):
        refused = await fabric(*command)
        assert refused.code != 0
        assert refused.json["error"]["code"] == "run_key_missing"
        assert "is encrypted and its key is not here" in refused.json["error"]["message"]
        assert refused.json["error"]["hint"]
    listed = await fabric("audit", "list")
    assert (listed.code, run_dir.name in listed.err) == (0, True)
    (line,) = (await fabric("logs", "list", "--json")).json["runs"]
    assert (line["run_id"], line["status"], line["prompt"]) == (run_dir.name, "completed", "(encrypted)")
    assert (await fabric("audit", "verify")).code == 0, "the chain covers what is stored, so it needs no key"


async def test_only_an_export_by_name_writes_an_encrypted_run_in_the_clear(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url, encryption="all"))
        assert (await fabric("run", PROMPT)).code == 0
    (run_dir,) = fabric.run_dirs()
    every = await fabric("logs", "export")
    assert every.code == 0
    assert f"Run {run_dir.name} is encrypted" in every.err
    assert leaks(fabric.root, MARKERS) == []
    named = await fabric("logs", "export", run_dir.name)
    assert named.out.strip() == str(run_dir / "runlog.jsonl")
    assert PROMPT in (run_dir / "runlog.jsonl").read_text()


WORKFLOW: Mapping[str, Any] = {
    "name": "outer",
    "version": "1.0.0",
    "inputs": {"who": {"type": "string", "required": True}},
    "outputs": {"said": "{{ say.stdout }}"},
    "steps": [
        {"id": "say", "action": "run-command", "command": ["echo", "{{ inputs.who }}"]},
        {
            "id": "below",
            "action": "workflow",
            "workflow": "inner",
            "inputs": {"who": "{{ say.stdout }}"},
            "depends_on": ["say"],
        },
    ],
}
INNER: Mapping[str, Any] = {
    "name": "inner",
    "version": "1.0.0",
    "inputs": {"who": {"type": "string", "required": True}},
    "steps": [{"id": "again", "action": "run-command", "command": ["sh", "-c", "echo $0; exit 1", "{{ inputs.who }}"]}],
}


async def test_a_workflow_the_runs_below_it_and_a_fork_of_it_are_encrypted_together(tmp_path: Path) -> None:
    folder = tmp_path / "workflows"
    folder.mkdir()
    for each in (WORKFLOW, INNER):
        (folder / f"{each['name']}.json").write_text(json.dumps(each))
    fabric = Fabric(tmp_path, {"workflows": {"definitions": [str(folder)]}}, home=tmp_path / "home")
    ended = await fabric("workflow", "run", "outer", "-i", f"who={PROMPT}", "--encrypt", "--json")
    assert ended.code == 1, ended.out
    assert PROMPT in ended.out
    assert len(fabric.run_dirs()) == 2
    forked = await fabric("workflow", "resume", ended.json["_meta"]["run_id"], "--from", "say", "--json")
    assert PROMPT in forked.out
    assert len(fabric.run_dirs()) == 4
    assert leaks(fabric.root, [PROMPT]) == []
    assert not list(fabric.root.rglob("runlog.jsonl"))


@pytest.mark.parametrize(("wanted", "encrypted"), [("sessions", True), ("off", False)])
async def test_chats_are_encrypted_unless_somebody_says_off(tmp_path: Path, wanted: str, encrypted: bool) -> None:
    async with ScriptedModel(Script(turns=(Say(SUMMARY),))) as model:
        configured = settings(model.base_url, encryption=wanted)
        config = read_config({}, overrides=configured).config
        chat = replace(
            task_from(config, PROMPT, pack="engineering"), profile=Profile.CHAT, budget=Budget.of(Profile.CHAT)
        )
        async with local_fabric(tmp_path, configured) as fabric:
            result = await fabric.execute_task(chat)
            events = await fabric.records.runs.read(result.run_id)
            layout = fabric.records.layout
    assert result.payload["summary"] == SUMMARY
    assert bool(leaks(layout.root, [PROMPT])) is not encrypted
    assert Path(layout.runlog(result.run_id)).exists() is not encrypted
    assert JsonlRunLog(layout).export(result.run_id, events).exists()


async def test_a_server_encrypts_what_it_is_asked_to_and_shows_it_as_any_other(tmp_path: Path) -> None:
    async with served(tmp_path, SCRIPT) as server:
        body = {**task(), "prompt": PROMPT, "encrypt": True}
        answer = await server.client.post("/run", json=body)
        assert answer.status_code == 200, answer.text
        run_id = answer.json()["_meta"]["run_id"]
        root = server.fabric.records.layout.root
        assert leaks(root, MARKERS) == []
        events = await server.client.get(f"/runs/{run_id}/events", params={"limit": 1000})
        assert all(marker in events.text for marker in MARKERS)
        listed = await server.client.get("/runs", params={"q": PROMPT})
        assert [line["run_id"] for line in listed.json()["runs"]] == [run_id]
        refused = await server.client.post("/run", json={**body, "encrypt": "yes"})
        assert refused.status_code == 422


def test_yaml_says_off_without_quotes(tmp_path: Path) -> None:
    (tmp_path / "fabric.yaml").write_text("encryption: off\n")
    loaded = read_config({"FABRIC_CONFIG_PATH": str(tmp_path / "fabric.yaml")})
    assert loaded.config.encryption == "off"
    assert read_config({}).config.encryption == "sessions"
