"""The way of `fabric run` to a tool and to a commit is short: a newcomer follows it without a search."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from agent_fabric.testing.scripted_model import Call, Finish, Script, ScriptedModel
from e2e.fabric_process import PATIENCE_S, Fabric, configure, settings

MAX_STOPS = 20
ENDS = {"infrastructure.tools.shell": "__call__", "infrastructure.persistence.group_commits": "serve"}
"""Where the way leads: the tool, and the commit of what happened. What these call is not on the way."""

SCRIPT = """
import json, sys
ends, stops = json.loads(sys.argv[2]), set()
def note(frame, event, _):
    module = frame.f_globals.get("__name__", "").removeprefix("agent_fabric.")
    if event != "call" or ends.get(module) != frame.f_code.co_name:
        return
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("agent_fabric."):
            stops.add(name.removeprefix("agent_fabric."))
        frame = frame.f_back
from agent_fabric.interfaces.cli.main import main
sys.setprofile(note)
try:
    main(sys.argv[3:])
finally:
    sys.setprofile(None)
    with open(sys.argv[1], "w") as file:
        json.dump(sorted(stops), file)
"""
"""Notes which modules stand on the stack when an end of the way is reached."""


@pytest.mark.proves("RM-15")
async def test_a_run_passes_few_modules_on_its_way_to_a_tool_and_to_a_commit(tmp_path: Path) -> None:
    turns = (Call("shell", {"command": "echo hello"}), Finish(summary="done"))
    async with ScriptedModel(Script(turns=turns)) as model:
        fabric, written, config = Fabric(tmp_path, settings(model.base_url)), tmp_path / "way.json", tmp_path / "c.json"
        configure(config, fabric.configured)
        words = (written, json.dumps(ENDS), "run", "say hello", "--pack", "engineering", "--json")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", SCRIPT, *map(str, words)),
            cwd=tmp_path,
            env={**os.environ, "FABRIC_CONFIG_PATH": str(config), "XDG_DATA_HOME": str(tmp_path / "data")},
            stdout=asyncio.subprocess.DEVNULL,
        )
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 0
    stops = set(json.loads(written.read_text()))
    assert {*ENDS, "interfaces.cli.runs.run", "application.tools.invoke_tool"} <= stops
    assert len(stops) <= MAX_STOPS, sorted(stops)
