"""The code in the guides is run as a reader would: its files in a folder, its tests, its pack."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent_fabric.config.layers import Offer
from agent_fabric.config.loader import read_config
from agent_fabric.testing.scripted_model import Call, Finish, ScriptedModel
from e2e.fabric_process import Fabric, read_lines, settings
from installed_packages import importable

GUIDES = Path(__file__).parents[3] / "docs/guides"
_FILE = re.compile(r"`([\w./]+)`:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
"""A block of code whose file is named in the line before it."""


def written(guide: str, folder: Path) -> Path:
    """Write the files of a guide into a folder."""
    files: list[tuple[str, str]] = _FILE.findall((GUIDES / guide).read_text(encoding="utf-8"))
    assert files
    for name, text in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


@pytest.mark.proves("AF-106", "AF-111")
@pytest.mark.parametrize("guide", ["write-a-pack.md", "write-a-tool.md"])
def test_the_tests_of_a_guide_pass(guide: str, tmp_path: Path) -> None:
    folder = written(guide, tmp_path)
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-W",
            "error",
            "--strict-config",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:schemathesis",
            str(folder),
        ],
        cwd=folder,
        env={**kept, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


@pytest.mark.proves("AF-106")
async def test_the_pack_of_the_guide_runs_from_the_command_line(tmp_path: Path) -> None:
    folder = written("write-a-pack.md", tmp_path)
    script = (Call("add_item", {"text": "buy milk"}), Call("list_items"), Finish(summary="Added.", count=1))
    async with ScriptedModel(script) as model:
        configured = settings(model.base_url, **json.loads((folder / ".fabric/config.json").read_text()))
        fabric = Fabric(folder, configured, environment={"PYTHONPATH": importable(folder)})
        trusted = await fabric("config", "trust")
        assert trusted.code == 0, trusted.err
        ended = await fabric("run", "--pack", "todo", "Add: buy milk", "--json")
    assert ended.code == 0, ended.err
    assert (ended.json["summary"], ended.json["count"]) == ("Added.", 1)


@pytest.mark.proves("AF-111")
async def test_the_tool_of_the_guide_is_added_to_the_engineer(tmp_path: Path) -> None:
    folder = written("write-a-tool.md", tmp_path)
    script = (
        Call("write_file", {"path": "licence.txt", "content": "You may use this software."}),
        Call("count_words", {"path": "licence.txt", "at_least": 4}),
        Call("shell", {"command": "cat licence.txt"}),
        Finish(summary="Two."),
        Finish(summary="Two."),
    )
    async with ScriptedModel(script) as model:
        configured = settings(model.base_url, **json.loads((folder / ".fabric/config.json").read_text()))
        fabric = Fabric(folder, configured, environment={"PYTHONPATH": importable(folder)})
        trusted = await fabric("config", "trust")
        assert trusted.code == 0, trusted.err
        ended = await fabric("run", "--pack", "engineering", "How many long words?", "--json")
    assert ended.code == 0, ended.err
    (run_dir,) = fabric.run_dirs()
    results = [line["payload"] for line in read_lines(run_dir) if line["kind"] == "tool_result"]
    assert {"words": 2} in [result["result"] for result in results]


def test_the_settings_that_the_guide_ships_are_usable(tmp_path: Path) -> None:
    scope: dict[str, object] = {}
    exec((written("write-a-pack.md", tmp_path) / "todo_settings.py").read_text(), scope)  # the guide's own code
    shipped = scope["SETTINGS"]
    assert isinstance(shipped, dict)
    loaded = read_config({}, packages=lambda: [Offer("todo", "todo 1.0", shipped)])
    assert loaded.left_out == {}
    assert loaded.config.specialists["todo"].builder == "todo_pack:build"
