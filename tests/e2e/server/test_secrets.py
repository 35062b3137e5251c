"""`fabric secrets`, and secrets in use: the whole command, and nothing left behind."""

import asyncio
import json
import os
import pty
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_fabric.testing.scripted_model import Call, Finish, ScriptedModel
from e2e.fabric_process import Ended, Fabric, settings
from e2e.fork_server import start_fabric
from e2e.inside_a_run import commands_inside_a_run

SECRET = "sk-8f3a-very-secret-0123456789"
LOOK = Call("list_files", {"path": "."})
DONE = Finish(summary="done", artifacts=[], next_steps=[], notes="")


async def given(fabric: Fabric, text: str, *arguments: str) -> Ended:
    """Run a command with something on its standard input."""
    process = await start_fabric(
        [*arguments, "--workspace", str(fabric.root)],
        cwd=Path.cwd(),
        env={"PATH": os.environ["PATH"], "HOME": str(fabric.folder), **fabric.environment},
        stdin=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(30):
        out, err = await process.communicate(text.encode())
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode(), 0.0, 0)


def holding(text: str, folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.proves("A33-121")
async def test_a_models_key_is_kept_sealed_used_and_stands_nowhere_else(tmp_path: Path) -> None:
    async with ScriptedModel([LOOK, DONE]) as model:
        log = tmp_path / "fabric.log"
        configured = settings(model.base_url, model={"api_key": "file:LAB_KEY"}, log={"file": str(log)})
        fabric = Fabric(tmp_path, configured)
        kept = await given(fabric, f"{SECRET}\n", "secrets", "set", "LAB_KEY", "--stdin")
        assert (kept.code, kept.out) == (0, "LAB_KEY is kept. Refer to it as file:LAB_KEY.\n"), kept.err
        ended = await fabric("run", "do it", "--json")
        assert ended.code == 0, ended.err + ended.out
        listed = await fabric("secrets", "list", "--json")
    assert {request.headers["authorization"] for request in model.requests} == {f"Bearer {SECRET}"}
    (shown,) = listed.json["secrets"]
    assert (shown["name"], shown["source"]) == ("LAB_KEY", "file")
    assert SECRET not in kept.out + ended.out + ended.err + listed.out
    assert holding(SECRET, tmp_path) == []
    assert log.exists()


@pytest.mark.proves("A33-121")
async def test_a_workflow_uses_kept_secrets_but_only_those_that_are_allowed(tmp_path: Path) -> None:
    steps = [{"id": "say", "action": "run-command", "command": ["printf", "%s", "<{{ secrets.TOKEN }}>"]}]
    (tmp_path / "workflow-definitions").mkdir()
    definition = {"name": "say", "version": "1.0.0", "steps": steps}
    (tmp_path / "workflow-definitions" / "say.json").write_text(json.dumps(definition))
    configured: dict[str, Any] = settings("http://127.0.0.1:9/v1")
    fabric = Fabric(tmp_path, configured)
    await given(fabric, SECRET, "secrets", "set", "TOKEN", "--stdin")

    allowed = await fabric("workflow", "run", "say", "--json")
    refused = await Fabric(tmp_path, {**configured, "secrets": {"allow": ["OTHER_*"]}})(
        "workflow", "run", "say", "--json"
    )

    assert allowed.code == 0, allowed.err + allowed.out
    assert allowed.json["outputs"]["say"]["stdout"] == "<[secret TOKEN]>"
    assert refused.code == 1
    assert "workflows may not use it" in refused.out
    assert holding(SECRET, tmp_path) == []


async def test_keys_rotate_and_the_doctor_tells_which_is_in_use(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1"))
    await given(fabric, SECRET, "secrets", "set", "TOKEN", "--stdin")
    rotated = await fabric("secrets", "rotate", "--json")
    assert (rotated.code, rotated.json["new_key"], rotated.json["secrets"]) == (0, True, 1), rotated.err
    assert len(rotated.json["keys"]) == 2
    assert rotated.json["keys"][0] == rotated.json["generation"]
    too_soon = await fabric("secrets", "rotate", "--drop-old", "--yes")
    assert (too_soon.code, "just now" in too_soon.err) == (2, True)
    doctor = await fabric("doctor", "--json")
    (finding,) = [each for each in doctor.json["findings"] if each["about"] == "encryption"]
    assert finding["text"].startswith("on: ")
    assert f"key generation {rotated.json['generation']} and 1 older" in finding["text"]


async def test_what_is_wrong_is_said_in_a_sentence_with_its_code(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1"))
    missing = await fabric("secrets", "remove", "NONE", "--json")
    assert (missing.code, missing.json["error"]["code"]) == (2, "secret_not_found")
    unattended = await fabric("secrets", "set", "TOKEN")
    assert (unattended.code, "--stdin" in unattended.err) == (2, True)
    unasked = await fabric("secrets", "rotate", "--drop-old")
    assert (unasked.code, "--yes" in unasked.err) == (2, True)
    short = await given(fabric, "abc", "secrets", "set", "TOKEN", "--stdin")
    assert (short.code, "too short" in short.err) == (2, True)
    commands = [("secrets", "set", "A", "--stdin"), ("secrets", "remove", "A"), ("secrets", "rotate")]
    for code, said in await commands_inside_a_run(tmp_path, commands):
        assert (code, "A run cannot" in said) == (1, True), said
    assert not (fabric.root / "secrets.sealed").exists()


async def test_a_value_that_is_typed_is_asked_for_twice_and_not_echoed(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agent_fabric.interfaces.cli.main"),
        *("secrets", "set", "TOKEN", "--workspace", str(tmp_path / ".fabric")),
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    seen = b""
    try:
        async with asyncio.timeout(30):
            for prompt in (b"Value of TOKEN: ", b"Once more: "):
                while prompt not in seen:
                    seen += await asyncio.to_thread(os.read, ours, 1_000)
                os.write(ours, f"{SECRET}\n".encode())
            while b"is kept" not in seen:
                seen += await asyncio.to_thread(os.read, ours, 1_000)
            assert await process.wait() == 0
    finally:
        os.close(ours)
    assert SECRET.encode() not in seen
