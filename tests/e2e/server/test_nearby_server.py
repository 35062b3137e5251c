"""Commands in a folder notice the server that runs for it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agent_fabric.testing.scripted_model import Finish, Script, ScriptedModel
from e2e.fabric_process import Fabric, settings
from e2e.server_process import serving

DONE = Finish(summary="all done", artifacts=[], next_steps=[], notes="")


def asked(log: Path) -> int:
    """Return how many runs were started over HTTP."""
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return sum(line["event"] == "http_request" and line["method"] == "POST" for line in lines)


@pytest.mark.proves("C15")
async def test_a_server_for_this_folder_is_mentioned_and_used_when_that_is_wanted(tmp_path: Path) -> None:
    log = tmp_path / "operations.log"
    async with ScriptedModel(Script(turns=(DONE,))) as model:
        fabric = Fabric(tmp_path, settings(model.base_url, log={"file": str(log)}))
        auto = replace(fabric, server="auto")

        alone = await auto("run", "do it", "--json")
        assert (alone.code, alone.json["_meta"]["status"], alone.err) == (0, "completed", "")

        async with serving(fabric) as server:
            address = fabric.root / "server"
            assert (address.read_text(), address.stat().st_mode & 0o777) == (f"{server.url}\n", 0o600)

            mentioned = await fabric("run", "do it", "--json")
            assert (mentioned.code, mentioned.json["_meta"]["status"]) == (0, "completed")
            assert mentioned.err == f"note: a server runs for this folder at {server.url}; --server auto uses it\n"
            assert asked(log) == 0

            used = await auto("run", "do it", "--json")
            assert (used.code, used.json["_meta"]["status"], used.err) == (0, "completed", "")
            assert asked(log) == 1

            configured = replace(auto, configured={**fabric.configured, "cli": {"server": "auto"}}, server=" ")
            by_setting = await replace(configured, environment={"FABRIC_URL": ""})("run", "do it", "--json")
            assert (by_setting.code, by_setting.err) == (0, "")
            assert asked(log) == 2

            on_the_project = await auto("run", "do it", "--no-ensure", "--json")
            assert on_the_project.code == 0, "what a server cannot do is done in this process"
            assert asked(log) == 2

            await server.kill()
        assert address.exists()
        stale = await auto("run", "do it", "--json")
        assert (stale.code, stale.err) == (0, ""), "the address of a killed server is not believed"

        async with serving(fabric) as server:
            assert address.read_text() == f"{server.url}\n"
            await server.stop()
        assert not address.exists()
