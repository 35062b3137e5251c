"""`fabric mcp serve` on standard input and output, tried with the official client."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from agent_fabric.testing.scripted_model import ScriptedModel
from e2e.fabric_process import Fabric, configure, settings
from e2e.server_process import serving
from integration.http.served import SCRIPT


def started(fabric: Fabric, *arguments: str, **environment: str) -> StdioServerParameters:
    """Say how a program would start it."""
    config = fabric.folder / "fabric-config.json"
    configure(config, fabric.configured)
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": str(fabric.folder),
        "FABRIC_CONFIG_PATH": str(config),
        **environment,
    }
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "agent_fabric.interfaces.cli.main", "mcp", "serve", *arguments],
        env=variables,
        cwd=fabric.folder,
    )


async def run_task(client: Client) -> dict[str, Any]:
    answer = await client.call_tool("run_task", {"task": "count the otters", "pack": "engineering"})
    assert not answer.is_error, answer.content
    assert answer.structured_content is not None
    return dict(answer.structured_content)


async def test_a_program_that_starts_it_runs_tasks_without_any_server(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        async with Client(started(fabric, "--workspace", str(fabric.root))) as client:
            done = await run_task(client)
            assert (done["status"], done["result"]["summary"]) == ("completed", "all done")
        listed = (await fabric("logs", "list", "--json")).json["runs"]
        assert [run["run_id"] for run in listed] == [done["run_id"]]


async def test_it_says_at_once_that_a_server_is_gone_or_does_not_let_it_in(tmp_path: Path) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1"))
    async with serving(fabric) as server:
        stranger = Fabric(tmp_path / "other", fabric.configured, {"FABRIC_TOKEN": "wrong"}, server=server.url)
        refused = await stranger("mcp", "serve")
    gone = await stranger("mcp", "serve")
    for ended, said in ((refused, "FABRIC_TOKEN was shown"), (gone, "Is the server running?")):
        assert (ended.code, ended.out) == (1, ""), ended.err
        assert said in ended.err


async def test_it_works_at_a_server_and_a_run_cannot_answer_through_it(tmp_path: Path) -> None:
    async with ScriptedModel(SCRIPT) as model:
        fabric = Fabric(tmp_path, settings(model.base_url))
        async with serving(fabric) as server:
            parameters = started(
                fabric, "--server", server.url, FABRIC_TOKEN=server.token, FABRIC_RUN_ID="a-run-of-ours"
            )
            async with Client(parameters) as client:
                assert "answer_approval" not in {tool.name for tool in (await client.list_tools()).tools}
                done = await run_task(client)
            assert [run["run_id"] for run in await server.runs()] == [done["run_id"]]


@pytest.mark.parametrize(
    "options", [["--port", "1"], ["--http", "--server", "http://127.0.0.1:9"], ["--http", "--no-answer"]]
)
async def test_options_that_do_not_go_together_are_refused_and_not_forgotten(
    tmp_path: Path, options: list[str]
) -> None:
    fabric = Fabric(tmp_path, settings("http://127.0.0.1:9/v1"))
    ended = await fabric("mcp", "serve", *options)
    assert (ended.code, ended.out) == (2, "")
    assert options[-1] in ended.err or options[0] in ended.err
